// Recover: what follows the end of an attempt. The rules are data (policy/presets.ts).

import { capacityTraits } from './allocate.ts';
import { allocationOf } from '../model/job.ts';
import type { Attempt, Ending, Evidence, Job, Finish, StartRequest } from '../model/job.ts';
import { capacityAt, alternativeCount } from '../model/spec.ts';
import type { RuleAnswer, Reason, RecoverySpec, RecoveryRule, RecoverableReason } from '../model/spec.ts';
import { backoffDelay, second, type Duration, type Instant } from '../model/time.ts';

// ------------------------------------------------------------------------------------------ the rules

function ruleFor(recovery: RecoverySpec, reason: RecoverableReason, evidence: Evidence): RecoveryRule | undefined {
  return recovery.rules.find(
    (one) =>
      one.reason === reason &&
      (one.evidence === undefined || one.evidence === evidence.pattern) &&
      (one.exitCodes === undefined || (evidence.exitCode !== undefined && one.exitCodes.includes(evidence.exitCode))) &&
      (one.worker === undefined || one.worker === evidence.worker),
  );
}

/** The answer of the first matching rule; where none matches, a success is a success and all else fails the job. */
export function answerFor(recovery: RecoverySpec, reason: RecoverableReason, evidence: Evidence): RuleAnswer {
  const rule = ruleFor(recovery, reason, evidence);
  return rule?.answer ?? { then: reason === 'succeeded' ? 'done' : 'fail', on: 'same' };
}

// ------------------------------------------------------------------------------------------ budgets

export type BudgetName = keyof RecoverySpec['budget'];

/** How often in a row a rule tries again after a failed setup, under every preset, unless the manifest sets another number. */
export const defaultSetupFailures = 3;

export function budgetLimit({ budget }: RecoverySpec, of: BudgetName): number {
  return budget[of] ?? defaultSetupFailures;
}

/**
 * The budget that an end uses up, by who caused it. Machines that are taken away or fall silent are the
 * platform's doing. A non-zero exit is the program's own, whatever it printed: one that prints `GRPC error` on every
 * start must not go on for ever. A success uses up nothing.
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
      return null;
  }
}

/** The attempts that budgets count, up to this one: those since the owner's newest command or the newest success. */
function countedAttempts(job: Job, attempt: Attempt): readonly Attempt[] {
  const until = job.attempts.slice(0, attempt.ordinal);
  const isFirst = ({ startedByOwner, ordinal }: Attempt): boolean =>
    startedByOwner || until[ordinal - 2]?.ending?.reason === 'succeeded';
  return until.slice(Math.max(0, until.findLastIndex(isFirst)));
}

/** The attempts of the present chance that used up that budget, this one included. A rule with a limit has its own count. */
export function usedBudget(job: Job, attempt: Attempt, budget: BudgetName): readonly Attempt[] {
  const all = countedAttempts(job, attempt);
  const counted = budget === 'setupFailures' ? all.slice(all.findLastIndex(hasRunCommand) + 1) : all;
  return counted.filter(
    ({ ending }) =>
      ending !== null && budgetOf(ending.reason) === budget && ruleOf(job.spec.recovery, ending)?.limit === undefined,
  );
}

function hasRunCommand({ runningAt, ending }: Attempt): boolean {
  return runningAt !== null || (ending !== null && budgetOf(ending.reason) === 'failures');
}

function endsMatching(job: Job, attempt: Attempt, rule: RecoveryRule): readonly Attempt[] {
  return countedAttempts(job, attempt).filter(
    ({ ending }) => ending !== null && ruleOf(job.spec.recovery, ending) === rule,
  );
}

/** The rule that answers that end; undefined when none does, or none may. */
export function ruleOf(
  recovery: RecoverySpec,
  { reason, evidence }: Pick<Ending, 'reason' | 'evidence'>,
): RecoveryRule | undefined {
  return isRecoverable(reason) ? ruleFor(recovery, reason, evidence) : undefined;
}

function isRecoverable(reason: Reason): reason is RecoverableReason {
  return reason !== 'stopped' && reason !== 'allocation_failed' && reason !== 'timed_out';
}

