// Recover: decides what follows the end of an attempt. The rules are data (policy/presets.ts).

import { capacityTraits } from './allocate.ts';
import type { AppliedRule } from '../model/event.ts';
import { allocationOf, isLost } from '../model/job.ts';
import type { Allocation, Attempt, Ending, Evidence, Job, Finish, StartRequest } from '../model/job.ts';
import { alternativesOf, capacityAt } from '../model/spec.ts';
import type { RuleAnswer, Reason, RecoverySpec, RecoveryRule, RecoverableReason } from '../model/spec.ts';
import { backoffDelay, second, type Duration, type Instant } from '../model/time.ts';

// ------------------------------------------------------------------------------------------ the rules

/** The first rule that matches an end. Undefined if none does. */
export function ruleOf(
  { rules }: Pick<RecoverySpec, 'rules'>,
  { reason, evidence }: Pick<Ending, 'reason' | 'evidence'>,
): RecoveryRule | undefined {
  return rules.find(
    (one) =>
      one.reason === reason &&
      (one.evidence === undefined || one.evidence === evidence.pattern) &&
      (one.exitCodes === undefined || (evidence.exitCode !== undefined && one.exitCodes.includes(evidence.exitCode))) &&
      (one.worker === undefined || one.worker === evidence.worker),
  );
}

/** The answer of that rule. Without one, `succeeded` ends the job as succeeded and any other reason fails it. */
export function answerFor(
  recovery: Pick<RecoverySpec, 'rules'>,
  reason: RecoverableReason,
  evidence: Evidence,
): RuleAnswer {
  const rule = ruleOf(recovery, { reason, evidence });
  return rule?.answer ?? { then: reason === 'succeeded' ? 'done' : 'fail', on: 'same' };
}

/** The alternatives in zones where an attempt ended by a rule with `avoidZone`. Empty if these are all alternatives. */
export function avoidedAlternatives(job: Job, attempt: Attempt): ReadonlySet<number> {
  const { capacity, recovery } = job.spec;
  if (capacity.kind !== 'tpu') return new Set();
  const zones = countedAttempts(job, attempt)
    .filter(({ ending }) => ending !== null && ruleOf(recovery, ending)?.avoidZone === true)
    .map((one) => capacityAt(capacity, allocationOf(job, one.allocation).alternative ?? 0).zone);
  const isAvoided = alternativesOf(capacity).map(({ zone }) => zones.includes(zone));
  return new Set(isAvoided.includes(false) ? isAvoided.flatMap((avoided, index) => (avoided ? [index] : [])) : []);
}

function firstAllowedAlternative(job: Job, attempt: Attempt): number {
  const avoided = avoidedAlternatives(job, attempt);
  let alternative = 0;
  while (avoided.has(alternative)) alternative += 1;
  return alternative;
}

// ------------------------------------------------------------------------------------------ budgets

export type BudgetName = keyof RecoverySpec['budget'];

/**
 * The budget that an end uses, by its cause: the platform, the setup or the program. A non-zero exit always counts as
 * the program's own: a program that prints `GRPC error` at every start must not be restarted without end.
 */
export function budgetOf(reason: Reason): BudgetName | null {
  switch (reason) {
    case 'preempted':
    case 'unreachable':
      return 'preemptions';
    case 'setup_failed':
      return 'setupFailures';
    case 'command_failed':
    case 'hung':
      return 'failures';
    case 'succeeded':
    case 'stopped':
    case 'allocation_failed':
    case 'timed_out':
    case 'budget':
      return null;
  }
}

/** The attempts since the owner's last start or the last success, up to this one. Budgets and limits count these. */
function countedAttempts(job: Job, attempt: Attempt): readonly Attempt[] {
  const until = job.attempts.slice(0, attempt.ordinal);
  const first = until.findLastIndex(
    ({ startedByOwner }, index) => startedByOwner || until[index - 1]?.ending?.reason === 'succeeded',
  );
  return until.slice(Math.max(0, first));
}

