// The `why` answer, one per row of the situation table: a sentence, its evidence with the time, the rule in force, the
// next step and its time. It uses the stored row and the database only and observes nothing.

import { needsSlot, type QueuePosition } from '../core/policy/admission.ts';
import { capacityWaitEnd, isPermanent } from '../core/decide/allocate.ts';
import type { Event } from '../core/model/event.ts';
import { keptUntil, giveUpAt } from '../core/decide/end.ts';
import { workerName } from '../core/decide/evidence.ts';
import {
  allocationOf,
  lastAllocation,
  lastAttempt,
  openAttempt,
  type Allocation,
  type Attempt,
  type Evidence,
  type ExitSeen,
  type Job,
  type TaskFailure,
} from '../core/model/job.ts';
import {
  hasAlternatives,
  exhaustsAlternative,
  alternativeAfter,
  type NextAlternative,
} from '../core/decide/alternatives.ts';
import { phaseOf, phaseSince, type Phase } from '../core/decide/phase.ts';
import { allowance, answerFor, isOnHeldCapacity, unreachableGraceOf, continuationOf } from '../core/decide/recover.ts';
import { situations, type SituationName } from '../core/decide/situations.ts';
import type { RecoverableReason } from '../core/model/spec.ts';
import type { Instant } from '../core/model/time.ts';
import {
  formatExit,
  likelyCause,
  formatCapacityCost,
  formatCapacity,
  formatEnding,
  formatEndReason,
  formatCloudError,
  formatRule,
  withoutSubject,
} from './phrases.ts';
import type { Why } from './client.ts';
import { formatAge, pluralize, formatDuration, formatTime, formatWorker, reasonPhrases, asClause } from './format.ts';
import type { HangEvidence } from './logs.ts';
import { formatCloudEvidence, lastRequestFailure } from './cloud-status.ts';
import { awaitsCapacity, formatTypicalWait, waitedFor, type TypicalWait } from './typical-wait.ts';
import {
  acceleratorOf,
  nextRequestAt,
  importedPhrase,
  interruptedSince,
  keptAllocations,
  lastEnding,
  lacksCapacity,
  releasingAllocations,
  pricePerHour,
  workersOf,
} from './views.ts';

export interface WhyContext {
  /** The whole history: it holds the rules that were applied and the reasons why observations failed. */
  readonly events: readonly Event[];
  readonly queuePosition?: QueuePosition | undefined;
  readonly nextCheckAt?: Instant | null;
  readonly typicalWait?: TypicalWait | null;
  readonly logTail?: readonly string[];
  /** After it, the running program may hang. */
  readonly hangEvidence?: HangEvidence | null;
}

export function whyOf(job: Job, now: Instant, context: WhyContext): Why {
  const explanation = answerOf({ job, now, ...context });
  const { typicalWait = null, nextCheckAt = null, logTail = [] } = context;
  // If the next step has its own time, omit an earlier check. Ignore a time in the past: the controller stores the next
  // check only when something changes.
  const isAhead =
    nextCheckAt !== null && nextCheckAt > now && (explanation.nextAt === null || nextCheckAt < explanation.nextAt);
  const isCheckAwaited = isAhead && awaitsCheck(job);
  return {
    id: job.id,
    ...explanation,
    logTail: isFailureCurrent(job) ? withoutQuotedLine(job, logTail) : [],
    typicalWait:
      typicalWait !== null && awaitsCapacity(job) ? formatTypicalWait(typicalWait, waitedFor(job, now)) : null,
    nextCheckAt: isCheckAwaited ? nextCheckAt : null,
    situation: situationOf(job),
  };
}

function situationOf({ situation: name }: Job): Why['situation'] {
  if (name === undefined) return null;
  return { name, description: situations.find((one) => one.name === name)?.means ?? null };
}

type WhyAnswer = Pick<Why, 'message' | 'evidence' | 'rule' | 'next' | 'nextAt'>;

/** The newest ended attempt, if its log can explain the end. */
export function failedAttempt(job: Job): Attempt | undefined {
  const attempt = job.attempts.findLast(({ ending }) => ending !== null);
  switch (attempt?.ending?.reason) {
    case 'command_failed':
    case 'hung':
    case 'timed_out':
    case 'unreachable':
    case 'setup_failed':
      return attempt;
    default:
      return undefined;
  }
}

function isFailureCurrent(job: Job): boolean {
  const phase = phaseOf(job);
  return (phase === 'failed' || phase === 'recovering' || phase === 'stopping') && failedAttempt(job) !== undefined;
}

function withoutQuotedLine(job: Job, logTail: readonly string[]): readonly string[] {
  const line = failedAttempt(job)?.ending?.evidence.line?.trim();
  return logTail.length === 1 && logTail[0]?.trim() === line ? [] : logTail;
}

/** True if only a check can bring news. A running program reports, and an ending attempt is checked often anyway. */
function awaitsCheck(job: Job): boolean {
  if ((lastAllocation(job)?.unreachableAt ?? null) !== null || awaitsCapacity(job)) return true;
  return openAttempt(job) === undefined && releasingAllocations(job).length > 0;
}

interface WhyRequest extends WhyContext {
  readonly job: Job;
  readonly now: Instant;
}

