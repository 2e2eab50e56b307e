// Situations: the table that classifies a job and its observation. Its first matching row wins. A row only names the
// situation and collects the values that `reconcile.ts` needs to act on it; `facts.ts` computes the conditions.
//
// An example, the preemption of a running job. The cloud reports the allocation as lost: `preempted` records the reason.
// `attempt-ending` then releases the allocation and stops the processes. Once the workers are gone, `attempt-over`
// closes the attempt, and a recovery rule (recover.ts) adds the next one, which resumes from the last checkpoint. That
// attempt waits in `previous-allocation-releasing` until two observations confirm that the old allocation is deleted.
// Then it passes `request-due`, `allocation-pending`, `workers-in-setup` and `start-due`, and is `running` again.

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

/** With the values that its case in `reconcile.ts` needs. The `means` of the rows below explain each kind. */
export type Situation =
  | { readonly kind: 'removed' | 'finished' | 'ended_by_owner' | 'queued' | 'start_requested' }
  | { readonly kind: 'attempt_over' | 'attempt_ending' }
  /** This pass decides that the attempt must end. `exitAt` is the exit time of the program, as its worker reports it. */
  | { readonly kind: 'must_end'; readonly reason: Reason; readonly evidence: Evidence; readonly exitAt?: Instant }
  | { readonly kind: 'other_attempt_alive' | 'previous_releasing' | 'backoff' | 'allocation_unknown' }
  | { readonly kind: 'request'; readonly notBefore: Instant }
  | { readonly kind: 'missed' | 'allocation_failed' | 'allocation_pending' | 'setup' | 'running' }
  | { readonly kind: 'alternative_exhausted'; readonly answer: CapacityAnswer; readonly next: NextAlternative }
  | { readonly kind: 'better_alternative'; readonly next: NextAlternative }
  | { readonly kind: 'worker_unreachable'; readonly worker: WorkerId }
  /** `workers` have not started the command yet. */
  | { readonly kind: 'start'; readonly workers: readonly WorkerId[] };

// ------------------------------------------------------------------------------------------ the table

/** A row may assume that no row above it matches. */
interface Row<Subject> {
  /** Stored with each commit. `jobman why --explain` shows it with `means`. */
  readonly name: string;
  readonly means: string;
  readonly when: (subject: Subject) => boolean;
  readonly then: (subject: Subject) => Situation;
}

/** The fact that the row's `when` has tested. Throws if it does not hold, which is an error in the row. */
function requireFact<T>(fact: T | undefined): T {
  if (fact === undefined) throw new Error('the row uses a fact that its condition does not test');
  return fact;
}

function mustEnd(reason: Reason, evidence: Evidence, exitAt?: Instant): Situation {
  return { kind: 'must_end', reason, evidence, ...(exitAt === undefined ? {} : { exitAt }) };
}

/** Situations of the job. Together they match every job without an open attempt. */
const jobRows = [
  {
    name: 'removed',
    means: 'the job was deleted and has left the list',
    when: (view) => view.job.removed && !mayRunAfterRemoval(view),
    then: () => ({ kind: 'removed' }),
  },
  {
    name: 'finished',
    means: 'the job has finished; only capacity that it may not keep is released',
    when: ({ job }) => job.finish !== null,
    then: () => ({ kind: 'finished' }),
  },
  {
    name: 'ended-by-owner',
    means: 'no attempt is open, and the owner has stopped, cancelled or deleted the job',
    when: ({ job, attempt }) => attempt === undefined && job.desired !== 'running',
    then: () => ({ kind: 'ended_by_owner' }),
  },
  {
    name: 'waiting-for-slot',
    means: 'the job waits for a free slot on this machine',
    when: ({ admitted, attempt }) => attempt === undefined && !admitted,
    then: () => ({ kind: 'queued' }),
  },
  {
    name: 'start-requested',
    means: 'the job can run, and its next attempt is created now',
    when: ({ attempt }) => attempt === undefined,
    then: () => ({ kind: 'start_requested' }),
  },
] as const satisfies readonly Row<View>[];