/** The attempts that used this budget, including this one. Ends that a rule with its own limit answers do not count. */
export function usedBudget(job: Job, attempt: Attempt, budget: BudgetName): readonly Attempt[] {
  const all = countedAttempts(job, attempt);
  // Only setup failures in a row count: once a command has run, the setup can succeed.
  const counted = budget === 'setupFailures' ? all.slice(all.findLastIndex(hasRunCommand) + 1) : all;
  return counted.filter(
    ({ ending }) =>
      ending !== null && budgetOf(ending.reason) === budget && ruleOf(job.spec.recovery, ending)?.limit === undefined,
  );
}

function hasRunCommand({ runningAt, ending }: Attempt): boolean {
  return runningAt !== null || (ending !== null && budgetOf(ending.reason) === 'failures');
}

interface RuleUse {
  /** Undefined if no rule matches. */
  readonly rule: RecoveryRule | undefined;
  readonly answer: RuleAnswer;
  /** The attempts that count against the limit, including this one. */
  readonly used: readonly Attempt[];
  /** The rule's own limit, otherwise the budget. 0 after a success, which uses no budget: reruns have no limit. */
  readonly limit: number;
  readonly isRuleLimit: boolean;
}

/** The rule that answers an end of that attempt, and the use of its limit. */
export function ruleUseOf(job: Job, attempt: Attempt, reason: RecoverableReason, evidence: Evidence): RuleUse {
  const { recovery } = job.spec;
  const rule = ruleOf(recovery, { reason, evidence });
  const answer = answerFor(recovery, reason, evidence);
  if (rule?.limit !== undefined) {
    const used = countedAttempts(job, attempt).filter(
      ({ ending }) => ending !== null && ruleOf(recovery, ending) === rule,
    );
    return { rule, answer, used, limit: rule.limit, isRuleLimit: true };
  }
  const budget = budgetOf(reason);
  const used = budget === null ? [] : usedBudget(job, attempt, budget);
  return { rule, answer, used, limit: budget === null ? 0 : recovery.budget[budget], isRuleLimit: false };
}

// ------------------------------------------------------------------------------------------ what follows

export type Continuation =
  | {
      readonly next: 'attempt';
      readonly startMode: StartRequest['startMode'];
      readonly stage: number;
      readonly on: RuleAnswer['on'];
      /** The alternative that a new allocation tries first. */
      readonly alternative: number;
      readonly notBeforeAt: Instant;
      readonly applied: AppliedRule;
    }
  | { readonly next: 'start_request' }
  | { readonly next: 'finish'; readonly verdict: Finish['verdict']; readonly applied: AppliedRule | null };

/** The continuation if an ending attempt is closed now. The owner's commands come before any rule. */
export function continuationOf(job: Job, attempt: Attempt, now: Instant): Continuation {
  const { reason, evidence } = endingOf(job, attempt);
  if (job.desired !== 'running') return finishAs(reason === 'succeeded' ? 'succeeded' : stoppedVerdict(job));
  if (job.startRequest !== null) return { next: 'start_request' };
  switch (reason) {
    case 'stopped':
      return finishAs(stoppedVerdict(job));
    // No rule answers these. Errors that may pass are retried within the attempt (`replaceFailedAllocation` in allocate.ts).
    case 'timed_out':
    case 'budget':
    case 'allocation_failed':
      return finishAs('failed');
    case 'succeeded':
    case 'preempted':
    case 'unreachable':
    case 'setup_failed':
    case 'command_failed':
    case 'hung':
      return continuationByRule(job, attempt, reason, evidence, now);
  }
}

/** Throws if the attempt is not ending, which is a bug. */
export function endingOf(job: Job, { ordinal, ending }: Attempt): Ending {
  if (ending === null) throw new Error(`job ${job.id}: attempt ${ordinal} is not ending`);
  return ending;
}

function finishAs(verdict: Finish['verdict'], applied: AppliedRule | null = null): Continuation {
  return { next: 'finish', verdict, applied };
}

export function stoppedVerdict(job: Job): 'stopped' | 'cancelled' {
  return job.cancelRequested ? 'cancelled' : 'stopped';
}