/** One answer per row. The row selects the function; the job gives times, names and the progress of the action. */
const answersBySituation: Readonly<Record<SituationName, (request: WhyRequest) => WhyAnswer>> = {
  removed: whyFinished,
  finished: whyFinished,
  'ended-by-owner': whyByRecord,
  'waiting-for-slot': whyQueued,
  'start-requested': whyByRecord,

  // The end of an attempt. The same pass may have observed the end and begun the next attempt.
  'attempt-over': whyEnded,
  'attempt-ending': whyEnded,
  'command-succeeded': whyEnded,
  'stop-requested': whyEnded,
  'recovery-disabled': whyEnded,
  'max-runtime-reached': whyEnded,
  'capacity-wait-reached': whyEnded,
  'capacity-unobtainable': whyEnded,
  preempted: whyEnded,
  'allocation-failed-permanently': whyEnded,
  'program-vanished': whyEnded,
  'command-failed': whyEnded,
  'hung-after-failed-call': whyEnded,
  hung: whyEnded,
  'worker-unreachable': whyEnded,
  'setup-failed': whyEnded,
  'no-worker-for-command': whyEnded,
  'worker-does-not-exist': whyEnded,
  'setup-done': whyEnded,

  running: ifCloudReachable(whyRunning),
  'setup-lost': ifCloudReachable(whySetup),
  'partly-started': ifCloudReachable(whySetup),
  'start-due': ifCloudReachable(whySetup),
  'workers-in-setup': ifCloudReachable(whySetup),
  'other-attempt-alive': whyByRecord,
  'attempt-waiting-for-slot': ifCloudReachable(whyWaitingForSlot),
  backoff: ifCloudReachable(whyBackoff),
  'allocation-failed': ifCloudReachable(whyPreviousReleasing),
  'kept-capacity-unreachable': ifCloudReachable(whyPreviousReleasing),
  'previous-allocation-releasing': ifCloudReachable(whyPreviousReleasing),
  'alternative-exhausted': ifCloudReachable(whyPreviousReleasing),
  'allocation-unknown': ifCloudReachable(whyWithoutCapacity),
  'better-alternative': ifCloudReachable(whyWithoutCapacity),
  'allocation-hidden': ifCloudReachable(whyWithoutCapacity),
  'request-due': ifCloudReachable(whyWithoutCapacity),
  'allocation-missed': ifCloudReachable(whyWithoutCapacity),
  'allocation-pending': ifCloudReachable(whyWithoutCapacity),
};

function answerOf(context: WhyRequest): WhyAnswer {
  const { job } = context;
  // A forced delete leaves programs that the controller still ends. For the user the job is gone.
  if (job.removed) return whyFinished(context);
  const name = job.situation;
  return name !== undefined && Object.hasOwn(answersBySituation, name)
    ? answersBySituation[name as SituationName](context)
    : whyByRecord(context);
}

function currentAttempt({ job }: WhyRequest): Attempt {
  const attempt = openAttempt(job);
  if (attempt === undefined) throw new Error(`job ${job.id} is ${job.situation}, and no attempt of it is under way`);
  return attempt;
}

/** The answer for the row that the next pass will find, from the job alone. */
function whyByRecord(context: WhyRequest): WhyAnswer {
  return answersBySituation[situationByRecord(context)](context);
}

/**
 * For a job without a stored row (a new job, a database of another version), or with a row that no longer holds because
 * its pass began the next attempt or ended another attempt's programs.
 */
function situationByRecord({ job, now, queuePosition }: WhyRequest): SituationName {
  const attempt = openAttempt(job);
  if (job.finish !== null) return 'finished';
  if (job.desired !== 'running' || (attempt !== undefined && attempt.ending !== null)) return 'attempt-ending';
  if (attempt === undefined) return 'waiting-for-slot';
  if (attempt.runningAt !== null) return 'running';
  if (attempt.notBeforeAt > now) return 'backoff';
  if (queuePosition !== undefined) return 'attempt-waiting-for-slot';
  return hasCapacity(job, attempt) ? 'workers-in-setup' : 'previous-allocation-releasing';
}

/** True once the attempt's capacity was ready, so that only its setup remains. */
function hasCapacity(job: Job, attempt: Attempt): boolean {
  const phase = phaseOf(job);
  return phase === 'setup' || (phase === 'recovering' && allocationOf(job, attempt.allocation).readyAt !== null);
}

// ------------------------------------------------------------------------------------------ unknown state

interface Outage {
  readonly since: Instant;
  readonly subject: string;
  readonly isCloud: boolean;
  readonly isLoginMissing: boolean;
  readonly evidence: string;
}

function outageOf(job: Job, events: readonly Event[], now: Instant): Outage | null {
  const allocation = lastAllocation(job);
  if (allocation === undefined || allocation.unreachableAt === null) return null;
  const { unreachableAt: since, unreachableWho, name } = allocation;
  const isLoginMissing = unreachableWho === 'login';
  const isCloud = unreachableWho !== 'worker';
  const event = events.findLast((event) => event.kind === 'unreachable' && event.allocation === allocation.ordinal);
  // The cloud and a worker may be unreachable one after the other. The event of one does not describe the other.
  const isSameSubject = event?.kind === 'unreachable' && (event.worker === undefined) === isCloud;
  const worker = isSameSubject ? event.worker : undefined;
  const detail = isSameSubject
    ? asClause(withoutSubject(event.message, worker === undefined ? '' : formatWorker(worker)))
    : '';
  return {
    since,
    subject: isCloud ? 'the cloud' : worker === undefined ? 'a worker' : formatWorker(worker),
    isCloud,
    isLoginMissing,
    evidence: `no ${isLoginMissing ? 'login' : 'answer'}${isCloud && !isLoginMissing ? ` about ${name}` : ''} since ${formatTime(since, now)}${detail === '' ? '' : `: ${detail}`}`,
  };
}

