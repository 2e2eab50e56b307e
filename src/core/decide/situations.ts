// Situations: the classes of a job and its observation. The table is read from the top and the first match wins. A row
// only names its situation and collects the values that `reconcile.ts` needs for it; `facts.ts` computes the
// conditions.

import {
  exitEvidence,
  lossEvidence,
  rawError,
  setupEvidence,
  silenceEvidence,
  failedCallEvidence,
  vanishedEvidence,
  workerName,
} from './evidence.ts';
import { attemptFacts, mayRunAfterRemoval } from './facts.ts';
import type { AttemptFacts, View } from './facts.ts';
import type { Evidence, CapacityAnswer } from '../model/job.ts';
import type { NextAlternative } from './alternatives.ts';
import type { Reason, WorkerId } from '../model/spec.ts';
import type { Instant } from '../model/time.ts';

/** Each with the values that its case in `reconcile.ts` needs. */
export type Situation =
  /** The job has left the list, and nothing is observed any more. */
  | { readonly kind: 'removed' }
  /** Nothing more runs without a new start request. */
  | { readonly kind: 'finished' }
  /** The owner ended it before the first attempt or between two attempts. */
  | { readonly kind: 'ended_by_owner' }
  /** It waits for a slot. */
  | { readonly kind: 'queued' }
  | { readonly kind: 'start_requested' }
  /** The attempt must end, and no process of it can be alive. */
  | { readonly kind: 'attempt_over' }
  /** The attempt must end, and a process of it may be alive. */
  | { readonly kind: 'attempt_ending' }
  /** This pass decides that the attempt must end. */
  | {
      readonly kind: 'must_end';
      readonly reason: Reason;
      readonly evidence: Evidence;
      /** Exit time of the program, as its worker reports it. */
      readonly exitAt?: Instant;
    }
  /** A process of another attempt is alive on a worker of this one. */
  | { readonly kind: 'other_attempt_alive' }
  /** An earlier allocation is not seen gone yet. */
  | { readonly kind: 'previous_releasing' }
  /** It is too early for the next attempt. */
  | { readonly kind: 'backoff' }
  /** The observation of the allocation failed. */
  | { readonly kind: 'allocation_unknown' }
  | { readonly kind: 'request'; readonly notBefore: Instant }
  /** The allocation was accepted and was not seen. */
  | { readonly kind: 'missed' }
  /** The alternative has nothing to give, and another one is left. */
  | { readonly kind: 'alternative_exhausted'; readonly answer: CapacityAnswer; readonly next: NextAlternative }
  /** Nothing was requested yet, and another alternative is the better one. */
  | { readonly kind: 'better_alternative'; readonly next: NextAlternative }
  /** The allocation failed before it was ready; another one is requested. */
  | { readonly kind: 'allocation_failed' }
  /** Capacity that was kept for the attempt does not answer; another allocation is requested. */
  | { readonly kind: 'worker_unreachable'; readonly worker: WorkerId }
  /** The allocation is in a queue, being created or under repair. */
  | { readonly kind: 'allocation_pending' }
  /** A worker has setup steps left, or does not answer. */
  | { readonly kind: 'setup' }
  /** Every worker is set up. `workers` are those that have not started the command. */
  | { readonly kind: 'start'; readonly workers: readonly WorkerId[] }
  /** The command was started everywhere and has not ended. */
  | { readonly kind: 'running' };

// ------------------------------------------------------------------------------------------ the table

/** The first row whose `when` holds names the situation, so each row may assume that no row above it holds. */
interface Row<Subject> {
  /** Stored with each commit. `jobman why --explain` shows it. */
  readonly name: string;
  /** One line for people. */
  readonly means: string;
  readonly when: (subject: Subject) => boolean;
  readonly then: (subject: Subject) => Situation;
}

/** The fact that `when` has just tested. Throws if it does not hold, which is an error in the row. */
function requireFact<T>(fact: T | undefined): T {
  if (fact === undefined) throw new Error('a row builds its situation from a fact that it has not asked for');
  return fact;
}

function mustEnd(reason: Reason, evidence: Evidence, exitAt?: Instant): Situation {
  return { kind: 'must_end', reason, evidence, ...(exitAt === undefined ? {} : { exitAt }) };
}