/** The ends that count against an end for that reason, and how many are allowed: the rule's own, or those of a budget. */
export function allowance(
  job: Job,
  attempt: Attempt,
  reason: RecoverableReason,
  evidence: Evidence,
): { readonly used: readonly Attempt[]; readonly limit: number; readonly isRuleLimit: boolean } {
  const rule = ruleFor(job.spec.recovery, reason, evidence);
  const budget = budgetOf(reason);
  if (rule?.limit !== undefined)
    return { used: endsMatching(job, attempt, rule), limit: rule.limit, isRuleLimit: true };
  if (budget === null) return { used: [], limit: 0, isRuleLimit: false };
  return { used: usedBudget(job, attempt, budget), limit: budgetLimit(job.spec.recovery, budget), isRuleLimit: false };
}

/** The places in a zone that a rule has turned from in this chance; none where that would be all of them. */
export function avoidedAlternatives(job: Job, attempt: Attempt): ReadonlySet<number> {
  const { capacity } = job.spec;
  const zoneAt = (alternative: number): string | undefined => {
    const chosen = capacityAt(capacity, alternative);
    return chosen.kind === 'tpu' ? chosen.zone : undefined;
  };
  const zones = new Set<string | undefined>();
  for (const { ending, allocation } of countedAttempts(job, attempt)) {
    if (ending === null || ruleOf(job.spec.recovery, ending)?.avoidZone === undefined) continue;
    zones.add(zoneAt(allocationOf(job, allocation).alternative ?? 0));
  }
  const alternatives = Array.from({ length: alternativeCount(capacity) }, (_, alternative) => alternative);
  const avoided = alternatives.filter((alternative) => zones.has(zoneAt(alternative)));
  return new Set(avoided.length === alternatives.length ? [] : avoided);
}

function firstAllowedAlternative(job: Job, attempt: Attempt): number {
  const avoided = avoidedAlternatives(job, attempt);
  let alternative = 0;
  while (avoided.has(alternative)) alternative += 1;
  return alternative;
}

// ------------------------------------------------------------------------------------------ what follows

export type Continuation =
  | {
      readonly next: 'attempt';
      readonly startMode: StartRequest['startMode'];
      readonly stage: number;
      readonly on: RuleAnswer['on'];
      /** Where a new allocation is asked for first. */
      readonly alternative: number;
      readonly notBefore: Instant;
      readonly applied: AppliedRule;
    }
  | { readonly next: 'start_request' }
  | { readonly next: 'finish'; readonly verdict: Finish['verdict']; readonly applied: AppliedRule | null };

interface AppliedRule {
  readonly then: RuleAnswer['then'];
  readonly on: RuleAnswer['on'];
  readonly used: number;
  readonly limit: number;
  /** The log pattern that the rule names. Without it a reader could not tell this row from the one for all else. */
  readonly pattern?: string;
  /** The other things that it names, for the same reason. */
  readonly exitCode?: number;
  readonly worker?: number;
  /** The number of the rule's own ends, and not of a budget's. */
  readonly isRuleLimit?: true;
}