/** While the cloud does not answer, nothing else is certain, so the answer is that the state is unknown. */
function ifCloudReachable(explainKnown: (context: WhyRequest) => WhyAnswer): (context: WhyRequest) => WhyAnswer {
  return (context) => {
    const outage = outageOf(context.job, context.events, context.now);
    return outage?.isCloud === true ? whyUnknown(context, outage) : explainKnown(context);
  };
}

function whyUnknown({ job, now }: WhyRequest, outage: Outage): WhyAnswer {
  const { since, isLoginMissing } = outage;
  const phase = phaseOf(job);
  const state = phase === 'setup' ? 'in setup' : phase;
  const ending = phase === 'recovering' ? lastEnding(job) : null;
  const after = ending === null ? '' : ` (${reasonPhrases[ending.reason]} at ${formatTime(ending.startedAt, now)})`;
  return {
    message: `${job.id}: not known since ${formatTime(since, now)} (${formatDuration(now - since)})${isLoginMissing ? ', for lack of a login' : ''}. It was ${state}${after} then; nothing is changed.`,
    evidence: outage.evidence,
    rule: null,
    next: isLoginMissing
      ? 'the job goes on by itself after you have logged in'
      : 'the controller keeps looking, without limit, and goes on from what it sees',
    nextAt: null,
  };
}

// ------------------------------------------------------------------------------------------ waiting

function whyQueued({ job, now, queuePosition }: WhyRequest): WhyAnswer {
  return {
    message: `${job.id} is queued: ${formatQueuePosition(job, queuePosition)}.`,
    evidence: `no attempt has begun since ${formatTime(phaseSince(job), now)}, ${formatAge(now - phaseSince(job))} ago`,
    rule: null,
    next: nextForQueue(job, queuePosition),
    nextAt: null,
  };
}

function whyWaitingForSlot(context: WhyRequest): WhyAnswer {
  const { job, queuePosition: position } = context;
  const attempt = currentAttempt(context);
  if (phaseOf(job) !== 'recovering' || position === undefined)
    return hasCapacity(job, attempt) ? whySetup(context) : whyPreviousReleasing(context);
  return whyRecovering(context, {
    clause: `${formatAttempt(attempt)} waits for a place: ${formatQueuePosition(job, position)}`,
    next: nextForQueue(job, position),
    nextAt: null,
  });
}

function whyPreviousReleasing(context: WhyRequest): WhyAnswer {
  const { job, now } = context;
  const { requestedAt } = allocationOf(job, currentAttempt(context).allocation);
  const releasing = requestedAt === null ? releasingAllocations(job) : [];
  if (releasing.length === 0 || phaseOf(job) === 'recovering') return whyWithoutCapacity(context);
  return {
    message: `${job.id} is queued: what it held before is to be seen gone first.`,
    evidence: releasing.map((allocation) => formatCloudEvidence(job, allocation, now)).join('; '),
    rule: null,
    next: `${formatCapacity(job, lastAllocation(job)?.alternative)} is asked for then`,
    nextAt: null,
  };
}

function whyWithoutCapacity(context: WhyRequest): WhyAnswer {
  const { job, now } = context;
  const attempt = currentAttempt(context);
  if (hasCapacity(job, attempt)) return whyByRecord(context);
  const allocation = allocationOf(job, attempt.allocation);
  const phase = phaseOf(job);
  if (phase === 'provisioning') return whyProvisioning(job, allocation, now);
  const clause = formatCapacityWait(job, attempt, allocation, now);
  const evidence = formatCloudEvidence(job, allocation, now);
  const next = nextForCapacity(job, attempt, allocation, now);
  if (phase === 'recovering') return whyRecovering(context, { clause, evidence, ...next });
  return { message: `${job.id} is queued: ${clause}.`, evidence, rule: null, ...next };
}

function formatQueuePosition(job: Job, position: QueuePosition | undefined): string {
  if (!needsSlot(job)) return 'no controller has looked at it yet';
  if (position === undefined) return 'it waits for its turn';
  const { slots, slotsUsed, ahead } = position;
  if (slotsUsed < slots && ahead < slots - slotsUsed) return 'it is its turn, and no controller has looked at it yet';
  const jobs = `${pluralize(ahead, 'job')} ${ahead === 1 ? 'is' : 'are'} ahead`;
  return `${slotsUsed} of ${pluralize(slots, 'place')} of this machine are taken${ahead === 0 ? '' : `, and ${jobs}`}`;
}

function nextForQueue(job: Job, position: QueuePosition | undefined): string {
  if (!needsSlot(job) || (position !== undefined && position.slotsUsed < position.slots))
    return 'the controller begins an attempt';
  const which =
    position?.ahead === 0 ? 'it is the next to begin, as soon as a place is free' : 'it begins when its turn has come';
  return `${which} (local.slots says how many there are)`;
}

function formatCapacityWait(job: Job, attempt: Attempt, allocation: Allocation, now: Instant): string {
  const error = (allocation.lastError ?? lastRequestFailure(job, attempt))?.error;
  const kind = error?.kind;
  if (kind === 'stockout' || lacksCapacity(allocation, now))
    return `no capacity for ${formatCapacity(job, allocation.alternative)} so far`;
  if (kind === undefined && allocation.lastObserved?.state === 'waiting')
    return `it waits for ${formatCapacity(job, allocation.alternative)}`;
  if (error !== undefined)
    return `${formatCapacity(job, allocation.alternative)} was not given (${formatCloudError(error)})`;
  if (allocation.requestedAt !== null) return `${formatCapacity(job, allocation.alternative)} is asked for`;
  return `${formatCapacity(job, allocation.alternative)} is about to be asked for`;
}

