// Recover: what follows the end of an attempt. The rules are data; the presets below are the table of docs/recovery.md.

import { capacityTraits } from './allocate.ts';
import { allocationOf } from './job.ts';
import type { Attempt, Ending, Evidence, Job, Settled, Wish } from './job.ts';
import { capacityAt, placeCount } from './spec.ts';
import type { Answer, Reason, RecoverySpec, Rule, RuledReason } from './spec.ts';
import { doubling, second, type Duration, type Instant } from './time.ts';
import { betweenWorkers } from './log-lines.ts';

// ------------------------------------------------------------------------------------------ the table

const resumeHere: Answer = { then: 'resume', on: 'same' };
const rerunHere: Answer = { then: 'rerun', on: 'same' };
const resumeElsewhere: Answer = { then: 'resume', on: 'new' };

/** One column of the table: a machine or a line that failed, which some programs only see as a failed remote call. */
function whenUnreachable(answer: Answer): readonly Rule[] {
  return [
    { reason: 'unreachable', answer },
    // A non-zero exit with one of these in the log is the same trouble, seen from inside the program.
    ...betweenWorkers.map((evidence): Rule => ({ reason: 'command_failed', evidence, answer })),
    // And so is a program that hangs after one of these.
    ...betweenWorkers.map((evidence): Rule => ({ reason: 'hung', evidence, answer })),
  ];
}

/** The last column but one: the program, or what was set up for it, failed by itself. */
function whenItFails(answer: Answer): readonly Rule[] {
  return [
    { reason: 'setup_failed', answer },
    { reason: 'command_failed', answer },
    { reason: 'hung', answer },
  ];
}

const untilItSucceeds: readonly Rule[] = [
  { reason: 'preempted', answer: resumeElsewhere },
  ...whenUnreachable(resumeHere),
  ...whenItFails(resumeHere),
];

/** The named tables of rules. What a table does not name, fails the job (and a success is a success). */
export const presets = {
  /** The default on spot and preemptible capacity. */
  pre: [{ reason: 'preempted', answer: resumeElsewhere }, ...whenUnreachable(resumeHere)],
  /** The default otherwise: nothing is tried again. */
  pass: [],
  reapply: [{ reason: 'preempted', answer: resumeElsewhere }, ...whenUnreachable(resumeElsewhere)],
  rerun: [{ reason: 'preempted', answer: resumeElsewhere }, ...whenUnreachable(rerunHere)],
  resume: whenUnreachable(resumeHere),
  'loop: failures': untilItSucceeds,
  /** After a success it begins anew: the checkpoint of a finished run has nothing left to continue. */
  'loop: true': [...untilItSucceeds, { reason: 'succeeded', answer: rerunHere }],
} as const satisfies Readonly<Record<string, readonly Rule[]>>;

export type PresetName = keyof typeof presets;

function ruleFor(recovery: RecoverySpec, reason: RuledReason, evidence: Evidence): Rule | undefined {
  return recovery.rules.find(
    (one) =>
      one.reason === reason &&
      (one.evidence === undefined || one.evidence === evidence.pattern) &&
      (one.exitCodes === undefined || (evidence.exitCode !== undefined && one.exitCodes.includes(evidence.exitCode))) &&
      (one.worker === undefined || one.worker === evidence.worker),
  );
}

/** The answer of the first matching rule; where none matches, a success is a success and all else fails the job. */
export function answerFor(recovery: RecoverySpec, reason: RuledReason, evidence: Evidence): Answer {
  const rule = ruleFor(recovery, reason, evidence);
  return rule?.answer ?? { then: reason === 'succeeded' ? 'done' : 'fail', on: 'same' };
}

// ------------------------------------------------------------------------------------------ budgets

export type Budget = keyof RecoverySpec['budget'];

/** How often in a row a rule tries again after a failed setup, under every preset, unless the manifest sets another number. */
export const usualSetupFailures = 3;

export function budgetLimit({ budget }: RecoverySpec, of: Budget): number {
  return budget[of] ?? usualSetupFailures;
}