/** The next thing after the end of that attempt, if it ended now. The owner's word comes before any rule. */
export function continuationOf(job: Job, attempt: Attempt, now: Instant): Continuation {
  const { ending } = attempt;
  if (ending === null)
    throw new Error(`job ${job.id}: attempt ${attempt.ordinal} is not ending, nothing follows it yet`);
  const { reason, evidence } = ending;
  if (job.desired !== 'running') return finishAs(reason === 'succeeded' ? 'succeeded' : stoppedVerdict(job));
  if (job.startRequest !== null) return { next: 'start_request' };
  switch (reason) {
    case 'stopped':
      return finishAs(stoppedVerdict(job));
    // No rule answers these: the job's own limit, and capacity that will not come. What may still come is waited for
    // within the attempt (retryRequest in allocate.ts).
    case 'timed_out':
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
  // Its owner wants no further attempt. A success is a success all the same.
  if (job.recoveryDisabled === true) return finishAs(reason === 'succeeded' ? 'succeeded' : 'failed');
  if (reason === 'succeeded' && job.spec.command.isSetupOnly === true) return finishAs('succeeded');
  const answer = answerFor(job.spec.recovery, reason, evidence);
  const rule = ruleFor(job.spec.recovery, reason, evidence);
  const { used, limit, isRuleLimit } = allowance(job, attempt, reason, evidence);
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
  if (used.length > limit) return finishAs('failed', { ...applied, then: 'fail' });
  const { replaceable } = capacityTraits(job.spec.capacity);
  // The same again would only wait for the same silent worker.
  const giveUpTime = replaceable && answer.on === 'new' ? undefined : persistentGiveUpAt(job, attempt);
  if (giveUpTime !== undefined && now >= giveUpTime) return finishAs('failed', { ...applied, then: 'fail' });
  return {
    next: 'attempt',
    ...nextStart(attempt, answer.then),
    on: replaceable ? answer.on : 'same',
    alternative: firstAllowedAlternative(job, attempt),
    notBefore: now + delayAfter(job, attempt, reason, used, rule),
    applied,
  };
}

/** An attempt whose command never started leaves nothing new to resume from: the next one is as it was to be. */
function nextStart(
  attempt: Attempt,
  then: 'resume' | 'rerun',
): { readonly startMode: StartRequest['startMode']; readonly stage: number } {
  if (then === 'rerun') return { startMode: 'rerun', stage: 0 };
  if (attempt.startedAt === null) return { startMode: attempt.startMode, stage: attempt.stage };
  return { startMode: 'resume', stage: attempt.stage + 1 };
}

/** No budget ends a job that goes on after each success: one whose command ends at once must not be started without pause. */
const minSuccessDelay: Duration = second;

/**
 * How long to wait before the next attempt. After a preemption nothing, unless the rule has a wait of its own: the wait for
 * capacity is wait enough. After
 * silence nothing at first. After failures the spec's delay, doubling while attempts fail quickly; one that ran for longer
 * than the longest delay begins the count anew.
 */
function delayAfter(
  job: Job,
  attempt: Attempt,
  reason: RecoverableReason,
  used: readonly Attempt[],
  rule: RecoveryRule | undefined,
): Duration {
  const delay = rule?.delay ?? job.spec.recovery.delay;
  const delayMax = Math.max(delay, rule?.delayMax ?? job.spec.recovery.delayMax);
  const lastLongRun = used.findLastIndex(
    (one) => one.runningAt !== null && (one.ending?.since ?? 0) - one.runningAt > delayMax,
  );
  // The one that ran long counts as the first.
  const endsInARow = used.length - Math.max(0, lastLongRun);
  switch (reason) {
    case 'preempted':
      return rule?.delay === undefined ? 0 : backoffDelay(delay, delayMax, endsInARow, job.id, attempt.ordinal);
    case 'succeeded':
      return Math.max(delay, minSuccessDelay);
    case 'unreachable':
      return backoffDelay(delay, delayMax, endsInARow - 1, job.id, attempt.ordinal);
    case 'setup_failed':
    case 'command_failed':
    case 'hung':
      return backoffDelay(delay, delayMax, endsInARow, job.id, attempt.ordinal);
  }
}

// ------------------------------------------------------------------------------------------ silent workers

/** How many graces what is to be kept, or is not ours to replace, waits for a silent worker: time for its owner to see to it. */
export const keptGraceFactor = 10;

/**
 * True while the attempt that its owner asked for has tried nothing yet, on capacity that an earlier one had used: what is
 * silent there was held for it, and to find that out is no try at the command. One of just the command wants that capacity
 * and no other.
 */
export function isOnHeldCapacity(job: Job, attempt: Attempt): boolean {
  if (!attempt.startedByOwner || attempt.startedAt !== null || attempt.commandOnly === true) return false;
  return job.attempts.some(({ ordinal, allocation }) => ordinal < attempt.ordinal && allocation === attempt.allocation);
}

/** How long a silent worker may hold up an attempt. A kept persistent allocation cannot be replaced, so it gets longer. */
export function unreachableGraceOf(job: Job, attempt: Attempt): Duration {
  const { unreachableGrace } = job.spec.recovery;
  const isPersistent = allocationOf(job, attempt.allocation).ownership === 'persistent';
  return isPersistent && isOnHeldCapacity(job, attempt) ? keptGraceFactor * unreachableGrace : unreachableGrace;
}

/**
 * When a silent worker of a persistent allocation is waited for no longer. The allocation is nobody's to let go, so the job
 * ends without it, and a program there that nobody hears of is left to itself: whatever is started there next ends it first.
 * Undefined while all answer, while the cloud itself is silent, and for what is the job's own.
 */
export function persistentGiveUpAt(job: Job, attempt: Attempt): Instant | undefined {
  const { ownership, unreachableSince, unreachableWho, releasedAt } = allocationOf(job, attempt.allocation);
  if (ownership !== 'persistent' || releasedAt !== null) return undefined;
  if (attempt.ending === null || unreachableSince === null || unreachableWho !== 'worker') return undefined;
  return unreachableSince + keptGraceFactor * job.spec.recovery.unreachableGrace;
}