function nextForCapacity(
  job: Job,
  attempt: Attempt,
  allocation: Allocation,
  now: Instant,
): Pick<WhyAnswer, 'next' | 'nextAt'> {
  const nextAlternative = alternativeAfterRefusal(job, attempt, allocation, now);
  const retryAt = nextAlternative === undefined ? nextRequestAt(job, now) : null;
  const end = capacityWaitEnd(job, attempt);
  const limit =
    end === undefined
      ? ''
      : `; it gives up ${end > now ? `in ${formatDuration(end - now)}` : 'now'}, by its limit on waiting`;
  if (nextAlternative !== undefined) {
    const nextAt = nextAlternative.notBefore > now ? nextAlternative.notBefore : null;
    return { next: `${formatCapacity(job, nextAlternative.alternative)} is asked for${limit}`, nextAt };
  }
  if (retryAt !== null) return { next: `it is asked for again${limit}`, nextAt: retryAt };
  const kind = allocation.lastError?.error.kind;
  if (kind !== undefined && isPermanent(kind)) return { next: 'nothing more is asked: the job ends', nextAt: null };
  return { next: `it is set up as soon as it is there${limit}`, nextAt: null };
}

/** The alternative that the attempt tries after a refusal that the controller has not acted on yet. */
function alternativeAfterRefusal(
  job: Job,
  attempt: Attempt,
  allocation: Allocation,
  now: Instant,
): NextAlternative | undefined {
  const kind = allocation.lastError?.error.kind;
  const isExhausted =
    kind !== undefined && allocation.confirmedAt === null && exhaustsAlternative(kind) && hasAlternatives(job);
  if (!isExhausted || attempt.notBeforeAt > now) return undefined;
  const next = alternativeAfter(job, attempt, kind, undefined, now);
  return next?.alternative === (allocation.alternative ?? 0) ? undefined : next;
}

// ------------------------------------------------------------------------------------------ provisioning and setup

function whyProvisioning(job: Job, allocation: Allocation, now: Instant): WhyAnswer {
  const interruption = interruptionOf(job, now);
  const it = `its ${acceleratorOf(job)}`;
  return {
    message: `${job.id} is provisioning: ${it} ${interruption === null ? 'is being made' : interruption.text}.`,
    evidence: formatCloudEvidence(job, allocation, now),
    rule: null,
    next: interruption === null ? 'it is set up when it is ready' : `it is set up ${interruption.wait}`,
    nextAt: null,
  };
}

/** A worker is silent before the command starts: the job switches to new ephemeral capacity, else the attempt ends. */
function nextForOutage(job: Job, attempt: Attempt, since: Instant): Pick<WhyAnswer, 'rule' | 'next' | 'nextAt'> {
  const isExchanged = isOnHeldCapacity(job, attempt) && allocationOf(job, attempt.allocation).ownership === 'ephemeral';
  return {
    rule: isExchanged ? null : formatRuleFor(job, 'unreachable'),
    next: isExchanged
      ? 'another TPU takes its place if the worker stays silent while the cloud says that it is ready'
      : 'its worker is given up if it stays silent while the cloud says that it is ready',
    nextAt: since + unreachableGraceOf(job, attempt),
  };
}

/** The pause before an attempt with ready capacity. Without capacity, the answer explains the capacity. */
function whyBackoff(context: WhyRequest): WhyAnswer {
  const { job, events, now } = context;
  const attempt = currentAttempt(context);
  const { ordinal, notBeforeAt } = attempt;
  if (notBeforeAt <= now) return whyByRecord(context);
  if (!hasCapacity(job, attempt)) return whyPreviousReleasing(context);
  if (phaseOf(job) === 'recovering') {
    const clause = `${formatAttempt(attempt)} follows after a pause`;
    const outage = outageOf(job, events, now);
    return whyRecovering(context, { clause, ...nextForStart(job, attempt, outage), nextAt: notBeforeAt });
  }
  const ending = lastEnding(job);
  if (ending === null || outageOf(job, events, now) !== null) return whySetup(context);
  return {
    message: `${job.id} is in setup: its attempt ended ${formatAge(now - ending.startedAt)} ago (${formatEndReason(ending)}); attempt ${ordinal} follows after a pause.`,
    evidence: formatEndCause(job, ending),
    rule: lastRule(job, events),
    next: `its setup begins again on ${pluralize(lastAllocation(job)?.workers ?? 1, 'worker')}`,
    nextAt: notBeforeAt,
  };
}

