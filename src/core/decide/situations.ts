// Situations: the table of what can happen to a job, and what a pass then does. The first row that matches acts.
// `facts.ts` computes the conditions.
//
// An example, the preemption of a running job on an ephemeral TPU:
//
// 1. The cloud reports the TPU as lost. The row `preempted` records that the attempt must end, and why.
// 2. In the same pass `attempt-ending` releases the TPU and stops the programs on the workers that still answer.
// 3. `attempt-over` closes the attempt once each program has ended or its worker is deleted with the TPU. A recovery rule
//    (recover.ts) then adds the next attempt, or fails the job if its budget is used up.
// 4. The next attempt waits in `previous-allocation-releasing` if two observations have not confirmed the deletion yet.
//    Then it passes `request-due`, `allocation-pending`, `workers-in-setup` and `start-due`, and is `running` again from
//    the last checkpoint.

import {
  beginAttempt,
  confirmAbsence,
  nextCheckAt,
  request,
  setUp,
  start,
  waitForBackoff,
  waitForCapacity,
  waitForReady,
  watchRun,
} from './advance.ts';
import { replaceFailedAllocation, switchAllocation } from './allocate.ts';
import { chooseAlternative, tryNextAlternative } from './alternatives.ts';
import { closeAttempt, endAttempt, stopAttempt, stopOtherRuns } from './end.ts';
import {
  exitEvidence,
  failedCallEvidence,
  lossEvidence,
  rawError,
  requestedBy,
  setupEvidence,
  silenceEvidence,
  vanishedEvidence,
} from './evidence.ts';
import { attemptFacts, mayRunAfterRemoval, type AttemptFacts } from './facts.ts';
import { cleanUp, finishJob } from './finish.ts';
import { recheckNow, withoutEvents, wait, type Decision } from '../model/decision.ts';
import { stoppedVerdict } from './recover.ts';
import { budgetEvidence } from './spending.ts';
import { formatWorker, operationOf } from '../model/spec.ts';
import type { View } from './view.ts';

/** A row may assume that no row above it matches. */
interface Row<Subject> {
  /** Stored with each commit. `jobman why --explain` shows it with `means`. */
  readonly name: string;
  readonly means: string;
  readonly when: (subject: Subject) => boolean;
  readonly then: (subject: Subject) => Decision;
}

/** The fact that the row's `when` has tested. Throws if it does not hold, which is an error in the row. */
function requireFact<T>(fact: T | undefined): T {
  if (fact === undefined) throw new Error('the row uses a fact that its condition does not test');
  return fact;
}

/** Situations of the job. Together they match every job without an open attempt. */
const jobRows = [
  {
    name: 'removed',
    means: 'the job was deleted and has left the list',
    when: (view) => view.job.removed && !mayRunAfterRemoval(view),
    then: ({ job }) => wait(job),
  },
  {
    name: 'finished',
    means: 'the job has finished; only capacity that it may not keep is released',
    when: ({ job }) => job.finish !== null,
    then: ({ job, budgets, now }) => cleanUp(withoutEvents(job), budgets, now),
  },
  {
    name: 'ended-by-owner',
    means: 'no attempt is open, and the owner has stopped, cancelled or deleted the job',
    when: ({ job, attempt }) => attempt === undefined && job.desired !== 'running',
    then: ({ job, budgets, now }) => cleanUp(finishJob(job, stoppedVerdict(job), 'stopped', now), budgets, now),
  },
  {
    name: 'waiting-for-tpu',
    means: 'another job uses the persistent TPU on which this job is to run',
    when: ({ job, admitted, attempt }) => attempt === undefined && !admitted && job.spec.capacity.kind === 'tpu',
    then: ({ job }) => wait(job),
  },
  {
    name: 'waiting-for-slot',
    means: 'the job waits for a free slot on its machines',
    when: ({ admitted, attempt }) => attempt === undefined && !admitted,
    then: ({ job }) => wait(job),
  },
  {
    name: 'start-requested',
    means: 'the job can run, and its next attempt is created now',
    when: ({ attempt }) => attempt === undefined,
    then: ({ job, slots, now }) => recheckNow(beginAttempt(job, slots, now), now),
  },
] as const satisfies readonly Row<View>[];