/** Rows about the job. Together they match every job without an open attempt. */
const jobRows = [
  {
    name: 'removed',
    means: 'the job is deleted, and nothing of it is left to end',
    when: (view) => view.job.removed && !mayRunAfterRemoval(view),
    then: () => ({ kind: 'removed' }),
  },
  {
    name: 'finished',
    means: 'the job has finished, and only releases what it may not keep',
    when: ({ job }) => job.finish !== null,
    then: () => ({ kind: 'finished' }),
  },
  {
    name: 'ended-by-owner',
    means: 'no attempt is under way, and its owner wants none',
    when: ({ job, attempt }) => attempt === undefined && job.desired !== 'running',
    then: () => ({ kind: 'ended_by_owner' }),
  },
  {
    name: 'waiting-for-slot',
    means: 'the job is to run, and no slot is free for it',
    when: ({ admitted, attempt }) => attempt === undefined && !admitted,
    then: () => ({ kind: 'queued' }),
  },
  {
    name: 'start-requested',
    means: 'the job is to run, and its next attempt can be made',
    when: ({ attempt }) => attempt === undefined,
    then: () => ({ kind: 'start_requested' }),
  },
] as const satisfies readonly Row<View>[];

/** Rows about the open attempt. The last row matches everything. */
const attemptRows = [
  // ---- the attempt must end: its first reason stays
  {
    name: 'attempt-over',
    means: 'the attempt was to end, and no process of it can be alive any more',
    when: ({ isEnding, isAnythingAlive, isWorkerAwaited }) => isEnding && !isAnythingAlive && !isWorkerAwaited,
    then: () => ({ kind: 'attempt_over' }),
  },
  {
    name: 'attempt-ending',
    means: 'the attempt must end, and a process of it may be alive, or the next one needs a worker that is silent',
    when: ({ isEnding }) => isEnding,
    then: () => ({ kind: 'attempt_ending' }),
  },

  // ---- reasons to end, the most certain first
  {
    // First: the command has done its work, and no later failure changes that.
    name: 'command-succeeded',
    means: 'the command ended well everywhere',
    when: ({ hasSucceeded }) => hasSucceeded,
    then: ({ runs, lastExitAt }) =>
      mustEnd('succeeded', { detail: runs.length === 1 ? 'exit code 0' : 'exit code 0 on every worker' }, lastExitAt),
  },
  {
    name: 'stop-requested',
    means: 'its owner asked to stop, cancel, delete or start it again',
    when: ({ isStopRequested }) => isStopRequested,
    then: () => mustEnd('stopped', { detail: 'asked by the owner' }),
  },
  {
    name: 'recovery-disabled',
    means: 'a recovery rule made this attempt, and its owner wants no further one',
    when: ({ isUnwantedRecovery }) => isUnwantedRecovery,
    then: () => mustEnd('stopped', { detail: 'its owner wants no further attempt' }),
  },
  {
    // Needs no observation: the time limit also holds for a program that cannot be observed.
    name: 'max-runtime-reached',
    means: 'the command ran for as long as job.max_runtime allows',
    when: ({ isPastMaxRuntime }) => isPastMaxRuntime,
    then: () => mustEnd('timed_out', { detail: 'it ran for as long as job.max_runtime allows' }),
  },
  {
    name: 'capacity-wait-reached',
    means: 'no capacity came within the time limit of the job',
    when: ({ isPastCapacityWait }) => isPastCapacityWait,
    then: (facts) =>
      mustEnd('allocation_failed', { detail: 'no capacity came within the time limit', ...rawError(facts) }),
  },
  {
    name: 'alternative-exhausted',
    means: 'this alternative has nothing to give or keeps the request waiting for too long, and another one is left',
    when: ({ exhaustedAlternative }) => exhaustedAlternative !== undefined,
    then: ({ exhaustedAlternative }) => ({ kind: 'alternative_exhausted', ...requireFact(exhaustedAlternative) }),
  },
  {
    name: 'capacity-unobtainable',
    means: 'the cloud refused the request for good, or the persistent TPU to use does not exist',
    when: ({ refusal }) => refusal !== undefined,
    then: ({ refusal }) => {
      const { message, raw } = requireFact(refusal);
      return mustEnd('allocation_failed', { detail: message, raw });
    },
  },
  {
    name: 'preempted',
    means: 'the cloud took the allocation',
    when: ({ wasPreempted }) => wasPreempted,
    then: (facts) => mustEnd('preempted', lossEvidence(facts)),
  },
  {
    // No command ran on it, so the same attempt continues on another one.
    name: 'allocation-failed',
    means: 'the allocation failed before it was ready, and another one is requested',
    when: (facts) => facts.isLost && facts.mayRequestAnother,
    then: () => ({ kind: 'allocation_failed' }),
  },
  {
    name: 'allocation-failed-for-good',
    means: 'the allocation failed before it was ready, and another request would fail too or is not ours to make',
    when: (facts) => facts.isLost,
    then: (facts) => mustEnd('allocation_failed', lossEvidence(facts)),
  },
  {
    // First, because a machine that lost the program explains the failures of the others.
    name: 'program-vanished',
    means: 'a worker answers and knows neither a process nor an exit of the command',
    when: ({ vanishedRun }) => vanishedRun !== undefined,
    then: ({ vanishedRun, attempt }) => mustEnd('unreachable', vanishedEvidence(requireFact(vanishedRun), attempt)),
  },
  {
    name: 'command-failed',
    means: 'the command failed on one worker, so the attempt fails on all',
    when: ({ failedRun }) => failedRun !== undefined,
    then: ({ failedRun, attempt }) => {
      const { workerRun, run } = requireFact(failedRun);
      return mustEnd('command_failed', exitEvidence(workerRun, run, attempt), run.endedAt);
    },
  },
  {
    name: 'hung-after-failed-call',
    means: 'a call between workers failed, and the command has printed nothing since',
    when: ({ hungRun }) => hungRun !== undefined,
    then: ({ hungRun, attempt, job }) =>
      mustEnd('hung', failedCallEvidence(requireFact(hungRun), attempt, job.spec.limits.failedCallTimeout ?? 0)),
  },
  {
    name: 'hung',
    means: 'the command runs and has printed nothing for as long as job.silence_timeout allows',
    when: ({ isPastSilenceTimeout }) => isPastSilenceTimeout,
    then: ({ runs }) => mustEnd('hung', silenceEvidence(runs)),
  },
  {
    // Resuming on kept capacity that does not answer does not count as an attempt, so it uses no budget.
    name: 'kept-capacity-unreachable',
    means: 'a worker of the capacity that was kept for the job does not answer, and another allocation is requested',
    when: ({ workerPastGrace, isOnReplaceableCapacity }) =>
      workerPastGrace !== undefined && workerPastGrace !== 'controller' && isOnReplaceableCapacity,
    then: ({ workerPastGrace }) => ({ kind: 'worker_unreachable', worker: requireFact(workerPastGrace) }),
  },
  {
    name: 'worker-unreachable',
    means: 'the cloud says that the allocation is ready, and a worker has been silent beyond the grace',
    when: ({ workerPastGrace }) => workerPastGrace !== undefined,
    then: ({ workerPastGrace }) => {
      const worker = requireFact(workerPastGrace);
      return mustEnd('unreachable', { detail: `${workerName(worker)} does not answer`, worker });
    },
  },
  {
    name: 'setup-failed',
    means: 'a setup step, or the start of the command, has used up its tries on one worker',
    when: ({ exhaustedTask }) => exhaustedTask !== undefined,
    then: ({ exhaustedTask }) => mustEnd('setup_failed', setupEvidence(requireFact(exhaustedTask))),
  },
  {
    name: 'no-worker-for-command',
    means: 'the command is to run on no worker',
    when: ({ runsOnNoWorker }) => runsOnNoWorker,
    then: () => mustEnd('setup_failed', { detail: 'the command is to run on no worker' }),
  },
  {
    name: 'worker-does-not-exist',
    means: 'the command names a worker that the allocation does not have',
    when: ({ missingWorker }) => missingWorker !== undefined,
    then: ({ missingWorker, allocation }) => {
      const worker = requireFact(missingWorker);
      const detail = `the command is to run on worker ${worker}, and there are ${allocation.workers} workers`;
      return mustEnd('setup_failed', { detail, worker });
    },
  },

  // ---- on the way to a running command
  {
    name: 'other-attempt-alive',
    means: 'a process of another attempt is alive and is ended first',
    when: ({ isOtherAttemptAlive }) => isOtherAttemptAlive,
    then: () => ({ kind: 'other_attempt_alive' }),
  },
  {
    name: 'running',
    means: 'the command was started everywhere, and has not ended',
    when: ({ hasStarted, unstartedWorkers }) => hasStarted && unstartedWorkers.length === 0,
    then: () => ({ kind: 'running' }),
  },
  {
    // The machine was recreated under that name, or has restarted. So may a silent worker.
    name: 'setup-lost',
    means: 'the command is not started yet on every worker, and the setup of one is lost or not known',
    when: ({ hasStarted, isPrepared }) => hasStarted && !isPrepared,
    then: () => ({ kind: 'setup' }),
  },
  {
    name: 'partly-started',
    means: 'the command is not started yet on every worker',
    when: ({ hasStarted }) => hasStarted,
    then: ({ unstartedWorkers }) => ({ kind: 'start', workers: unstartedWorkers }),
  },
  {
    name: 'previous-allocation-releasing',
    means: 'the previous allocation must be seen gone before another one is requested',
    when: ({ isPreviousReleasing }) => isPreviousReleasing,
    then: () => ({ kind: 'previous_releasing' }),
  },
  {
    // Before the slot, which a job gives up during a long backoff (admission.ts). The end of the backoff wakes it.
    name: 'backoff',
    means: 'the pause before this attempt, or before its next request, is not over',
    when: ({ attempt, now }) => attempt.notBefore > now,
    then: () => ({ kind: 'backoff' }),
  },
  {
    name: 'attempt-waiting-for-slot',
    means: 'the next attempt is made, and no slot is free for it',
    when: ({ admitted }) => !admitted,
    then: () => ({ kind: 'queued' }),
  },
  {
    name: 'allocation-unknown',
    means: 'the cloud does not answer, and unknown is no reason to do anything',
    when: ({ isUnknown }) => isUnknown,
    then: () => ({ kind: 'allocation_unknown' }),
  },
  {
    name: 'better-alternative',
    means: 'another job was just refused here, so another alternative is asked first',
    when: ({ betterAlternative }) => betterAlternative !== undefined,
    then: ({ betterAlternative }) => ({ kind: 'better_alternative', next: requireFact(betterAlternative) }),
  },
  {
    name: 'refused-and-unconfirmed',
    means: 'the cloud refuses to show the allocation and no request is confirmed, so it is requested to get its answer',
    when: ({ isUnobservable, mayRequestNow }) => isUnobservable && mayRequestNow,
    then: ({ nextRequestAt }) => ({ kind: 'request', notBefore: nextRequestAt }),
  },
  {
    name: 'request-due',
    means: 'the allocation is absent and no request is confirmed, so it is requested at the pace of the last error',
    when: ({ isAbsent, mayRequestNow }) => isAbsent && mayRequestNow,
    then: ({ nextRequestAt }) => ({ kind: 'request', notBefore: nextRequestAt }),
  },
  {
    // A list right after the request may not show it yet.
    name: 'allocation-missed',
    means: 'the allocation should be there and was not seen, so it is checked again',
    when: ({ isAbsent }) => isAbsent,
    then: () => ({ kind: 'missed' }),
  },
  {
    name: 'allocation-pending',
    means: 'the allocation is in a queue, being created or under repair',
    when: ({ isReady }) => !isReady,
    then: () => ({ kind: 'allocation_pending' }),
  },
  {
    name: 'workers-in-setup',
    means: 'the allocation is ready, and a worker has setup steps left or does not answer',
    when: ({ isPrepared }) => !isPrepared,
    then: () => ({ kind: 'setup' }),
  },
  {
    name: 'setup-done',
    means: 'every worker is set up, and the job has no command',
    when: ({ job }) => job.spec.command.isSetupOnly === true,
    then: () => mustEnd('succeeded', { detail: 'every worker is set up' }),
  },
  {
    name: 'start-due',
    means: 'every worker is set up, and the command is started',
    when: () => true,
    then: ({ runs }) => ({ kind: 'start', workers: runs.map(({ worker }) => worker) }),
  },
] as const satisfies readonly Row<AttemptFacts>[];

export type SituationName = (typeof jobRows)[number]['name'] | (typeof attemptRows)[number]['name'];

/** The rows in order: name and meaning of each situation. */
export const situations: readonly { readonly name: SituationName; readonly means: string }[] = [
  ...jobRows,
  ...attemptRows,
];

export interface Classified {
  readonly row: SituationName;
  readonly situation: Situation;
}

/** Throws if no row matches, which cannot happen. */
export function classify(view: View): Classified {
  const { attempt, allocation } = view;
  const about = firstMatch(jobRows, view);
  if (about !== undefined) return about;
  if (attempt === undefined || allocation === undefined)
    throw new Error(`job ${view.job.id}: no row matches, although some row matches every job without an attempt`);
  const during = firstMatch(attemptRows, attemptFacts({ ...view, attempt, allocation }));
  if (during === undefined)
    throw new Error(`job ${view.job.id}: no row matches, although the last one matches everything`);
  return during;
}

function firstMatch<Subject>(
  rows: readonly (Row<Subject> & { readonly name: SituationName })[],
  subject: Subject,
): Classified | undefined {
  const row = rows.find(({ when }) => when(subject));
  return row === undefined ? undefined : { row: row.name, situation: row.then(subject) };
}