function whySetup(context: WhyRequest): WhyAnswer {
  const { job, events, now } = context;
  const attempt = currentAttempt(context);
  const outage = outageOf(job, events, now);
  if (phaseOf(job) === 'recovering') {
    const clause = `${formatAttempt(attempt)} is being set up`;
    return whyRecovering(context, { clause, ...nextForStart(job, attempt, outage), nextAt: null });
  }
  if (outage !== null) {
    return {
      message: `${job.id} is in setup: ${outage.subject} has not answered for ${formatDuration(now - outage.since)}. Nothing is changed.`,
      evidence: outage.evidence,
      ...nextForOutage(job, attempt, outage.since),
    };
  }
  const next = {
    next: `the command starts on ${formatAttemptWorkers(job, attempt)} when all steps hold${formatStepLogHint(job, attempt)}`,
    nextAt: null,
  };
  const newest = newestFailure(attempt);
  if (newest === undefined) {
    const steps = job.spec.steps.map((step) => step.name).join(', ');
    const workers = pluralize(lastAllocation(job)?.workers ?? 1, 'worker');
    return {
      message: `${job.id} is in setup: ${steps === '' ? 'its command is being started' : `${steps} on ${workers}`}.`,
      evidence: `ready since ${formatTime(phaseSince(job), now)}, ${formatDuration(now - phaseSince(job))} ago`,
      rule: null,
      ...next,
    };
  }
  const { task, tries, message: detail, lastAt } = newest;
  const count =
    tries === 0 ? 'it does not count as a try' : `${tries} of ${pluralize(job.spec.limits.setupTries, 'try', 'tries')}`;
  return {
    message: `${job.id} is in setup: ${formatTask(task)} ${tries === 0 ? 'was broken off' : 'failed'} and is tried again.`,
    evidence: `${asClause(detail)}, ${formatAge(now - lastAt)} ago; ${count}`,
    rule: formatRuleFor(job, 'setup_failed'),
    ...next,
  };
}

function formatStepLogHint(job: Job, attempt: Attempt | undefined): string {
  const task = newestFailure(attempt, 'step')?.task;
  return task?.kind !== 'step' ? '' : `; what the step printed: jobman logs ${Number(job.id)} --step ${task.step}`;
}

function newestFailure(attempt: Attempt | undefined, kind?: TaskFailure['task']['kind']): TaskFailure | undefined {
  const failures = (attempt?.failures ?? []).filter(({ task }) => kind === undefined || task.kind === kind);
  return failures.toSorted((one, other) => other.lastAt - one.lastAt)[0];
}

function formatTask(task: TaskFailure['task']): string {
  const worker = workerName(task.worker);
  return task.kind === 'step' ? `step ${task.step} on ${worker}` : `the ${task.kind} of the command on ${worker}`;
}

function formatAttemptWorkers(job: Job, attempt: Attempt): string {
  const workers = workersOf(job, attempt);
  if (job.spec.capacity.kind === 'local' || workers[0] === 'controller') return 'this machine';
  return workers.length === 0 ? 'its workers' : pluralize(workers.length, 'worker');
}

/** A maintenance interruption ends by itself, and no limit of the job ends it: a clause about it and about the wait. */
function interruptionOf(job: Job, now: Instant): { readonly text: string; readonly wait: string } | null {
  const since = interruptedSince(job);
  if (since === undefined) return null;
  const detail = lastAllocation(job)?.lastObserved?.detail ?? '';
  const detailText = detail === '' ? '' : ` (${detail})`;
  const releaseHint =
    job.spec.capacity.ownership === 'ephemeral' ? `; to let it go: jobman cancel ${Number(job.id)}` : '';
  return {
    text: `has been interrupted for ${formatDuration(now - since)}${detailText} and comes back by itself`,
    wait: `when it is back, which is waited for without limit${releaseHint}`,
  };
}

// ------------------------------------------------------------------------------------------ running

function whyRunning(context: WhyRequest): WhyAnswer {
  const { job, events, hangEvidence = null, now } = context;
  const attempt = currentAttempt(context);
  const { runningAt } = attempt;
  if (runningAt === null) return whySetup(context);
  const allocation = allocationOf(job, attempt.allocation);
  const { maxRuntimeMs } = job.spec.limits;
  const end =
    maxRuntimeMs === null
      ? { next: `it ends when its program does${formatHangRule(job)}`, nextAt: null }
      : { next: 'its program is ended when its time is over', nextAt: runningAt + maxRuntimeMs };
  const outage = outageOf(job, events, now);
  if (outage !== null) {
    return {
      message: `${job.id} ran when it was last seen; ${outage.subject} has not answered for ${formatDuration(now - outage.since)}. Nothing is changed.`,
      evidence: outage.evidence,
      rule: formatRuleFor(job, 'unreachable'),
      next: 'its worker is given up if it stays silent while the cloud says that it is ready',
      nextAt: outage.since + job.spec.recovery.unreachableGraceMs,
    };
  }
  const interruption = interruptionOf(job, now);
  if (interruption !== null) {
    return {
      message: `${job.id} ran when it was last seen; its ${acceleratorOf(job)} ${interruption.text}.`,
      evidence: formatCloudEvidence(job, allocation, now),
      rule: formatRuleFor(job, 'unreachable'),
      next: `the command goes on, or is judged, ${interruption.wait}`,
      nextAt: end.nextAt,
    };
  }
  if (attempt.exitSeen !== undefined) return whyExitUndecided(job, attempt.exitSeen, now);
  if (hangEvidence !== null)
    return {
      message: `${job.id} has been running for ${formatDuration(now - runningAt)} on ${formatAttemptWorkers(job, attempt)}, and may hang: ${hangEvidence.description}.`,
      evidence: `its log says "${hangEvidence.line}", and nothing of progress after that`,
      rule: formatRuleFor(job, 'hung'),
      next: 'its program is ended if it prints nothing until then',
      nextAt: hangEvidence.timeoutAt,
    };
  return {
    message: `${job.id} has been running for ${formatDuration(now - runningAt)} on ${formatAttemptWorkers(job, attempt)}.`,
    evidence: `attempt ${attempt.ordinal}, stage ${attempt.stage}, seen running since ${formatTime(runningAt, now)}`,
    rule: job.spec.capacity.kind === 'tpu' ? formatRuleFor(job, 'preempted') : formatRuleFor(job, 'command_failed'),
    ...end,
  };
}

