// Situation: the class that a job and its observation fall in. The table is read from the top and the first match wins.
// Rows only name the situation, and build what its arm in `reconcile.ts` needs; their questions are answered in `facts.ts`.

import {
  exitEvidence,
  lossEvidence,
  rawError,
  setupEvidence,
  silenceEvidence,
  troubleEvidence,
  vanishedEvidence,
  workerName,
} from './evidence.ts';
import { factsOf, mayRunAfterRemoval } from './facts.ts';
import type { Facts, View } from './facts.ts';
import type { Evidence, PlaceAnswer } from './job.ts';
import type { Turn } from './alternatives.ts';
import type { Reason, WorkerId } from './spec.ts';
import type { Instant } from './time.ts';

/** All that a job can be in, each with what its arm needs to know. */
export type Situation =
  /** Off the list; nothing is asked any more. */
  | { readonly kind: 'removed' }
  /** Nothing more will run without a new wish. */
  | { readonly kind: 'settled' }
  /** The owner had it ended before anything ran, or between two attempts. */
  | { readonly kind: 'ended_by_owner' }
  /** It has to wait for its turn. */
  | { readonly kind: 'queued' }
  /** The next attempt can be made. */
  | { readonly kind: 'wanted' }
  /** The attempt must end, and nothing of it can be alive any more. */
  | { readonly kind: 'over' }
  /** The attempt must end, and something of it may be alive. */
  | { readonly kind: 'ending' }
  /** Something decides now that the attempt must end. */
  | {
      readonly kind: 'must_end';
      readonly reason: Reason;
      readonly evidence: Evidence;
      /** When the program ended by itself, by the word of the worker that it ran on. */
      readonly exitAt?: Instant;
    }
  /** A run of another attempt is alive where only this one's may be. */
  | { readonly kind: 'crowded' }
  /** An earlier allocation is still on its way out. */
  | { readonly kind: 'leaving' }
  /** It is too early for the next attempt. */
  | { readonly kind: 'too_early' }
  /** Nobody can say how the allocation is. */
  | { readonly kind: 'unseen' }
  /** The allocation has to be asked for, not before that moment. */
  | { readonly kind: 'to_request'; readonly notBefore: Instant }
  /** The allocation was accepted and does not show yet. */
  | { readonly kind: 'accepted' }
  /** The place has nothing to give, and another is left. */
  | { readonly kind: 'elsewhere'; readonly answer: PlaceAnswer; readonly turn: Turn }
  /** Nothing has been asked for yet, and another place is the better one to ask. */
  | { readonly kind: 'better_place'; readonly turn: Turn }
  /** No capacity came of what was asked for; something else is to be asked for in its place. */
  | { readonly kind: 'no_capacity' }
  /** Capacity that was held for the attempt does not answer; something else is to be asked for in its place. */
  | { readonly kind: 'out_of_reach'; readonly worker: WorkerId }
  /** The allocation is being waited for: in a queue, being made, or under repair. */
  | { readonly kind: 'coming' }
  /** Workers have steps before them, or do not answer. */
  | { readonly kind: 'preparing' }
  /** Every worker is prepared, or some of them have not started yet what the others have. */
  | { readonly kind: 'to_start'; readonly workers: readonly WorkerId[] }
  /** The command is on its way: started everywhere, alive or done wherever somebody answers. */
  | { readonly kind: 'under_way' };

// ------------------------------------------------------------------------------------------ the table

/** One row. The first row whose `when` holds names the situation, so each row may assume that none above it holds. */
interface Row<Subject> {
  /** Kept in the record with each commit, and shown by `jobman why --explain`. */
  readonly name: string;
  /** The same in one line for people. */
  readonly means: string;
  readonly when: (subject: Subject) => boolean;
  readonly then: (subject: Subject) => Situation;
}

/** A fact that `when` has just shown to hold. Throws where it does not: then the row is wrong. */
function shown<T>(fact: T | undefined): T {
  if (fact === undefined) throw new Error('a row builds its situation from a fact that it has not asked for');
  return fact;
}

function mustEnd(reason: Reason, evidence: Evidence, exitAt?: Instant): Situation {
  return { kind: 'must_end', reason, evidence, ...(exitAt === undefined ? {} : { exitAt }) };
}

/** Rows about the job. The last ones match every job without an attempt under way. */
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
    when: ({ job }) => job.settled !== null,
    then: () => ({ kind: 'settled' }),
  },
  {
    name: 'ended-by-owner',
    means: 'no attempt is under way, and its owner wants none',
    when: ({ job, attempt }) => attempt === undefined && job.desired !== 'run',
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
    then: () => ({ kind: 'wanted' }),
  },
] as const satisfies readonly Row<View>[];