/** Situations of the open attempt. The last row matches everything. */
const attemptRows = [
  // ---- the attempt is ending
  {
    name: 'attempt-over',
    means: 'the attempt must end and none of its processes can be alive, so it is closed now',
    when: ({ isEnding, isAnythingAlive, isWorkerAwaited }) => isEnding && !isAnythingAlive && !isWorkerAwaited,
    then: closeAttempt,
  },
  {
    name: 'attempt-ending',
    means: 'the attempt must end, and jobman stops its processes, releases its capacity or waits for a silent worker',
    when: ({ isEnding }) => isEnding,
    then: stopAttempt,
  },

  // ---- the attempt must end now, or needs other capacity; the most certain reason comes first
  {
    // First: the command has done its work, and no later failure changes that.
    name: 'command-succeeded',
    means: 'the command succeeded on every worker',
    when: ({ hasCommandSucceeded }) => hasCommandSucceeded,
    then: (facts) => {
      const message = facts.runs.length === 1 ? 'exit code 0' : 'exit code 0 on every worker';
      return endAttempt(facts, 'succeeded', { message }, facts.lastExitAt);
    },
  },
  {
    name: 'stop-requested',
    means: 'the owner, or another user for the owner, asked to stop, cancel, delete or restart the job',
    when: ({ isStopRequested }) => isStopRequested,
    then: (facts) => endAttempt(facts, 'stopped', requestedBy(facts.job)),
  },
  {
    // The reason is `stopped`: the owner wants no further attempt.
    name: 'recovery-disabled',
    means: 'a recovery rule created this attempt, and the owner has turned automatic recovery off since',
    when: ({ isUnwantedRecovery }) => isUnwantedRecovery,
    then: (facts) => endAttempt(facts, 'stopped', { message: 'the owner turned automatic recovery off' }),
  },
  {
    // Needs no observation: the time limit also holds for a program that cannot be observed.
    name: 'max-runtime-reached',
    means: 'the command ran for as long as job.max_runtime allows',
    when: ({ isPastMaxRuntime }) => isPastMaxRuntime,
    then: (facts) => endAttempt(facts, 'timed_out', { message: 'it ran for as long as job.max_runtime allows' }),
  },
  {
    // Needs no observation either: what is ready is charged, whether the cloud answers or not.
    name: 'budget-used',
    means: 'the capacity of the job has cost as much as job.budget allows, or its owner has used a budget of a grant',
    when: ({ usedBudget }) => usedBudget !== undefined,
    then: (facts) => endAttempt(facts, 'budget', budgetEvidence(requireFact(facts.usedBudget), facts.job.owner)),
  },
  {
    name: 'capacity-wait-reached',
    means: 'the job waited for capacity for as long as its time limit allows',
    when: ({ isPastCapacityWait }) => isPastCapacityWait,
    then: (facts) => {
      const message = 'the job got no capacity within its time limit';
      return endAttempt(facts, 'allocation_failed', { message, ...rawError(facts) });
    },
  },
  {
    name: 'alternative-exhausted',
    means: 'this alternative has no capacity or kept the request waiting too long, so the next alternative is tried',
    when: ({ exhaustedAlternative }) => exhaustedAlternative !== undefined,
    then: ({ job, attempt, now, exhaustedAlternative }) =>
      recheckNow(tryNextAlternative(job, attempt, requireFact(exhaustedAlternative), now), now),
  },
  {
    name: 'capacity-unobtainable',
    means: 'the cloud permanently refuses the request or the release, or the persistent TPU does not exist',
    when: ({ refusal }) => refusal !== undefined,
    then: (facts) => {
      const { message, raw } = requireFact(facts.refusal);
      return endAttempt(facts, 'allocation_failed', { message, raw });
    },
  },
  {
    name: 'preempted',
    means: 'the cloud took the allocation away',
    when: ({ wasPreempted }) => wasPreempted,
    then: (facts) => endAttempt(facts, 'preempted', lossEvidence(facts)),
  },
  {
    // No command has run on it, so the attempt continues on another allocation.
    name: 'allocation-failed',
    means: 'the allocation was lost before a command could start, so another one is requested',
    when: (facts) => facts.isLost && facts.mayRequestAnother,
    then: ({ job, attempt, now }) => recheckNow(replaceFailedAllocation(job, attempt, now), now),
  },
  {
    name: 'allocation-failed-permanently',
    means: 'the allocation was lost before a command could start, and another request cannot help',
    when: (facts) => facts.isLost,
    then: (facts) => endAttempt(facts, 'allocation_failed', lossEvidence(facts)),
  },
  {
    // Before command-failed: a worker that lost the program explains why the command failed on others.
    name: 'program-vanished',
    means: 'a worker answers, but it has neither the process of the command nor its exit code',
    when: ({ vanishedRun }) => vanishedRun !== undefined,
    then: (facts) => endAttempt(facts, 'unreachable', vanishedEvidence(requireFact(facts.vanishedRun))),
  },
  {
    name: 'command-failed',
    means: 'the command failed on one worker, so the attempt ends on all workers',
    when: ({ failedRun }) => failedRun !== undefined,
    then: (facts) => {
      const { workerRun, run } = requireFact(facts.failedRun);
      return endAttempt(facts, 'command_failed', exitEvidence(workerRun, run), run.endedAt);
    },
  },
  {
    name: 'hung-after-failed-call',
    means: 'a call between workers failed, and the command has printed nothing since',
    when: ({ hungRun }) => hungRun !== undefined,
    then: (facts) => {
      const { failedCallTimeoutMs = 0 } = facts.job.spec.limits;
      return endAttempt(facts, 'hung', failedCallEvidence(requireFact(facts.hungRun), failedCallTimeoutMs));
    },
  },
  {
    name: 'hung',
    means: 'the command has printed nothing for as long as job.silence_timeout allows',
    when: ({ isPastSilenceTimeout }) => isPastSilenceTimeout,
    then: (facts) => endAttempt(facts, 'hung', silenceEvidence(facts.runs)),
  },
  {
    // Nothing has started on it yet, so the attempt continues and no budget is used.
    name: 'kept-capacity-unreachable',
    means: 'a worker of the kept capacity does not answer, so another allocation is requested',
    when: ({ workerPastGrace, isOnReplaceableCapacity }) =>
      workerPastGrace !== undefined && workerPastGrace !== 'controller' && isOnReplaceableCapacity,
    then: ({ job, attempt, now, workerPastGrace }) => {
      const why = `worker ${requireFact(workerPastGrace)} does not answer`;
      return recheckNow(switchAllocation(job, attempt, { why, notBefore: now }, now), now);
    },
  },
  {
    name: 'worker-unreachable',
    means: 'a worker has not answered for longer than the grace period, although its capacity is ready',
    when: ({ workerPastGrace }) => workerPastGrace !== undefined,
    then: (facts) => {
      const worker = requireFact(facts.workerPastGrace);
      return endAttempt(facts, 'unreachable', { message: `${formatWorker(worker)} does not answer`, worker });
    },
  },
  {
    name: 'setup-failed',
    means: 'a setup step or the start of the command failed too often on one worker',
    when: ({ exhaustedTask }) => exhaustedTask !== undefined,
    then: (facts) => endAttempt(facts, 'setup_failed', setupEvidence(requireFact(facts.exhaustedTask))),
  },
  {
    name: 'no-worker-for-command',
    means: 'the manifest names no worker to run the command on',
    when: ({ runsOnNoWorker }) => runsOnNoWorker,
    then: (facts) =>
      endAttempt(facts, 'setup_failed', { message: 'the manifest names no worker to run the command on' }),
  },
  {
    name: 'worker-does-not-exist',
    means: 'the command names a worker that the allocation does not have',
    when: ({ missingWorker }) => missingWorker !== undefined,
    then: (facts) => {
      const worker = requireFact(facts.missingWorker);
      const message = `the command names worker ${worker}, but there are only ${facts.allocation.workers} workers`;
      return endAttempt(facts, 'setup_failed', { message, worker });
    },
  },

  // ---- the steps to a running command
  {
    name: 'other-attempt-alive',
    means: 'a process of another attempt is still alive and is stopped first',
    when: ({ isOtherAttemptAlive }) => isOtherAttemptAlive,
    then: stopOtherRuns,
  },
  {
    name: 'running',
    means: 'the command has started on every worker and has not ended',
    when: ({ hasStarted, unstartedWorkers }) => hasStarted && unstartedWorkers.length === 0,
    then: watchRun,
  },
  {
    // The machine of that worker was recreated or has restarted.
    name: 'setup-lost',
    means: 'the command has started on some workers; another worker has lost its setup or does not answer',
    when: ({ hasStarted, isPrepared }) => hasStarted && !isPrepared,
    then: setUp,
  },
  {
    name: 'partly-started',
    means: 'the command has started on some workers and is started on the others now',
    when: ({ hasStarted }) => hasStarted,
    then: (facts) => start(facts, facts.unstartedWorkers),
  },
  {
    name: 'previous-allocation-releasing',
    means: 'the next allocation is requested once the previous one is deleted',
    when: ({ isPreviousReleasing }) => isPreviousReleasing,
    // `planReleases` gives the time of the next pass.
    then: ({ job }) => wait(job),
  },
  {
    name: 'tpu-deleted',
    means: 'the job was to delete its TPU, and the TPU is deleted',
    when: ({ job }) => operationOf(job.spec)?.kind === 'delete',
    then: (facts) => endAttempt(facts, 'succeeded', { message: 'the TPU is deleted' }),
  },
  {
    // Before attempt-waiting-for-slot, because a job gives up its slot during a long backoff (admission.ts).
    name: 'backoff',
    means: 'the delay before this attempt or its next request is not over',
    when: ({ attempt, now }) => attempt.notBeforeAt > now,
    then: waitForBackoff,
  },
  {
    name: 'attempt-waiting-for-slot',
    means: 'the next attempt waits for a free slot on its machines',
    when: ({ admitted }) => !admitted,
    then: ({ job }) => wait(job),
  },
  {
    name: 'allocation-unknown',
    means: 'the cloud does not answer, or the settings no longer name a host, so nothing is changed',
    when: ({ observedState, isHidden }) => observedState === undefined && !isHidden,
    then: (facts) => waitForCapacity(facts, nextCheckAt(facts)),
  },
  {
    name: 'better-alternative',
    means: 'this alternative refused another job recently, so another alternative is tried first',
    when: ({ betterAlternative }) => betterAlternative !== undefined,
    then: ({ job, attempt, now, betterAlternative }) =>
      recheckNow(chooseAlternative(job, attempt, requireFact(betterAlternative), now), now),
  },
  {
    name: 'allocation-hidden',
    means: 'the cloud does not show the allocation to us, so a request is sent to get its answer',
    when: ({ isHidden, mayRequestNow }) => isHidden && mayRequestNow,
    then: (facts) => request(facts, facts.nextRequestAt),
  },
  {
    name: 'request-due',
    means: 'the allocation does not exist, and its request is sent as soon as the last error allows',
    when: ({ observedState, mayRequestNow }) => observedState === 'absent' && mayRequestNow,
    then: (facts) => request(facts, facts.nextRequestAt),
  },
  {
    // A list right after the request may not show it yet.
    name: 'allocation-missed',
    means: 'the request was accepted, but the cloud does not list the allocation, so it is checked again',
    when: ({ observedState }) => observedState === 'absent',
    then: confirmAbsence,
  },
  {
    name: 'allocation-pending',
    means: 'the allocation is in a queue, being created or under repair',
    when: ({ observedState }) => observedState !== 'ready',
    then: waitForReady,
  },
  {
    name: 'workers-in-setup',
    means: 'the allocation is ready, and a worker is being set up or does not answer',
    when: ({ isPrepared }) => !isPrepared,
    then: setUp,
  },
  {
    name: 'setup-done',
    means: 'every worker is set up, and the job has no command',
    when: ({ job }) => job.spec.command.isSetupOnly === true,
    then: (facts) => endAttempt(facts, 'succeeded', { message: 'every worker is set up' }),
  },
  {
    name: 'start-due',
    means: 'every worker is set up, and the command is started now',
    when: () => true,
    then: (facts) =>
      start(
        facts,
        facts.runs.map(({ worker }) => worker),
      ),
  },
] as const satisfies readonly Row<AttemptFacts>[];

export type SituationName = (typeof jobRows)[number]['name'] | (typeof attemptRows)[number]['name'];

/** All rows, in order. */
export const situations: readonly { readonly name: SituationName; readonly means: string }[] = [
  ...jobRows,
  ...attemptRows,
];

/** The situation of that view, and the decision of its row. */
export function decide(view: View): { readonly situation: SituationName; readonly decision: Decision } {
  const { attempt, allocation } = view;
  const ofJob = decideBy(jobRows, view);
  if (ofJob !== undefined) return ofJob;
  if (attempt === undefined || allocation === undefined)
    throw new Error(`job ${view.job.id}: no row matches, although some row matches every job without an attempt`);
  const ofAttempt = decideBy(attemptRows, attemptFacts({ ...view, attempt, allocation }));
  if (ofAttempt === undefined)
    throw new Error(`job ${view.job.id}: no row matches, although the last one matches everything`);
  return ofAttempt;
}

function decideBy<Subject>(
  rows: readonly (Row<Subject> & { readonly name: SituationName })[],
  subject: Subject,
): ReturnType<typeof decide> | undefined {
  const row = rows.find(({ when }) => when(subject));
  return row === undefined ? undefined : { situation: row.name, decision: row.then(subject) };
}