function formatHangRule({ spec: { limits } }: Job): string {
  const { failedCallTimeoutMs } = limits;
  if (failedCallTimeoutMs === undefined) return '';
  return `, or once it prints nothing for ${formatDuration(failedCallTimeoutMs)} after a failed call between workers`;
}

/** A program was killed where the cloud may preempt: the cloud has half a minute to report the preemption. */
function whyExitUndecided(job: Job, exit: ExitSeen, now: Instant): WhyAnswer {
  const cause = likelyCause({ message: '', ...exit });
  return {
    message: `${job.id}: its program has ended on ${formatWorker(exit.worker)} and is not judged yet: the cloud may be about to say that it took the machine.`,
    evidence: `${formatExit(exit)}, seen ${formatTime(exit.at, now)}, ${formatAge(now - exit.at)} ago${cause === null ? '' : `; ${cause}`}`,
    rule: `${formatRuleFor(job, 'preempted')}; else ${formatRuleFor(job, 'command_failed', exit)}`,
    next: 'if the cloud reports a preemption within half a minute of its end, it counts as one; otherwise as a failure of the program',
    nextAt: null,
  };
}

function formatRuleFor(job: Job, reason: RecoverableReason, ending: Omit<Evidence, 'message'> = {}): string {
  if (job.recoveryDisabled === true) return recoveryDisabledText;
  const answer = answerFor(job.spec.recovery, reason, { message: '', ...ending });
  const attempt = lastAttempt(job);
  if (answer.then === 'fail' || attempt === undefined || reason === 'succeeded') {
    return formatRule(job, { reason, ...answer, pattern: ending.pattern, used: 0, limit: 0 });
  }
  const { used, limit, isRuleLimit } = allowance(job, attempt, reason, { message: '', ...ending });
  return formatRule(job, {
    reason,
    ...answer,
    pattern: ending.pattern,
    used: used.length,
    limit,
    ...(isRuleLimit && { isRuleLimit: true }),
  });
}

// ------------------------------------------------------------------------------------------ recovering

/** An attempt has ended and the next one does not run yet. `part` explains it, unless the capacity is interrupted. */
function whyRecovering(
  context: WhyRequest,
  part: Pick<WhyAnswer, 'next' | 'nextAt'> & { readonly clause: string; readonly evidence?: string | null },
): WhyAnswer {
  const { job, events, now } = context;
  const rule = lastRule(job, events);
  const interruption = interruptionOf(job, now);
  if (interruption === null) return recoveringAnswer(job, rule, part, now);
  const evidence = formatCloudEvidence(job, allocationOf(job, currentAttempt(context).allocation), now);
  const next = `it is set up ${interruption.wait}`;
  return recoveringAnswer(
    job,
    rule,
    { clause: `the next one ${interruption.text}`, evidence, next, nextAt: null },
    now,
  );
}

function recoveringAnswer(
  job: Job,
  rule: string | null,
  part: Pick<WhyAnswer, 'next' | 'nextAt'> & { readonly clause: string; readonly evidence?: string | null },
  now: Instant,
): WhyAnswer {
  const ending = lastEnding(job);
  if (ending === null) throw new Error(`job ${job.id} is recovering, and no attempt of it has ended`);
  const ago = formatAge(now - ending.startedAt);
  const happened =
    ending.reason === 'preempted'
      ? `its ${acceleratorOf(job)} was preempted ${ago} ago`
      : `its attempt ended ${ago} ago (${formatEndReason(ending)})`;
  const ended = `${formatEndCause(job, ending)}; seen ${formatTime(ending.startedAt, now)}`;
  const { clause, evidence = null, next, nextAt } = part;
  return {
    message: `${job.id} is recovering: ${happened}; ${clause}.`,
    evidence: evidence === null ? ended : `${ended}; ${evidence}`,
    rule,
    next,
    nextAt,
  };
}

function nextForStart(job: Job, attempt: Attempt, outage: Outage | null): { next: string; evidence: string | null } {
  return {
    next: `its command starts on ${formatAttemptWorkers(job, attempt)}`,
    evidence: outage === null ? null : `${outage.subject}: ${outage.evidence}`,
  };
}

function formatAttempt({ ordinal, stage }: Attempt): string {
  return `attempt ${ordinal}, stage ${stage}`;
}

function formatEndCause(job: Job, ending: NonNullable<Attempt['ending']>): string {
  const cause = ending.reason === 'command_failed' ? likelyCause(ending.evidence) : null;
  return `${formatEnding(job, ending)}${cause === null ? '' : `; ${cause}`}`;
}

/**
 * The rule that applies once the attempt has fully ended. The newest `rule_applied` event is about the attempt before.
 */
function upcomingRule(job: Job, attempt: Attempt): string | null {
  const { ending } = attempt;
  if (ending === null) return null;
  const continuation = continuationOf(job, attempt, ending.startedAt);
  return continuation.next === 'attempt' ? formatRule(job, { reason: ending.reason, ...continuation.applied }) : null;
}

/** Replaces the rule after the owner has disabled recovery. */
const recoveryDisabledText = 'none applies any more: its owner wanted no further attempt';