/** Situations of the open attempt. The last row matches everything. */
const attemptRows = [
  // ---- the attempt is ending
  {
    name: 'attempt-over',
    means: 'the attempt must end and none of its processes can be alive, so it is closed now',
    when: ({ isEnding, isAnythingAlive, isWorkerAwaited }) => isEnding && !isAnythingAlive && !isWorkerAwaited,
    then: () => ({ kind: 'attempt_over' }),
  },
  {
    name: 'attempt-ending',
    means: 'the attempt must end, and jobman stops its processes or waits for a worker that does not answer',
    when: ({ isEnding }) => isEnding,
    then: () => ({ kind: 'attempt_ending' }),
  },

  // ---- the attempt must end now, or needs other capacity; the most certain reason comes first
  {
    // First: the command has done its work, and no later failure changes that.
    name: 'command-succeeded',
    means: 'the command succeeded on every worker',
    when: ({ hasSucceeded }) => hasSucceeded,
    then: ({ runs, lastExitAt }) =>
      mustEnd('succeeded', { message: runs.length === 1 ? 'exit code 0' : 'exit code 0 on every worker' }, lastExitAt),
  },
  {
    name: 'stop-requested',
    means: 'the owner asked to stop, cancel, delete or restart the job',
    when: ({ isStopRequested }) => isStopRequested,
    then: () => mustEnd('stopped', { message: 'requested by the owner' }),
  },
  {
    name: 'recovery-disabled',
    means: 'a recovery rule created this attempt, and the owner has turned automatic recovery off since',
    when: ({ isUnwantedRecovery }) => isUnwantedRecovery,
    then: () => mustEnd('stopped', { message: 'the owner turned automatic recovery off' }),
  },
  {
    // Needs no observation: the time limit also holds for a program that cannot be observed.
    name: 'max-runtime-reached',
    means: 'the command ran for as long as job.max_runtime allows',
    when: ({ isPastMaxRuntime }) => isPastMaxRuntime,
    then: () => mustEnd('timed_out', { message: 'it ran for as long as job.max_runtime allows' }),
  },
  {
    name: 'capacity-wait-reached',
    means: 'the job waited for capacity for as long as its time limit allows',
    when: ({ isPastCapacityWait }) => isPastCapacityWait,
    then: (facts) =>
      mustEnd('allocation_failed', { message: 'the job got no capacity within its time limit', ...rawError(facts) }),
  },
  {
    name: 'alternative-exhausted',
    means: 'this alternative has no capacity or kept the request waiting too long, so the next alternative is tried',
    when: ({ exhaustedAlternative }) => exhaustedAlternative !== undefined,
    then: ({ exhaustedAlternative }) => ({ kind: 'alternative_exhausted', ...requireFact(exhaustedAlternative) }),
  },
  {
    name: 'capacity-unobtainable',
    means: 'the cloud permanently refuses the request, or the persistent TPU does not exist',
    when: ({ refusal }) => refusal !== undefined,
    then: ({ refusal }) => {
      const { message, raw } = requireFact(refusal);
      return mustEnd('allocation_failed', { message: message, raw });
    },
  },
  {
    name: 'preempted',
    means: 'the cloud took the allocation away',
    when: ({ wasPreempted }) => wasPreempted,
    then: (facts) => mustEnd('preempted', lossEvidence(facts)),
  },
  {
    // No command ran on it, so the attempt continues on another allocation.
    name: 'allocation-failed',
    means: 'the allocation failed before it was ready, so another one is requested',
    when: (facts) => facts.isLost && facts.mayRequestAnother,
    then: () => ({ kind: 'allocation_failed' }),
  },
  {
    name: 'allocation-failed-permanently',
    means: 'the allocation failed before it was ready, and another request cannot help',
    when: (facts) => facts.isLost,
    then: (facts) => mustEnd('allocation_failed', lossEvidence(facts)),
  },
  {
    // Before command-failed: a worker that lost the program explains why the command failed on others.
    name: 'program-vanished',
    means: 'a worker answers, but it has neither the process of the command nor its exit code',
    when: ({ vanishedRun }) => vanishedRun !== undefined,
    then: ({ vanishedRun, attempt }) => mustEnd('unreachable', vanishedEvidence(requireFact(vanishedRun), attempt)),
  },
  {
    name: 'command-failed',
    means: 'the command failed on one worker, so the attempt ends on all workers',
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
      mustEnd('hung', failedCallEvidence(requireFact(hungRun), attempt, job.spec.limits.failedCallTimeoutMs ?? 0)),
  },
  {
    name: 'hung',
    means: 'the command has printed nothing for as long as job.silence_timeout allows',
    when: ({ isPastSilenceTimeout }) => isPastSilenceTimeout,
    then: ({ runs }) => mustEnd('hung', silenceEvidence(runs)),
  },
  {
    // Nothing has started on it yet, so the attempt continues and no budget is used.
    name: 'kept-capacity-unreachable',
    means: 'a worker of the kept capacity does not answer, so another allocation is requested',
    when: ({ workerPastGrace, isOnReplaceableCapacity }) =>
      workerPastGrace !== undefined && workerPastGrace !== 'controller' && isOnReplaceableCapacity,
    then: ({ workerPastGrace }) => ({ kind: 'worker_unreachable', worker: requireFact(workerPastGrace) }),
  },
  {
    name: 'worker-unreachable',
    means: 'a worker has not answered for longer than the grace period, although the cloud reports it as ready',
    when: ({ workerPastGrace }) => workerPastGrace !== undefined,
    then: ({ workerPastGrace }) => {
      const worker = requireFact(workerPastGrace);
      return mustEnd('unreachable', { message: `${workerName(worker)} does not answer`, worker });
    },
  },
  {
    name: 'setup-failed',
    means: 'a setup step or the start of the command failed too often on one worker',
    when: ({ exhaustedTask }) => exhaustedTask !== undefined,
    then: ({ exhaustedTask }) => mustEnd('setup_failed', setupEvidence(requireFact(exhaustedTask))),
  },
  {
    name: 'no-worker-for-command',
    means: 'the manifest names no worker to run the command on',
    when: ({ runsOnNoWorker }) => runsOnNoWorker,
    then: () => mustEnd('setup_failed', { message: 'the manifest names no worker to run the command on' }),
  },
  {
    name: 'worker-does-not-exist',
    means: 'the command names a worker that the allocation does not have',
    when: ({ missingWorker }) => missingWorker !== undefined,
    then: ({ missingWorker, allocation }) => {
      const worker = requireFact(missingWorker);
      const detail = `the command names worker ${worker}, but there are only ${allocation.workers} workers`;
      return mustEnd('setup_failed', { message: detail, worker });
    },
  },

  // ---- the steps to a running command
  {
    name: 'other-attempt-alive',
    means: 'a process of another attempt is still alive and is stopped first',
    when: ({ isOtherAttemptAlive }) => isOtherAttemptAlive,
    then: () => ({ kind: 'other_attempt_alive' }),
  },
  {
    name: 'running',
    means: 'the command has started on every worker and has not ended',
    when: ({ hasStarted, unstartedWorkers }) => hasStarted && unstartedWorkers.length === 0,
    then: () => ({ kind: 'running' }),
  },
  {
    // Its machine was recreated or has restarted.
    name: 'setup-lost',
    means: 'the command has started on some workers; another worker has lost its setup or does not answer',
    when: ({ hasStarted, isPrepared }) => hasStarted && !isPrepared,
    then: () => ({ kind: 'setup' }),
  },
  {
    name: 'partly-started',
    means: 'the command has started on some workers and is started on the others now',
    when: ({ hasStarted }) => hasStarted,
    then: ({ unstartedWorkers }) => ({ kind: 'start', workers: unstartedWorkers }),
  },
  {
    name: 'previous-allocation-releasing',
    means: 'the next allocation is requested once the previous one is deleted',
    when: ({ isPreviousReleasing }) => isPreviousReleasing,
    then: () => ({ kind: 'previous_releasing' }),
  },
  {
    // Before attempt-waiting-for-slot, because a job gives up its slot during a long backoff (admission.ts).
    name: 'backoff',
    means: 'the delay before this attempt or its next request is not over',
    when: ({ attempt, now }) => attempt.notBeforeAt > now,
    then: () => ({ kind: 'backoff' }),
  },
  {
    name: 'attempt-waiting-for-slot',
    means: 'the next attempt waits for a free slot on this machine',
    when: ({ admitted }) => !admitted,
    then: () => ({ kind: 'queued' }),
  },
  {
    name: 'allocation-unknown',
    means: 'the cloud does not answer, so nothing is changed',
    when: ({ isUnknown }) => isUnknown,
    then: () => ({ kind: 'allocation_unknown' }),
  },
  {
    name: 'better-alternative',
    means: 'this alternative refused another job recently, so another alternative is tried first',
    when: ({ betterAlternative }) => betterAlternative !== undefined,
    then: ({ betterAlternative }) => ({ kind: 'better_alternative', next: requireFact(betterAlternative) }),
  },
  {
    name: 'allocation-hidden',
    means: 'the cloud does not show the allocation to us, so a request is sent to get its answer',
    when: ({ isUnobservable, mayRequestNow }) => isUnobservable && mayRequestNow,
    then: ({ nextRequestAt }) => ({ kind: 'request', notBefore: nextRequestAt }),
  },
  {
    name: 'request-due',
    means: 'the allocation does not exist, and its request is sent as soon as the last error allows',
    when: ({ isAbsent, mayRequestNow }) => isAbsent && mayRequestNow,
    then: ({ nextRequestAt }) => ({ kind: 'request', notBefore: nextRequestAt }),
  },
  {
    // A list right after the request may not show it yet.
    name: 'allocation-missed',
    means: 'the request was accepted, but the cloud does not list the allocation, so it is checked again',
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
    means: 'the allocation is ready, and a worker is being set up or does not answer',
    when: ({ isPrepared }) => !isPrepared,
    then: () => ({ kind: 'setup' }),
  },
  {
    name: 'setup-done',
    means: 'every worker is set up, and the job has no command',
    when: ({ job }) => job.spec.command.isSetupOnly === true,
    then: () => mustEnd('succeeded', { message: 'every worker is set up' }),
  },
  {
    name: 'start-due',
    means: 'every worker is set up, and the command is started now',
    when: () => true,
    then: ({ runs }) => ({ kind: 'start', workers: runs.map(({ worker }) => worker) }),
  },
] as const satisfies readonly Row<AttemptFacts>[];

export type SituationName = (typeof jobRows)[number]['name'] | (typeof attemptRows)[number]['name'];

/** All rows, in order. */
export const situations: readonly { readonly name: SituationName; readonly means: string }[] = [
  ...jobRows,
  ...attemptRows,
];

export interface Classified {
  readonly row: SituationName;
  readonly situation: Situation;
}

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