/**
 * The budget that an end uses up, by who caused it. Machines that are taken away or fall silent are the
 * platform's doing. A non-zero exit is the program's own, whatever it printed: one that prints `GRPC error` on every
 * start must not go on for ever. A success uses up nothing.
 */
export function budgetOf(reason: Reason): Budget | null {
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
function inThisChance(job: Job, attempt: Attempt): readonly Attempt[] {
  const until = job.attempts.slice(0, attempt.ordinal);
  const isFirst = ({ asked, ordinal }: Attempt): boolean => asked || until[ordinal - 2]?.ending?.reason === 'succeeded';
  return until.slice(Math.max(0, until.findLastIndex(isFirst)));
}

/** The attempts of the present chance that used up that budget, this one included. A rule with a limit has its own count. */
export function usedBudget(job: Job, attempt: Attempt, budget: Budget): readonly Attempt[] {
  const all = inThisChance(job, attempt);
  const counted = budget === 'setupFailures' ? all.slice(all.findLastIndex(hasRunItsCommand) + 1) : all;
  return counted.filter(
    ({ ending }) =>
      ending !== null && budgetOf(ending.reason) === budget && ruleOf(job.spec.recovery, ending)?.limit === undefined,
  );
}

function hasRunItsCommand({ runningAt, ending }: Attempt): boolean {
  return runningAt !== null || (ending !== null && budgetOf(ending.reason) === 'failures');
}

function answeredBy(job: Job, attempt: Attempt, rule: Rule): readonly Attempt[] {
  return inThisChance(job, attempt).filter(
    ({ ending }) => ending !== null && ruleOf(job.spec.recovery, ending) === rule,
  );
}

/** The rule that answers that end; undefined when none does, or none may. */
export function ruleOf(
  recovery: RecoverySpec,
  { reason, evidence }: Pick<Ending, 'reason' | 'evidence'>,
): Rule | undefined {
  return isRuled(reason) ? ruleFor(recovery, reason, evidence) : undefined;
}

function isRuled(reason: Reason): reason is RuledReason {
  return reason !== 'stopped' && reason !== 'allocation_failed' && reason !== 'timed_out';
}

/** The ends that count against an end for that reason, and how many are allowed: the rule's own, or those of a budget. */
export function allowance(
  job: Job,
  attempt: Attempt,
  reason: RuledReason,
  evidence: Evidence,
): { readonly used: readonly Attempt[]; readonly limit: number; readonly isOwn: boolean } {
  const rule = ruleFor(job.spec.recovery, reason, evidence);
  const budget = budgetOf(reason);
  if (rule?.limit !== undefined) return { used: answeredBy(job, attempt, rule), limit: rule.limit, isOwn: true };
  if (budget === null) return { used: [], limit: 0, isOwn: false };
  return { used: usedBudget(job, attempt, budget), limit: budgetLimit(job.spec.recovery, budget), isOwn: false };
}

/** The places in a zone that a rule has turned from in this chance; none where that would be all of them. */
export function avoidedPlaces(job: Job, attempt: Attempt): ReadonlySet<number> {
  const { capacity } = job.spec;
  const zoneAt = (place: number): string | undefined => {
    const at = capacityAt(capacity, place);
    return at.kind === 'tpu' ? at.zone : undefined;
  };
  const zones = new Set<string | undefined>();
  for (const { ending, allocation } of inThisChance(job, attempt)) {
    if (ending === null || ruleOf(job.spec.recovery, ending)?.avoidZone === undefined) continue;
    zones.add(zoneAt(allocationOf(job, allocation).place ?? 0));
  }
  const places = Array.from({ length: placeCount(capacity) }, (_, place) => place);
  const avoided = places.filter((place) => zones.has(zoneAt(place)));
  return new Set(avoided.length === places.length ? [] : avoided);
}

function placeAfter(job: Job, attempt: Attempt): number {
  const avoided = avoidedPlaces(job, attempt);
  let place = 0;
  while (avoided.has(place)) place += 1;
  return place;
}

// ------------------------------------------------------------------------------------------ what follows

export type Following =
  | {
      readonly next: 'attempt';
      readonly how: Wish['how'];
      readonly stage: number;
      readonly on: Answer['on'];
      /** Where a new allocation is asked for first. */
      readonly place: number;
      readonly notBefore: Instant;
      readonly applied: Applied;
    }
  | { readonly next: 'wish' }
  | { readonly next: 'settle'; readonly verdict: Settled['verdict']; readonly applied: Applied | null };

interface Applied {
  readonly then: Answer['then'];
  readonly on: Answer['on'];
  readonly used: number;
  readonly limit: number;
  /** The log pattern that the rule names. Without it a reader could not tell this row from the one for all else. */
  readonly pattern?: string;
  /** The other things that it names, for the same reason. */
  readonly exitCode?: number;
  readonly worker?: number;
  /** The number of the rule's own ends, and not of a budget's. */
  readonly isOwn?: true;
}

/** The next thing after the end of that attempt, if it ended now. The owner's word comes before any rule. */
export function whatFollows(job: Job, attempt: Attempt, now: Instant): Following {
  const { ending } = attempt;
  if (ending === null)
    throw new Error(`job ${job.id}: attempt ${attempt.ordinal} is not ending, nothing follows it yet`);
  const { reason, evidence } = ending;
  if (job.desired !== 'run') return settleAs(reason === 'succeeded' ? 'succeeded' : stoppedWord(job));
  if (job.wish !== null) return { next: 'wish' };
  switch (reason) {
    case 'stopped':
      return settleAs(stoppedWord(job));
    // No rule answers these: the job's own limit, and capacity that will not come. What may still come is waited for
    // within the attempt (askAnew in allocate.ts).
    case 'timed_out':
    case 'allocation_failed':
      return settleAs('failed');
    case 'succeeded':
    case 'preempted':
    case 'unreachable':
    case 'setup_failed':
    case 'command_failed':
    case 'hung':
      return byRule(job, attempt, reason, evidence, now);
  }
}

function settleAs(verdict: Settled['verdict'], applied: Applied | null = null): Following {
  return { next: 'settle', verdict, applied };
}

export function stoppedWord(job: Job): 'stopped' | 'cancelled' {
  return job.cancelled ? 'cancelled' : 'stopped';
}

function byRule(job: Job, attempt: Attempt, reason: RuledReason, evidence: Evidence, now: Instant): Following {
  // Its owner wants no further attempt. A success is a success all the same.
  if (job.answersNothing === true) return settleAs(reason === 'succeeded' ? 'succeeded' : 'failed');
  if (reason === 'succeeded' && job.spec.command.isSetupOnly === true) return settleAs('succeeded');
  const answer = answerFor(job.spec.recovery, reason, evidence);
  const rule = ruleFor(job.spec.recovery, reason, evidence);
  const { used, limit, isOwn } = allowance(job, attempt, reason, evidence);
  const applied: Applied = {
    ...answer,
    used: used.length,
    limit,
    ...(rule?.evidence === undefined ? {} : { pattern: rule.evidence }),
    ...(rule?.exitCodes === undefined || evidence.exitCode === undefined ? {} : { exitCode: evidence.exitCode }),
    ...(rule?.worker === undefined ? {} : { worker: rule.worker }),
    ...(isOwn && { isOwn: true as const }),
  };
  if (answer.then === 'done') return settleAs('succeeded');
  if (answer.then === 'fail') return settleAs('failed', applied);
  if (used.length > limit) return settleAs('failed', { ...applied, then: 'fail' });
  const { replaceable } = capacityTraits(job.spec.capacity);
  // The same again would only wait for the same silent worker.
  const givenUpAt = replaceable && answer.on === 'new' ? undefined : standingGivenUpAt(job, attempt);
  if (givenUpAt !== undefined && now >= givenUpAt) return settleAs('failed', { ...applied, then: 'fail' });
  return {
    next: 'attempt',
    ...shapeOf(attempt, answer.then),
    on: replaceable ? answer.on : 'same',
    place: placeAfter(job, attempt),
    notBefore: now + pauseAfter(job, attempt, reason, used, rule),
    applied,
  };
}

/** An attempt whose command never started leaves nothing new to resume from: the next one is as it was to be. */
function shapeOf(attempt: Attempt, then: 'resume' | 'rerun'): { readonly how: Wish['how']; readonly stage: number } {
  if (then === 'rerun') return { how: 'rerun', stage: 0 };
  if (attempt.startedAt === null) return { how: attempt.how, stage: attempt.stage };
  return { how: 'resume', stage: attempt.stage + 1 };
}

/** No budget ends a job that goes on after each success: one whose command ends at once must not be started without pause. */
const successPause: Duration = second;

/**
 * How long to wait before the next attempt. After a preemption nothing, unless the rule has a wait of its own: the wait for
 * capacity is wait enough. After
 * silence nothing at first. After failures the spec's delay, doubling while attempts fail quickly; one that ran for longer
 * than the longest delay begins the count anew.
 */
function pauseAfter(
  job: Job,
  attempt: Attempt,
  reason: RuledReason,
  used: readonly Attempt[],
  rule: Rule | undefined,
): Duration {
  const delay = rule?.delay ?? job.spec.recovery.delay;
  const delayMax = Math.max(delay, rule?.delayMax ?? job.spec.recovery.delayMax);
  const ranLong = used.findLastIndex(
    (one) => one.runningAt !== null && (one.ending?.since ?? 0) - one.runningAt > delayMax,
  );
  // The one that ran long counts as the first.
  const quick = used.length - Math.max(0, ranLong);
  switch (reason) {
    case 'preempted':
      return rule?.delay === undefined ? 0 : doubling(delay, delayMax, quick, job.id, attempt.ordinal);
    case 'succeeded':
      return Math.max(delay, successPause);
    case 'unreachable':
      return doubling(delay, delayMax, quick - 1, job.id, attempt.ordinal);
    case 'setup_failed':
    case 'command_failed':
    case 'hung':
      return doubling(delay, delayMax, quick, job.id, attempt.ordinal);
  }
}

// ------------------------------------------------------------------------------------------ silent workers

/** How many graces what is to be kept, or is not ours to replace, waits for a silent worker: time for its owner to see to it. */
export const keptGraces = 10;

/**
 * True while the attempt that its owner asked for has tried nothing yet, on capacity that an earlier one had used: what is
 * silent there was held for it, and to find that out is no try at the command. One of just the command wants that capacity
 * and no other.
 */
export function isOnHeld(job: Job, attempt: Attempt): boolean {
  if (!attempt.asked || attempt.startedAt !== null || attempt.commandOnly === true) return false;
  return job.attempts.some(({ ordinal, allocation }) => ordinal < attempt.ordinal && allocation === attempt.allocation);
}

/** How long a silent worker may hold up an attempt. A kept standing allocation cannot be replaced, so it gets longer. */
export function silencePatience(job: Job, attempt: Attempt): Duration {
  const { unreachableGrace } = job.spec.recovery;
  const isStanding = allocationOf(job, attempt.allocation).ownership === 'standing';
  return isStanding && isOnHeld(job, attempt) ? keptGraces * unreachableGrace : unreachableGrace;
}

/**
 * When a silent worker of a standing allocation is waited for no longer. The allocation is nobody's to let go, so the job
 * ends without it, and a program there that nobody hears of is left to itself: whatever is started there next ends it first.
 * Undefined while all answer, while the cloud itself is silent, and for what is the job's own.
 */
export function standingGivenUpAt(job: Job, attempt: Attempt): Instant | undefined {
  const { ownership, silentSince, silentWho, releasedAt } = allocationOf(job, attempt.allocation);
  if (ownership !== 'standing' || releasedAt !== null) return undefined;
  if (attempt.ending === null || silentSince === null || silentWho !== 'worker') return undefined;
  return silentSince + keptGraces * job.spec.recovery.unreachableGrace;
}