function lastRule(job: Job, events: readonly Event[]): string | null {
  if (job.recoveryDisabled === true) return recoveryDisabledText;
  const applied = events.findLast((event) => event.kind === 'rule_applied');
  return applied === undefined ? null : formatRule(job, applied);
}

// ------------------------------------------------------------------------------------------ ending

/** The same pass may have ended the attempt: then the job has finished or continues. */
function whyEnded(context: WhyRequest): WhyAnswer {
  const { job } = context;
  const attempt = openAttempt(job);
  if (job.finish !== null) return whyFinished(context);
  if (job.desired === 'running' && (attempt === undefined || attempt.ending === null)) return whyByRecord(context);
  return phaseOf(job) === 'recovering' ? whyEndingBeforeNext(context) : whyStopping(context);
}

function whyEndingBeforeNext({ job, events, now }: WhyRequest): WhyAnswer {
  const attempt = openAttempt(job);
  const rule = attempt === undefined ? null : upcomingRule(job, attempt);
  const obstacle = endingObstacleOf(job, events, now);
  const part = {
    clause: `what is left of it is being ended${withObstacle(obstacle)}`,
    evidence: obstacle?.evidence ?? null,
    next: obstacle?.next ?? 'the next attempt begins when nothing of it is alive',
    nextAt: obstacle?.nextAt ?? null,
  };
  return recoveringAnswer(job, rule, part, now);
}

function whyStopping({ job, events, now }: WhyRequest): WhyAnswer {
  const ending = openAttempt(job)?.ending ?? null;
  const { signal, graceMs } = job.spec.stop;
  const requestedAt = ending?.stopRequestedAt ?? null;
  const isInGrace = requestedAt !== null && now < requestedAt + graceMs;
  const obstacle = endingObstacleOf(job, events, now);
  const evidence = [
    obstacle?.evidence,
    requestedAt === null
      ? undefined
      : `${signal} sent at ${formatTime(requestedAt, now)}, ${formatAge(now - requestedAt)} ago`,
    requestedAt === null && ending !== null && ending.reason !== 'stopped' ? formatEndCause(job, ending) : undefined,
    obstacle === null ? formatStopFailure(job, now) : undefined,
  ].filter((part) => part !== undefined);
  return {
    message: `${job.id} is stopping: ${formatEndOrigin(job, events, now)}${withObstacle(obstacle)}.`,
    evidence: evidence.length === 0 ? null : evidence.join('; '),
    rule: `${signal}, then after ${formatDuration(graceMs)} it is killed with all its children`,
    next:
      obstacle?.next ??
      (isInGrace ? 'it is killed if it is still there' : 'the controller sees that nothing of it is alive'),
    nextAt: obstacle === null ? (isInGrace ? requestedAt + graceMs : null) : obstacle.nextAt,
  };
}

interface EndingObstacle {
  readonly clause: string;
  readonly evidence: string | undefined;
  readonly next: string;
  readonly nextAt: Instant | null;
}

function withObstacle(obstacle: EndingObstacle | null): string {
  return obstacle === null ? '' : `; ${obstacle.clause}`;
}

/** Without an answer or during maintenance, the end of the program cannot be observed. */
function endingObstacleOf(job: Job, events: readonly Event[], now: Instant): EndingObstacle | null {
  const attempt = openAttempt(job);
  if (attempt === undefined || attempt.ending === null) return null;
  const { ownership } = allocationOf(job, attempt.allocation);
  const it = `its ${acceleratorOf(job)}`;
  const number = Number(job.id);
  const interruption = interruptionOf(job, now);
  if (interruption !== null) {
    const next = `it ends when ${it} is back, which is waited for without limit`;
    const releaseHint = ownership === 'ephemeral' ? `; to let it go now: jobman cancel ${number}` : '';
    return { clause: `${it} ${interruption.text}`, evidence: undefined, next: `${next}${releaseHint}`, nextAt: null };
  }
  const outage = outageOf(job, events, now);
  if (outage === null) return null;
  const length = formatDuration(now - outage.since);
  const clause = outage.isLoginMissing
    ? `the cloud could not be asked for ${length}, for lack of a login`
    : `${outage.subject} has not answered for ${length}`;
  const { evidence } = outage;
  if (ownership === 'persistent') {
    const end = 'it ends when the worker answers or its TPU is seen gone';
    const continues = continuationOf(job, attempt, attempt.ending.startedAt).next === 'attempt';
    const consequence = continues ? 'the job fails' : 'it ends without that';
    const next = `${end}${outage.isCloud ? '' : `; else ${consequence}, and the TPU stays as it is`}; to wait no longer: jobman delete ${number} --force`;
    return { clause, evidence, next, nextAt: giveUpAt(job, attempt, now) ?? null };
  }
  if (outage.isCloud) {
    const next = `the controller keeps asking, without limit; to release ${it} as soon as the cloud answers: jobman cancel ${number}`;
    return { clause, evidence, next, nextAt: null };
  }
  // The caller appends the time of the automatic release.
  const next = `to let ${it} go now: jobman cancel ${number}; else it ends when the worker answers, or is let go`;
  return { clause, evidence, next, nextAt: giveUpAt(job, attempt, now) ?? null };
}

function formatStopFailure(job: Job, now: Instant): string | undefined {
  const newest = newestFailure(openAttempt(job), 'stop');
  if (newest === undefined) return undefined;
  const { task, lastAt, message: detail } = newest;
  return `${formatTask(task)} failed ${formatAge(now - lastAt)} ago: ${asClause(detail)}`;
}