/** Rows about the attempt under way. The last one matches whatever is left. */
const attemptRows = [
  // ---- it must end: its reason stands
  {
    name: 'attempt-over',
    means: 'the attempt was to end, and no process of it can be alive any more',
    when: ({ isEnding, mayBeAlive, isWorkerAwaited }) => isEnding && !mayBeAlive && !isWorkerAwaited,
    then: () => ({ kind: 'over' }),
  },
  {
    name: 'attempt-ending',
    means: 'the attempt must end, and a process of it may be alive, or the next one needs a worker that is silent',
    when: ({ isEnding }) => isEnding,
    then: () => ({ kind: 'ending' }),
  },

  // ---- reasons to end, the surest first
  {
    // First: the command has done its work, whatever else is going on.
    name: 'command-succeeded',
    means: 'the command ended well everywhere',
    when: ({ hasSucceeded }) => hasSucceeded,
    then: ({ places, lastExitAt }) =>
      mustEnd('succeeded', { detail: places.length === 1 ? 'exit code 0' : 'exit code 0 on every worker' }, lastExitAt),
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
    // It needs no observation: a program that cannot be seen is running out of time too.
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
    when: ({ alternative }) => alternative !== undefined,
    then: ({ alternative }) => ({ kind: 'elsewhere', ...shown(alternative) }),
  },
  {
    name: 'request-refused',
    means: 'the cloud refused the request for good, or the persistent TPU to use does not exist',
    when: ({ refusal }) => refusal !== undefined,
    then: ({ refusal }) => {
      const { message, raw } = shown(refusal);
      return mustEnd('allocation_failed', { detail: message, raw });
    },
  },
  {
    name: 'preempted',
    means: 'the cloud took the allocation',
    when: ({ wasTaken }) => wasTaken,
    then: (facts) => mustEnd('preempted', lossEvidence(facts)),
  },
  {
    // Nothing was tried on it, so the attempt continues on another one.
    name: 'allocation-failed',
    means: 'the allocation failed before it was ready, and another one is requested',
    when: (facts) => facts.isLost && facts.mayRequestAnother,
    then: () => ({ kind: 'no_capacity' }),
  },
  {
    name: 'allocation-failed-for-good',
    means: 'the allocation failed before it was ready, and another request would fail too or is not ours to make',
    when: (facts) => facts.isLost,
    then: (facts) => mustEnd('allocation_failed', lossEvidence(facts)),
  },
  {
    // A machine that lost the program explains the failures of the others, so it comes first.
    name: 'program-vanished',
    means: 'a worker answers and knows neither a process nor an exit of the command',
    when: ({ vanished }) => vanished !== undefined,
    then: ({ vanished, attempt }) => mustEnd('unreachable', vanishedEvidence(shown(vanished), attempt)),
  },
  {
    name: 'command-failed',
    means: 'the command failed on one worker, so the attempt fails on all',
    when: ({ failed }) => failed !== undefined,
    then: ({ failed, attempt }) => {
      const { place, run } = shown(failed);
      return mustEnd('command_failed', exitEvidence(place, run, attempt), run.endedAt);
    },
  },
  {
    name: 'hung-after-failed-call',
    means: 'a call between workers failed, and the command has printed nothing since',
    when: ({ inTrouble }) => inTrouble !== undefined,
    then: ({ inTrouble, attempt, job }) =>
      mustEnd('hung', troubleEvidence(shown(inTrouble), attempt, job.spec.limits.troubleTimeout ?? 0)),
  },
  {
    name: 'hung',
    means: 'the command runs and has printed nothing for as long as job.silence_timeout allows',
    when: ({ isPastSilenceTimeout }) => isPastSilenceTimeout,
    then: ({ places }) => mustEnd('hung', silenceEvidence(places)),
  },
  {
    // Resuming on kept capacity that does not answer is no try at the command, so it uses up no budget.
    name: 'kept-capacity-unreachable',
    means: 'a worker of the capacity that was kept for the job does not answer, and another allocation is requested',
    when: ({ unreachable, isOnReplaceable }) => unreachable !== undefined && unreachable !== 'here' && isOnReplaceable,
    then: ({ unreachable }) => ({ kind: 'out_of_reach', worker: shown(unreachable) }),
  },
  {
    name: 'worker-unreachable',
    means: 'the cloud says that the allocation is ready, and a worker has been silent beyond the grace',
    when: ({ unreachable }) => unreachable !== undefined,
    then: ({ unreachable }) => {
      const worker = shown(unreachable);
      return mustEnd('unreachable', { detail: `${workerName(worker)} does not answer`, worker });
    },
  },
  {
    name: 'setup-failed',
    means: 'a setup step, or the start of the command, has used up its tries on one worker',
    when: ({ usedUp }) => usedUp !== undefined,
    then: ({ usedUp }) => mustEnd('setup_failed', setupEvidence(shown(usedUp))),
  },
  {
    name: 'no-worker-for-command',
    means: 'the command is to run on no worker',
    when: ({ runsNowhere }) => runsNowhere,
    then: () => mustEnd('setup_failed', { detail: 'the command is to run on no worker' }),
  },
  {
    name: 'worker-does-not-exist',
    means: 'the command names a worker that the allocation does not have',
    when: ({ missingWorker }) => missingWorker !== undefined,
    then: ({ missingWorker, allocation }) => {
      const worker = shown(missingWorker);
      const detail = `the command is to run on worker ${worker}, and there are ${allocation.workers} workers`;
      return mustEnd('setup_failed', { detail, worker });
    },
  },

  // ---- on the way to a running command
  {
    name: 'other-attempt-alive',
    means: 'a process of another attempt is alive and is ended first',
    when: ({ isOtherAlive }) => isOtherAlive,
    then: () => ({ kind: 'crowded' }),
  },
  {
    name: 'running',
    means: 'the command was started everywhere, and has not ended',
    when: ({ hasStarted, unstarted }) => hasStarted && unstarted.length === 0,
    then: () => ({ kind: 'under_way' }),
  },
  {
    // The machine was recreated under that name, or has restarted. A silent worker may have, too.
    name: 'setup-lost',
    means: 'the command is not started yet on every worker, and the setup of one is lost or not known',
    when: ({ hasStarted, isPrepared }) => hasStarted && !isPrepared,
    then: () => ({ kind: 'preparing' }),
  },
  {
    name: 'partly-started',
    means: 'the command is not started yet on every worker',
    when: ({ hasStarted }) => hasStarted,
    then: ({ unstarted }) => ({ kind: 'to_start', workers: unstarted }),
  },
  {
    name: 'previous-allocation-releasing',
    means: 'the previous allocation must be seen gone before another one is requested',
    when: ({ isPreviousLeaving }) => isPreviousLeaving,
    then: () => ({ kind: 'leaving' }),
  },
  {
    // Before the slot, which a job gives up during a long backoff: the end of the backoff is a time to observe.
    name: 'backoff',
    means: 'the pause before this attempt, or before its next request, is not over',
    when: ({ attempt, now }) => attempt.notBefore > now,
    then: () => ({ kind: 'too_early' }),
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
    when: ({ isUnseen }) => isUnseen,
    then: () => ({ kind: 'unseen' }),
  },
  {
    name: 'better-alternative',
    means: 'another job was just refused here, so another alternative is asked first',
    when: ({ better }) => better !== undefined,
    then: ({ better }) => ({ kind: 'better_place', turn: shown(better) }),
  },
  {
    name: 'refused-and-unconfirmed',
    means: 'the cloud refuses to show the allocation and no request is confirmed, so it is requested to get its answer',
    when: ({ isHidden, mayRequest }) => isHidden && mayRequest,
    then: ({ requestAt }) => ({ kind: 'to_request', notBefore: requestAt }),
  },
  {
    name: 'request-due',
    means: 'the allocation is absent and no request is confirmed, so it is requested at the pace of the last error',
    when: ({ isAbsent, mayRequest }) => isAbsent && mayRequest,
    then: ({ requestAt }) => ({ kind: 'to_request', notBefore: requestAt }),
  },
  {
    // A list right after the request may not show it yet.
    name: 'request-accepted',
    means: 'the allocation should be there and was not seen, so it is checked again',
    when: ({ isAbsent }) => isAbsent,
    then: () => ({ kind: 'accepted' }),
  },
  {
    name: 'allocation-pending',
    means: 'the allocation is in a queue, being created or under repair',
    when: ({ isReady }) => !isReady,
    then: () => ({ kind: 'coming' }),
  },
  {
    name: 'workers-in-setup',
    means: 'the allocation is ready, and a worker has setup steps left or does not answer',
    when: ({ isPrepared }) => !isPrepared,
    then: () => ({ kind: 'preparing' }),
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
    then: ({ places }) => ({ kind: 'to_start', workers: places.map(({ worker }) => worker) }),
  },
] as const satisfies readonly Row<Facts>[];

/** Name of a row; a job keeps that of its newest pass or command (`Job.situation`). */
export type SituationName = (typeof jobRows)[number]['name'] | (typeof attemptRows)[number]['name'];

/** The rows in order: each situation that a job can be in, by name, and what it means. */
export const situations: readonly { readonly name: SituationName; readonly means: string }[] = [
  ...jobRows,
  ...attemptRows,
];

/** The situation that the first matching row names, and that row's name. */
export interface Classified {
  readonly row: SituationName;
  readonly situation: Situation;
}

/** Reads the table from the top. Some row matches every view. */
export function classify(view: View): Classified {
  const { attempt, allocation } = view;
  const about = firstMatch(jobRows, view);
  if (about !== undefined) return about;
  if (attempt === undefined || allocation === undefined)
    throw new Error(`job ${view.job.id}: no row matches, although some row matches every job without an attempt`);
  const during = firstMatch(attemptRows, factsOf({ ...view, attempt, allocation }));
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