function continuationByRule(
  job: Job,
  attempt: Attempt,
  reason: RecoverableReason,
  evidence: Evidence,
  now: Instant,
): Continuation {
  if (job.recoveryDisabled === true) return finishAs(reason === 'succeeded' ? 'succeeded' : 'failed');
  if (reason === 'succeeded' && job.spec.command.isSetupOnly === true) return finishAs('succeeded');
  const { rule, answer, used, limit, isRuleLimit } = ruleUseOf(job, attempt, reason, evidence);
  const applied: AppliedRule = {
    ...answer,
    used: used.length,
    limit,
    ...(rule?.evidence === undefined ? {} : { pattern: rule.evidence }),
    ...(rule?.exitCodes === undefined || evidence.exitCode === undefined ? {} : { exitCode: evidence.exitCode }),
    ...(rule?.worker === undefined ? {} : { worker: rule.worker }),
    ...(isRuleLimit && { isRuleLimit: true as const }),
  };
  if (answer.then === 'done') return finishAs('succeeded');
  if (answer.then === 'fail') return finishAs('failed', applied);
  // `used` includes this attempt.
  if (used.length > limit) return finishAs('failed', { ...applied, then: 'fail' });
  const { replaceable } = capacityTraits(job.spec.capacity);
  // If the next attempt needs the same allocation, it would wait for the same silent worker.
  const giveUpTime = replaceable && answer.on === 'new' ? undefined : persistentGiveUpAt(job, attempt);
  if (giveUpTime !== undefined && now >= giveUpTime) return finishAs('failed', { ...applied, then: 'fail' });
  return {
    next: 'attempt',
    ...nextStart(attempt, answer.then),
    on: replaceable ? answer.on : 'same',
    alternative: firstAllowedAlternative(job, attempt),
    notBeforeAt: now + delayAfter(job, attempt, reason, used, rule),
    applied,
  };
}

/** If the command never started, the next attempt has the same start mode and stage. */
function nextStart(
  attempt: Attempt,
  then: 'resume' | 'rerun',
): { readonly startMode: StartRequest['startMode']; readonly stage: number } {
  if (then === 'rerun') return { startMode: 'rerun', stage: 0 };
  if (attempt.startedAt === null) return { startMode: attempt.startMode, stage: attempt.stage };
  return { startMode: 'resume', stage: attempt.stage + 1 };
}

/** No budget limits a job that is rerun after each success, so a command that ends at once needs a delay. */
const minSuccessDelay: Duration = second;

/** The delay before the next attempt. It doubles while attempts end quickly. */
function delayAfter(
  job: Job,
  attempt: Attempt,
  reason: RecoverableReason,
  used: readonly Attempt[],
  rule: RecoveryRule | undefined,
): Duration {
  const delay = rule?.delayMs ?? job.spec.recovery.delayMs;
  const delayMax = Math.max(delay, rule?.delayMaxMs ?? job.spec.recovery.delayMaxMs);
  if (reason === 'succeeded') return Math.max(delay, minSuccessDelay);
  // The wait for new capacity is delay enough, unless the rule has its own delay.
  if (reason === 'preempted' && rule?.delayMs === undefined) return 0;
  // The doubling begins again at an attempt that ran longer than the longest delay.
  const lastLongRun = used.findLastIndex(
    (one) => one.runningAt !== null && (one.ending?.startedAt ?? 0) - one.runningAt > delayMax,
  );
  const inSeries = used.length - Math.max(0, lastLongRun);
  // The grace has already delayed the attempt after the first silence.
  const tries = reason === 'unreachable' ? inSeries - 1 : inSeries;
  return backoffDelay(delay, delayMax, tries, job.id, attempt.ordinal);
}