function formatEndOrigin(job: Job, events: readonly Event[], now: Instant): string {
  const ending = openAttempt(job)?.ending ?? null;
  if (job.desired !== 'running') {
    const command = events.findLast((event) => event.kind === 'command_received');
    const origin = command === undefined ? 'it was asked to' : `${command.by} said ${command.verb}`;
    return `${origin} ${formatAge(now - job.desiredAt)} ago`;
  }
  const reason = ending === null ? 'it has ended' : reasonPhrases[ending.reason];
  return `${reason} ${formatAge(now - phaseSince(job))} ago; what is left of it is being ended`;
}

// ------------------------------------------------------------------------------------------ ended

function whyFinished({ job, events, now }: WhyRequest): WhyAnswer {
  const phase = phaseOf(job);
  const at = phaseSince(job);
  const ending = lastAttempt(job)?.ending ?? null;
  const releasing = releasingAllocations(job);
  const ended =
    ending === null
      ? `ended at ${formatTime(at, now)}`
      : `${formatEndCause(job, ending)}; at ${formatTime(ending.startedAt, now)}`;
  return {
    message: `${job.id} ${formatFinish(job, phase)} ${formatAge(now - at)} ago${formatHeldCapacity(job)}.`,
    evidence: [
      ended,
      ...formatLaterLoss(job, at, events, now),
      ...releasing.map((allocation) => formatCloudEvidence(job, allocation, now)),
    ].join('; '),
    rule: phase === 'failed' ? lastRule(job, events) : null,
    ...nextForFinished(job, phase),
  };
}

/** The loss of capacity that the job kept after its end. The job's end does not explain it. */
function formatLaterLoss(job: Job, end: Instant, events: readonly Event[], now: Instant): readonly string[] {
  const event = events.find((event) => event.kind === 'allocation_seen' && event.state === 'lost' && event.at > end);
  if (event?.kind !== 'allocation_seen') return [];
  const { allocation, at, message: detail } = event;
  const isReleasedBefore = (job.allocations[allocation - 1]?.releasedAt ?? at) < at;
  const detailText = detail === '' ? '' : ` (${detail})`;
  return isReleasedBefore
    ? []
    : [`the ${acceleratorOf(job)} that it kept was lost${detailText} at ${formatTime(at, now)}`];
}

function formatFinish(job: Job, phase: Phase): string {
  const reason = job.finish?.reason;
  switch (phase) {
    case 'failed':
      return reason === undefined ? phase : `${phase} (${formatFailure(job, reason)})`;
    case 'stopped':
    case 'cancelled': {
      const imported = importedPhrase(job);
      return imported === undefined
        ? `was ${phase} by ${job.endedBy ?? 'its owner'}`
        : `counts as ${phase} (${imported})`;
    }
    default:
      return phase;
  }
}

function formatFailure(job: Job, reason: NonNullable<Job['finish']>['reason']): string {
  const ending = lastEnding(job);
  return ending?.reason === reason ? formatEndReason(ending) : reasonPhrases[reason];
}

function nextForFinished(job: Job, phase: Phase): Pick<WhyAnswer, 'next' | 'nextAt'> {
  if (job.removed) {
    // Only a forced delete leaves capacity, and the job does not know its later state.
    const orphanHint =
      keptAllocations(job).length > 0 ? '; what it held was never seen gone; to look for it: jobman gc' : '';
    return { next: `nothing: it was taken off the list${orphanHint}`, nextAt: null };
  }
  if (releasingAllocations(job).length > 0) {
    const then = job.desired === 'deleted' ? '; then it leaves the list' : '';
    return { next: `the controller looks until its ${acceleratorOf(job)} is seen gone${then}`, nextAt: null };
  }
  const until = keptUntil(job);
  if (until !== undefined && keptAllocations(job).length > 0) {
    return { next: `what it still holds is let go; at once: jobman stop ${Number(job.id)} --release`, nextAt: until };
  }
  const number = Number(job.id);
  const again = `from the beginning: jobman rerun ${number}`;
  const { command, capacity } = job.spec;
  if (phase === 'succeeded' && command.isSetupOnly === true && keptAllocations(job).length > 0) {
    const release = capacity.ownership === 'ephemeral' ? `; to release it: jobman stop ${number} --release` : '';
    return { next: `nothing: the job runs no command and keeps its ${acceleratorOf(job)}${release}`, nextAt: null };
  }
  if (phase === 'succeeded') return { next: `nothing; ${again}`, nextAt: null };
  const attempt = lastAttempt(job);
  const log =
    attempt?.ending?.reason === 'setup_failed' ? formatStepLogHint(job, attempt) : formatLogHint(job, attempt);
  const releaseHint =
    keptAllocations(job).length > 0 ? `; to let its ${acceleratorOf(job)} go: jobman stop ${number} --release` : '';
  return { next: `nothing by itself${log}; to go on: jobman resume ${number}; ${again}${releaseHint}`, nextAt: null };
}

function formatLogHint(job: Job, attempt: Attempt | undefined): string {
  return attempt !== undefined && failedAttempt(job) === attempt
    ? `; all that it printed: jobman logs ${Number(job.id)}`
    : '';
}

function formatHeldCapacity(job: Job): string {
  if (job.removed || keptAllocations(job).length === 0) return '';
  const price = pricePerHour(job);
  return `; it still holds ${acceleratorOf(job)}${price === null ? '' : `, which costs ${formatCapacityCost(job.spec.capacity, price)}`}`;
}