// ------------------------------------------------------------------------------------------ silent workers
//
// How long jobman waits for a worker that does not answer. All of these count only while the cloud answers and reports
// the TPU as ready, except the last. The grace is `recovery.unreachable_grace`.
//
// | attempt | capacity | counted from | graces | what happens then | function |
// |---|---|---|---|---|---|
// | open | any | the silence | 1 | the attempt ends as unreachable | `unreachableGraceOf` |
// | open, `isOnHeldCapacity` | persistent | the silence | 10 | the attempt ends as unreachable | `unreachableGraceOf` |
// | ending, another follows | ephemeral | the ending or a later silence | 1 | the capacity is released | `giveUpAt` |
// | ending, the job finishes | ephemeral | the ending or a later silence | 10 | the capacity is released | `giveUpAt` |
// | ending | persistent TPU | the silence | 10 | its programs count as ended, and the job fails | `persistentGiveUpAt` |
// | ending | hosts | - | - | the attempt waits until the host answers | `persistentGiveUpAt` |
// | open, the job removed by force | hosts | - | - | the same | `mayRunAfterRemoval` |
// | ending | persistent, lost | the loss | 1 | its programs count as ended | `lossGraceEnd` |

/** Kept or persistent capacity waits this many times longer, so that its owner can repair the worker. */
const keptGraceFactor = 10;

/**
 * True for an attempt that its owner requested on capacity of an earlier attempt, while its command has not started. If
 * a worker there is silent, the attempt moves to other capacity. An attempt with `commandOnly` needs this capacity.
 */
export function isOnHeldCapacity(job: Job, attempt: Attempt): boolean {
  if (!attempt.startedByOwner || attempt.startedAt !== null || attempt.commandOnly === true) return false;
  return job.attempts.some(({ ordinal, allocation }) => ordinal < attempt.ordinal && allocation === attempt.allocation);
}

/** Only a rule with `new` replaces persistent capacity, so the owner's new attempt waits longer for its workers. */
export function unreachableGraceOf(job: Job, attempt: Attempt): Duration {
  const { unreachableGraceMs } = job.spec.recovery;
  const isPersistent = allocationOf(job, attempt.allocation).ownership === 'persistent';
  return isPersistent && isOnHeldCapacity(job, attempt) ? keptGraceFactor * unreachableGraceMs : unreachableGraceMs;
}

/**
 * End of the wait for a silent worker of an ending attempt: the worker may never confirm that its program has ended.
 * Undefined while all workers answer.
 */
export function giveUpAt(job: Job, attempt: Attempt, now: Instant): Instant | undefined {
  const { ownership, unreachableAt, unreachableWho } = allocationOf(job, attempt.allocation);
  if (ownership === 'persistent') return persistentGiveUpAt(job, attempt);
  if (attempt.ending === null || unreachableAt === null || unreachableWho !== 'worker') return undefined;
  const graces = continuationOf(job, attempt, now).next === 'finish' ? keptGraceFactor : 1;
  return Math.max(attempt.ending.startedAt, unreachableAt) + graces * job.spec.recovery.unreachableGraceMs;
}

/**
 * The same for a persistent TPU. jobman does not release it, so the job fails. A program that still runs there is stopped
 * before the next one starts. Undefined for hosts, which are never given up.
 */
export function persistentGiveUpAt(job: Job, attempt: Attempt): Instant | undefined {
  const { ownership, unreachableAt, unreachableWho, releasedAt } = allocationOf(job, attempt.allocation);
  if (ownership !== 'persistent' || releasedAt !== null) return undefined;
  if (!capacityTraits(job.spec.capacity).givenUpWhenSilent) return undefined;
  if (attempt.ending === null || unreachableAt === null || unreachableWho !== 'worker') return undefined;
  return unreachableAt + keptGraceFactor * job.spec.recovery.unreachableGraceMs;
}

/**
 * Time from which the silent programs on a lost persistent allocation count as ended. jobman does not release the
 * allocation, so no observation proves its deletion. Undefined if it is not lost.
 */
export function lossGraceEnd(job: Job, allocation: Allocation): Instant | undefined {
  const { ownership, releasedAt, lastObserved } = allocation;
  if (ownership !== 'persistent' || releasedAt !== null || lastObserved === null || !isLost(allocation))
    return undefined;
  return lastObserved.at + job.spec.recovery.unreachableGraceMs;
}
