// The `why` answer, one per row of the situation table: a message, its evidence with the time, the rule in force, the
// next step and its time. It uses the stored row and the database only and observes nothing.

import { needsSlot, type QueuePosition } from '../core/policy/admission.ts';
import { capacityWaitEnd, isPermanent } from '../core/decide/allocate.ts';
import type { Event } from '../core/model/event.ts';
import { keptUntil } from '../core/decide/finish.ts';
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
import { hasAlternatives, exhaustsAlternative, alternativeAfter } from '../core/decide/alternatives.ts';
import { phaseOf, phaseSince } from '../core/decide/phase.ts';
import {
  allowance,
  answerFor,
  continuationOf,
  giveUpAt,
  isOnHeldCapacity,
  unreachableGraceOf,
} from '../core/decide/recover.ts';
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
import {
  asClause,
  capitalize,
  formatAge,
  formatDuration,
  formatTime,
  formatWorker,
  pluralize,
  reasonPhrases,
} from './format.ts';
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
  requestedCommand,
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
  const { message, evidence = null, rule = null, next, nextAt = null } = answerOf({ job, now, ...context });
  const { typicalWait = null, nextCheckAt = null, logTail = [] } = context;
  // If the next step has its own time, omit an earlier check. Ignore a time in the past: the controller stores the next
  // check only when something changes.
  const isAhead = nextCheckAt !== null && nextCheckAt > now && (nextAt === null || nextCheckAt < nextAt);
  return {
    id: job.id,
    message: `Job ${job.id} ${message}.`,
    evidence,
    rule,
    next,
    nextAt,
    logTail: isFailureCurrent(job) ? withoutQuotedLine(job, logTail) : [],
    typicalWait:
      typicalWait !== null && awaitsCapacity(job) ? formatTypicalWait(typicalWait, waitedFor(job, now)) : null,
    nextCheckAt: isAhead && awaitsCheck(job) ? nextCheckAt : null,
    situation: situationOf(job),
  };
}

function situationOf({ situation: name }: Job): Why['situation'] {
  if (name === undefined) return null;
  return { name, description: situations.find((one) => one.name === name)?.means ?? null };
}

interface WhyAnswer {
  /** Follows `Job 000042 `; without the last full stop. */
  readonly message: string;
  readonly evidence?: string | null;
  readonly rule?: string | null;
  /** Sentences. The screens add `nextAt` to the first. */
  readonly next: string;
  readonly nextAt?: Instant | null;
}

/** The second half of a message: what happens now. It follows a colon, or begins a sentence. */
type Step = Omit<WhyAnswer, 'message' | 'rule'> & { readonly clause: string };

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
  if (attempt === undefined) throw new Error(`job ${job.id} is ${job.situation}, and it has no open attempt`);
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
  /** `worker 3 has not answered for 2m` */
  readonly clause: string;
  readonly isCloud: boolean;
  readonly isLoginMissing: boolean;
  readonly evidence: string;
}

function outageOf({ job, events, now }: WhyRequest): Outage | null {
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
  const subject = isCloud ? 'the cloud' : worker === undefined ? 'a worker' : formatWorker(worker);
  const length = formatDuration(now - since);
  const missing = isLoginMissing ? 'no login' : isCloud ? `no answer about ${name}` : 'no answer';
  return {
    since,
    clause: isLoginMissing
      ? `this machine has had no Google Cloud login for ${length}`
      : `${subject} has not answered for ${length}`,
    isCloud,
    isLoginMissing,
    evidence: `${missing} since ${formatTime(since, now)}${detail === '' ? '' : `: ${detail}`}`,
  };
}

/** While the cloud does not answer, nothing else is certain, so the answer is that the state is unknown. */
function ifCloudReachable(explainKnown: (context: WhyRequest) => WhyAnswer): (context: WhyRequest) => WhyAnswer {
  return (context) => {
    const outage = outageOf(context);
    return outage?.isCloud === true ? whyUnknown(context, outage) : explainKnown(context);
  };
}

function whyUnknown({ job, now }: WhyRequest, { clause, evidence, isLoginMissing }: Outage): WhyAnswer {
  const phase = phaseOf(job);
  const ending = phase === 'recovering' ? lastEnding(job) : null;
  const after = ending === null ? '' : ` (${reasonPhrases[ending.reason]} at ${formatTime(ending.startedAt, now)})`;
  return {
    message: `has an unknown state: ${clause}. Its last known phase is ${phase}${after}`,
    evidence,
    next: isLoginMissing
      ? 'The job continues after you log in.'
      : 'The controller keeps checking without a time limit and changes nothing until then.',
  };
}

// ------------------------------------------------------------------------------------------ waiting

function whyQueued({ job, now, queuePosition }: WhyRequest): WhyAnswer {
  const since = phaseSince(job);
  return {
    message: `is queued: ${formatQueuePosition(job, queuePosition)}`,
    evidence: `waiting since ${formatTime(since, now)} (${formatAge(now - since)})`,
    next: nextForQueue(job, queuePosition),
  };
}

function whyWaitingForSlot(context: WhyRequest): WhyAnswer {
  const { job, queuePosition: position } = context;
  const attempt = currentAttempt(context);
  if (phaseOf(job) !== 'recovering' || position === undefined)
    return hasCapacity(job, attempt) ? whySetup(context) : whyPreviousReleasing(context);
  return whyRecovering(context, {
    clause: `attempt ${attempt.ordinal} waits for a slot: ${formatQueuePosition(job, position)}`,
    next: nextForQueue(job, position),
  });
}

function whyPreviousReleasing(context: WhyRequest): WhyAnswer {
  const { job, now } = context;
  const { requestedAt } = allocationOf(job, currentAttempt(context).allocation);
  const releasing = requestedAt === null ? releasingAllocations(job) : [];
  if (releasing.length === 0) return whyWithoutCapacity(context);
  const step = {
    clause: 'deleting the old TPU',
    evidence: releasing.map((allocation) => formatCloudEvidence(job, allocation, now)).join('; '),
    next: `The controller requests ${formatCapacity(job, lastAllocation(job)?.alternative)} once the old TPU is deleted.`,
  };
  return phaseOf(job) === 'recovering' ? whyRecovering(context, step) : whyInQueue(step);
}

function whyInQueue({ clause, ...step }: Step): WhyAnswer {
  return { message: `is queued: ${clause}`, ...step };
}

function whyWithoutCapacity(context: WhyRequest): WhyAnswer {
  const { job, now } = context;
  const attempt = currentAttempt(context);
  if (hasCapacity(job, attempt)) return whyByRecord(context);
  const allocation = allocationOf(job, attempt.allocation);
  const phase = phaseOf(job);
  if (phase === 'provisioning') return whyProvisioning(job, allocation, now);
  const step = {
    clause: formatCapacityWait(job, attempt, allocation, now),
    evidence: formatCloudEvidence(job, allocation, now),
    ...nextForCapacity(job, attempt, allocation, now),
  };
  return phase === 'recovering' ? whyRecovering(context, step) : whyInQueue(step);
}

function formatQueuePosition(job: Job, position: QueuePosition | undefined): string {
  if (!needsSlot(job)) return 'no controller has checked it yet';
  if (position === undefined) return 'it waits for a slot';
  const { slots, slotsUsed, ahead } = position;
  if (slotsUsed < slots && ahead < slots - slotsUsed) return 'a slot is free, and no controller has checked it yet';
  const others = ahead === 0 ? '' : `, ${pluralize(ahead, 'job')} ahead`;
  return `${slotsUsed} of ${pluralize(slots, 'slot')} on this machine in use${others}`;
}

function nextForQueue(job: Job, position: QueuePosition | undefined): string {
  if (!needsSlot(job) || (position !== undefined && position.slotsUsed < position.slots))
    return 'The controller starts an attempt.';
  return 'An attempt starts when a slot is free. The setting local.slots is the number of slots.';
}

function formatCapacityWait(job: Job, attempt: Attempt, allocation: Allocation, now: Instant): string {
  const error = (allocation.lastError ?? lastRequestFailure(job, attempt))?.error;
  const capacity = formatCapacity(job, allocation.alternative);
  if (error?.kind === 'stockout' || lacksCapacity(allocation, now)) return `no capacity for ${capacity}`;
  if (error !== undefined) return `the request for ${capacity} failed (${formatCloudError(error)})`;
  return `${allocation.requestedAt === null ? 'requesting' : 'waiting for'} ${capacity}`;
}

function nextForCapacity(
  job: Job,
  attempt: Attempt,
  allocation: Allocation,
  now: Instant,
): Pick<WhyAnswer, 'next' | 'nextAt'> {
  const end = capacityWaitEnd(job, attempt);
  const limit =
    end === undefined
      ? ''
      : ` The wait ends ${end > now ? `in ${formatDuration(end - now)}` : 'now'} (job.capacity_wait).`;
  const nextAlternative = alternativeAfterRefusal(job, attempt, allocation, now);
  if (nextAlternative !== undefined) {
    const nextAt = nextAlternative.notBefore > now ? nextAlternative.notBefore : null;
    const capacity = formatCapacity(job, nextAlternative.alternative);
    return { next: `The controller requests ${capacity}.${limit}`, nextAt };
  }
  const retryAt = nextRequestAt(job, now);
  if (retryAt !== null) return { next: `The controller requests it again.${limit}`, nextAt: retryAt };
  const kind = allocation.lastError?.error.kind;
  if (kind !== undefined && isPermanent(kind))
    return { next: 'The attempt ends, because the cloud would refuse the request again.' };
  return { next: `Setup starts once the TPU is ready.${limit}` };
}

/** The alternative that the attempt tries after a refusal that the controller has not acted on yet. */
function alternativeAfterRefusal(job: Job, attempt: Attempt, allocation: Allocation, now: Instant) {
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
  return {
    message: `is provisioning: ${interruption ?? `its ${acceleratorOf(job)} is being created`}`,
    evidence: formatCloudEvidence(job, allocation, now),
    next: interruption === null ? 'Setup starts once the TPU is ready.' : nextForInterruption(job, 'Setup starts'),
  };
}

/** The pause before an attempt with ready capacity. Without capacity, the answer explains the capacity. */
function whyBackoff(context: WhyRequest): WhyAnswer {
  const { job, now } = context;
  const attempt = currentAttempt(context);
  const { ordinal, notBeforeAt } = attempt;
  if (notBeforeAt <= now) return whyByRecord(context);
  if (!hasCapacity(job, attempt)) return whyPreviousReleasing(context);
  const clause = `attempt ${ordinal} starts after a pause`;
  if (phaseOf(job) === 'recovering')
    return whyRecovering(context, { clause, ...nextForStart(context, attempt), nextAt: notBeforeAt });
  const ending = lastEnding(job);
  if (ending === null || outageOf(context) !== null) return whySetup(context);
  return {
    message: `is in setup: ${formatLastEnd(job, ending, now)}. ${capitalize(clause)}`,
    evidence: formatEndCause(job, ending),
    rule: currentRule(context),
    next: `Setup starts again on ${pluralize(lastAllocation(job)?.workers ?? 1, 'worker')}.`,
    nextAt: notBeforeAt,
  };
}

function whySetup(context: WhyRequest): WhyAnswer {
  const { job, now } = context;
  const attempt = currentAttempt(context);
  if (phaseOf(job) === 'recovering')
    return whyRecovering(context, {
      clause: `setting up attempt ${attempt.ordinal}`,
      ...nextForStart(context, attempt),
    });
  const outage = outageOf(context);
  if (outage !== null) return { ...whySilentWorker(job, attempt, outage), message: `is in setup: ${outage.clause}` };
  const next = `The command starts on ${formatAttemptWorkers(job, attempt)} when all steps are done.`;
  const newest = newestFailure(attempt);
  if (newest === undefined) {
    const steps = job.spec.steps.map((step) => step.name).join(', ');
    const workers = pluralize(lastAllocation(job)?.workers ?? 1, 'worker');
    const since = phaseSince(job);
    return {
      message: steps === '' ? 'is in setup: starting its command' : `is in setup on ${workers}: ${steps}`,
      evidence: `ready since ${formatTime(since, now)} (${formatDuration(now - since)})`,
      next,
    };
  }
  const { task, tries, message: detail, lastAt } = newest;
  const happened =
    tries === 0 ? 'was interrupted' : `failed (${tries} of ${pluralize(job.spec.limits.setupTries, 'try', 'tries')})`;
  return {
    message: `is in setup: ${formatTask(task)} ${happened}. Retrying`,
    evidence: `${asClause(detail)}, ${formatAge(now - lastAt)} ago${tries === 0 ? '; this does not count as a try' : ''}`,
    rule: formatRuleFor(job, 'setup_failed'),
    next: withHints(next, [stepLogHint(job, attempt)]),
  };
}

/** A worker is silent before the command starts: the job switches to new ephemeral capacity, else the attempt ends. */
function whySilentWorker(job: Job, attempt: Attempt, { since, evidence }: Outage): Omit<WhyAnswer, 'message'> {
  const isReplaced = isOnHeldCapacity(job, attempt) && allocationOf(job, attempt.allocation).ownership === 'ephemeral';
  const result = isReplaced ? 'The controller requests another TPU' : 'The attempt ends';
  return {
    evidence,
    rule: isReplaced ? null : formatRuleFor(job, 'unreachable'),
    next: `${result} if the worker stays silent while the cloud reports the TPU as ready.`,
    nextAt: since + unreachableGraceOf(job, attempt),
  };
}

function newestFailure(attempt: Attempt | undefined, kind?: TaskFailure['task']['kind']): TaskFailure | undefined {
  const failures = (attempt?.failures ?? []).filter(({ task }) => kind === undefined || task.kind === kind);
  return failures.toSorted((one, other) => other.lastAt - one.lastAt)[0];
}

function formatTask(task: TaskFailure['task']): string {
  const name =
    task.kind === 'step' ? `step ${task.step}` : `${task.kind === 'stop' ? 'stopping' : 'starting'} the command`;
  return `${name} on ${formatWorker(task.worker)}`;
}

function formatAttemptWorkers(job: Job, attempt: Attempt): string {
  const workers = workersOf(job, attempt);
  if (job.spec.capacity.kind === 'local' || workers[0] === 'controller') return 'this machine';
  return workers.length === 0 ? 'its workers' : pluralize(workers.length, 'worker');
}

/** A maintenance interruption ends by itself, and no limit of the job ends it. */
function interruptionOf(job: Job, now: Instant): string | null {
  const since = interruptedSince(job);
  if (since === undefined) return null;
  const detail = lastAllocation(job)?.lastObserved?.detail ?? '';
  return `its ${acceleratorOf(job)} has been interrupted for ${formatDuration(now - since)}${detail === '' ? '' : ` (${detail})`}`;
}

function nextForInterruption(job: Job, step: string): string {
  return withHints(`${step} when the TPU is back (no time limit).`, [
    job.spec.capacity.ownership === 'ephemeral' && `Release it now: jobman cancel ${Number(job.id)}`,
  ]);
}

// ------------------------------------------------------------------------------------------ running

function whyRunning(context: WhyRequest): WhyAnswer {
  const { job, hangEvidence = null, now } = context;
  const attempt = currentAttempt(context);
  const { runningAt } = attempt;
  if (runningAt === null) return whySetup(context);
  const { maxRuntimeMs, failedCallTimeoutMs } = job.spec.limits;
  const nextAt = maxRuntimeMs === null ? null : runningAt + maxRuntimeMs;
  const outage = outageOf(context);
  if (outage !== null)
    return {
      ...whySilentWorker(job, attempt, outage),
      message: `was running when last checked: ${outage.clause}`,
      nextAt: outage.since + job.spec.recovery.unreachableGraceMs,
    };
  const interruption = interruptionOf(job, now);
  if (interruption !== null)
    return {
      message: `was running when last checked: ${interruption}`,
      evidence: formatCloudEvidence(job, allocationOf(job, attempt.allocation), now),
      rule: formatRuleFor(job, 'unreachable'),
      next: nextForInterruption(job, 'The controller checks the command'),
      nextAt,
    };
  if (attempt.exitSeen !== undefined) return whyExitUndecided(job, attempt.exitSeen, now);
  const message = `has been running for ${formatDuration(now - runningAt)} on ${formatAttemptWorkers(job, attempt)}`;
  if (hangEvidence !== null)
    return {
      message: `${message} and may hang: ${hangEvidence.description}`,
      evidence: `its log says "${hangEvidence.line}" and shows no progress since`,
      rule: formatRuleFor(job, 'hung'),
      next: 'The controller ends the program if it prints nothing until then.',
      nextAt: hangEvidence.timeoutAt,
    };
  const hang =
    failedCallTimeoutMs === undefined
      ? ''
      : `, or prints nothing for ${formatDuration(failedCallTimeoutMs)} after a failed call between workers`;
  return {
    message,
    evidence: `attempt ${attempt.ordinal}, stage ${attempt.stage}, running since ${formatTime(runningAt, now)}`,
    rule: formatRuleFor(job, job.spec.capacity.kind === 'tpu' ? 'preempted' : 'command_failed'),
    next:
      maxRuntimeMs === null
        ? `The job runs until its program exits${hang}.`
        : 'The controller ends the program at its time limit (job.max_runtime).',
    nextAt,
  };
}

/** A program was killed where the cloud may preempt: the cloud has half a minute to report the preemption. */
function whyExitUndecided(job: Job, exit: ExitSeen, now: Instant): WhyAnswer {
  const cause = likelyCause({ message: '', ...exit });
  return {
    message: `waits for the cloud: its program has exited on ${formatWorker(exit.worker)}, and the cloud may be preempting the TPU`,
    evidence: `${formatExit(exit)}, ${formatAge(now - exit.at)} ago at ${formatTime(exit.at, now)}${cause === null ? '' : `; ${cause}`}`,
    rule: `${formatRuleFor(job, 'preempted')}; else ${formatRuleFor(job, 'command_failed', exit)}`,
    next: 'The exit counts as a preemption if the cloud reports one within 30s, and as a failure of the program otherwise.',
  };
}

function formatRuleFor(job: Job, reason: RecoverableReason, ending: Omit<Evidence, 'message'> = {}): string {
  if (job.recoveryDisabled === true) return recoveryDisabledText;
  const evidence = { message: '', ...ending };
  const answer = answerFor(job.spec.recovery, reason, evidence);
  const applied = { reason, ...answer, pattern: ending.pattern };
  const attempt = lastAttempt(job);
  if (answer.then === 'fail' || attempt === undefined || reason === 'succeeded')
    return formatRule(job, { ...applied, used: 0, limit: 0 });
  const { used, limit, isRuleLimit } = allowance(job, attempt, reason, evidence);
  return formatRule(job, { ...applied, used: used.length, limit, ...(isRuleLimit && { isRuleLimit: true }) });
}

// ------------------------------------------------------------------------------------------ recovering

/** An attempt has ended or is ending, and the next one does not run yet. */
function whyRecovering(context: WhyRequest, step: Step): WhyAnswer {
  const { job, now } = context;
  const attempt = currentAttempt(context);
  const ending = lastEnding(job);
  if (ending === null) throw new Error(`job ${job.id} is recovering, and none of its attempts has ended`);
  const interruption = attempt.ending === null ? interruptionOf(job, now) : null;
  const { clause, evidence, ...next } =
    interruption === null
      ? step
      : {
          clause: interruption.replace(/^its /u, 'the new '),
          evidence: formatCloudEvidence(job, allocationOf(job, attempt.allocation), now),
          next: nextForInterruption(job, 'Setup starts'),
        };
  const ended = `${formatEndCause(job, ending)}; seen ${formatTime(ending.startedAt, now)}`;
  return {
    message: `is recovering: ${formatLastEnd(job, ending, now)}. ${capitalize(clause)}`,
    evidence: evidence === null || evidence === undefined ? ended : `${ended}; ${evidence}`,
    rule: currentRule(context),
    ...next,
  };
}

function formatLastEnd(job: Job, ending: NonNullable<Attempt['ending']>, now: Instant): string {
  const ago = formatAge(now - ending.startedAt);
  return ending.reason === 'preempted'
    ? `its ${acceleratorOf(job)} was preempted ${ago} ago`
    : `its last attempt ended ${ago} ago (${formatEndReason(ending)})`;
}

function nextForStart(context: WhyRequest, attempt: Attempt): Pick<Step, 'next' | 'evidence'> {
  return {
    next: `The command starts on ${formatAttemptWorkers(context.job, attempt)}.`,
    evidence: outageOf(context)?.evidence ?? null,
  };
}

function formatEndCause(job: Job, ending: NonNullable<Attempt['ending']>): string {
  const cause = ending.reason === 'command_failed' ? likelyCause(ending.evidence) : null;
  return `${formatEnding(job, ending)}${cause === null ? '' : `; ${cause}`}`;
}

const recoveryDisabledText = 'none: recovery is off for this job';

/** The rule that continues the job after its newest end. */
function currentRule({ job, events }: WhyRequest): string | null {
  const attempt = openAttempt(job);
  const ending = attempt?.ending ?? null;
  if (attempt !== undefined && ending !== null) {
    // The newest `rule_applied` event is about the attempt before.
    const continuation = continuationOf(job, attempt, ending.startedAt);
    return continuation.next === 'attempt' ? formatRule(job, { reason: ending.reason, ...continuation.applied }) : null;
  }
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

function whyEndingBeforeNext(context: WhyRequest): WhyAnswer {
  const { job, now } = context;
  const attempt = currentAttempt(context);
  const allocation = allocationOf(job, attempt.allocation);
  const isReplaced =
    job.spec.capacity.kind === 'tpu' && (attempt.ending?.reason === 'preempted' || allocation.releasedAt !== null);
  const [clause, condition] = isReplaced
    ? ['deleting the old TPU', 'the old TPU is deleted']
    : ['stopping the old attempt', 'the old attempt has stopped'];
  const obstacle = endingObstacleOf(context);
  return whyRecovering(context, {
    evidence: formatCloudEvidence(job, allocation, now),
    next: `A new attempt starts once ${condition}.`,
    ...obstacle,
    clause: withObstacle(clause, obstacle),
  });
}

function whyStopping(context: WhyRequest): WhyAnswer {
  const { job, now } = context;
  const ending = openAttempt(job)?.ending ?? null;
  const { signal, graceMs } = job.spec.stop;
  const requestedAt = ending?.stopRequestedAt ?? null;
  const isInGrace = requestedAt !== null && now < requestedAt + graceMs;
  const obstacle = endingObstacleOf(context);
  if (obstacle === null && job.desired !== 'running' && lostItsTpu(job, ending)) {
    return {
      message: `is stopping: ${formatEndOrigin(context)}`,
      evidence: `its ${acceleratorOf(job)} was preempted; deleting the old TPU`,
      next: `${capitalize(job.desired)} once the TPU is deleted.`,
    };
  }
  const evidence = [
    obstacle?.evidence,
    requestedAt === null
      ? undefined
      : `SIG${signal} sent ${formatAge(now - requestedAt)} ago at ${formatTime(requestedAt, now)}`,
    requestedAt === null && ending !== null && ending.reason !== 'stopped' ? formatEndCause(job, ending) : undefined,
    obstacle === null ? formatStopFailure(job, now) : undefined,
  ].filter((part) => part !== undefined);
  const next = isInGrace
    ? { next: 'The controller kills the remaining processes.', nextAt: requestedAt + graceMs }
    : { next: 'The controller checks that no process is left.' };
  return {
    ...next,
    ...obstacle,
    message: `is stopping: ${withObstacle(formatEndOrigin(context), obstacle)}`,
    evidence: evidence.length === 0 ? null : evidence.join('; '),
    rule: `SIG${signal}, then SIGKILL after ${formatDuration(graceMs)}`,
  };
}

/** True if a preemption ended the attempt, so that no worker gets a signal. */
function lostItsTpu(job: Job, ending: Attempt['ending']): boolean {
  return job.spec.capacity.kind === 'tpu' && ending?.reason === 'preempted';
}

function withObstacle(clause: string, obstacle: Step | null): string {
  return obstacle === null ? clause : `${clause}. ${capitalize(obstacle.clause)}`;
}

/** Without an answer or during maintenance, the end of the program cannot be observed. */
function endingObstacleOf(context: WhyRequest): Step | null {
  const { job, now } = context;
  const attempt = openAttempt(job);
  if (attempt === undefined || attempt.ending === null) return null;
  const isPersistent = allocationOf(job, attempt.allocation).ownership === 'persistent';
  const number = Number(job.id);
  const interruption = interruptionOf(job, now);
  if (interruption !== null) return { clause: interruption, next: nextForInterruption(job, 'The attempt ends') };
  const outage = outageOf(context);
  if (outage === null) return null;
  const { clause, evidence, isCloud } = outage;
  const forceHint = `Skip the wait: jobman delete ${number} --force`;
  if (isCloud) {
    const hint = isPersistent ? forceHint : `Release the TPU once the cloud answers: jobman cancel ${number}`;
    return { clause, evidence, next: `The controller keeps checking without a time limit. ${hint}` };
  }
  const nextAt = giveUpAt(job, attempt, now) ?? null;
  if (!isPersistent) {
    const next = `The controller releases the TPU if the worker stays silent. Release it now: jobman cancel ${number}`;
    return { clause, evidence, next, nextAt };
  }
  const continues = continuationOf(job, attempt, attempt.ending.startedAt).next === 'attempt';
  const result = continues ? 'The job fails' : 'The job ends';
  const next = `${result} if the worker stays silent. The TPU stays unchanged. ${forceHint}`;
  return { clause, evidence, next, nextAt };
}

function formatStopFailure(job: Job, now: Instant): string | undefined {
  const newest = newestFailure(openAttempt(job), 'stop');
  if (newest === undefined) return undefined;
  const { task, lastAt, message: detail } = newest;
  return `${formatTask(task)} failed ${formatAge(now - lastAt)} ago: ${asClause(detail)}`;
}

function formatEndOrigin({ job, events, now }: WhyRequest): string {
  if (job.desired !== 'running') {
    const command = events.findLast((event) => event.kind === 'command_received');
    const request = command === undefined ? requestedCommand(job) : `${command.by} requested ${command.verb}`;
    return `${request} ${formatAge(now - job.desiredAt)} ago`;
  }
  const ending = openAttempt(job)?.ending ?? null;
  const reason = ending === null ? 'its attempt ended' : reasonPhrases[ending.reason];
  return `${reason} ${formatAge(now - phaseSince(job))} ago. Ending its processes`;
}

// ------------------------------------------------------------------------------------------ finished

function whyFinished(context: WhyRequest): WhyAnswer {
  const { job, events, now } = context;
  const at = phaseSince(job);
  const ending = lastAttempt(job)?.ending ?? null;
  const phase = phaseOf(job);
  const isRequested = (phase === 'stopped' || phase === 'cancelled') && importedPhrase(job) === undefined;
  const by = job.endedBy ?? 'the owner';
  const ended =
    ending === null
      ? `ended at ${formatTime(at, now)}`
      : isRequested && lostItsTpu(job, ending)
        ? `requested by ${by}; its TPU had been preempted at ${formatTime(ending.startedAt, now)}`
        : `${formatEndCause(job, ending)}; at ${formatTime(ending.startedAt, now)}`;
  return {
    message: `${formatFinish(job, `${formatAge(now - at)} ago`)}${formatHeldCapacity(job)}`,
    evidence: [
      ended,
      ...formatLaterLoss(job, at, events, now),
      ...releasingAllocations(job).map((allocation) => formatCloudEvidence(job, allocation, now)),
    ].join('; '),
    rule: phase === 'failed' ? currentRule(context) : null,
    ...nextForFinished(job),
  };
}

/** The loss of capacity that the job kept after its end. The job's end does not explain it. */
function formatLaterLoss(job: Job, end: Instant, events: readonly Event[], now: Instant): readonly string[] {
  const event = events.find((event) => event.kind === 'allocation_seen' && event.state === 'lost' && event.at > end);
  if (event?.kind !== 'allocation_seen') return [];
  const { allocation, at, message: detail } = event;
  if ((job.allocations[allocation - 1]?.releasedAt ?? at) < at) return [];
  const detailText = detail === '' ? '' : ` (${detail})`;
  return [`the ${acceleratorOf(job)} that it kept was lost${detailText} at ${formatTime(at, now)}`];
}

function formatFinish(job: Job, ago: string): string {
  const phase = phaseOf(job);
  if (phase === 'failed') {
    const ending = lastEnding(job);
    const { reason } = job.finish ?? {};
    const text =
      ending !== null && ending.reason === reason ? formatEndReason(ending) : reasonPhrases[reason ?? 'stopped'];
    return `failed ${ago} (${text})`;
  }
  if (phase !== 'stopped' && phase !== 'cancelled') return `${phase} ${ago}`;
  const imported = importedPhrase(job);
  return imported === undefined
    ? `was ${phase} by ${job.endedBy ?? 'its owner'} ${ago}`
    : `counts as ${phase} (${imported})`;
}

function nextForFinished(job: Job): Pick<WhyAnswer, 'next' | 'nextAt'> {
  const kept = keptAllocations(job);
  // Only a forced delete leaves capacity, and the job does not know its later state.
  if (job.removed)
    return { next: withHints('Nothing: the job has left the list.', [kept.length > 0 && 'Find its TPU: jobman gc']) };
  const accelerator = acceleratorOf(job);
  if (releasingAllocations(job).length > 0) {
    const then = job.desired === 'deleted' ? ' The job then leaves the list.' : '';
    return { next: `The controller waits until its ${accelerator} is deleted.${then}` };
  }
  const number = Number(job.id);
  const release = `jobman stop ${number} --release`;
  const until = keptUntil(job);
  if (until !== undefined && kept.length > 0)
    return { next: `The controller releases its ${accelerator}. Release it now: ${release}`, nextAt: until };
  const phase = phaseOf(job);
  const hasCommand = job.spec.command.isSetupOnly !== true;
  const releaseHint =
    kept.length > 0 && (phase !== 'succeeded' || job.spec.capacity.ownership === 'ephemeral') && `Release: ${release}`;
  if (phase === 'succeeded' && !hasCommand && kept.length > 0)
    return { next: withHints(`Nothing: the job runs no command and keeps its ${accelerator}.`, [releaseHint]) };
  const startOver = `Start over: jobman rerun ${number}`;
  if (phase === 'succeeded') return { next: withHints('Nothing.', [startOver]) };
  const attempt = lastAttempt(job);
  const log = attempt?.ending?.reason === 'setup_failed' ? stepLogHint(job, attempt) : logHint(job, attempt);
  return { next: withHints('Nothing.', [log, `Resume: jobman resume ${number}`, startOver, releaseHint]) };
}

function withHints(text: string, hints: readonly (string | false | undefined)[]): string {
  const shown = hints.filter((hint) => hint !== undefined && hint !== false);
  return shown.length === 0 ? text : `${text} ${shown.join(' · ')}`;
}

function stepLogHint(job: Job, attempt: Attempt | undefined): string | undefined {
  const task = newestFailure(attempt, 'step')?.task;
  return task?.kind === 'step' ? `Log: jobman logs ${Number(job.id)} --step ${task.step}` : undefined;
}

function logHint(job: Job, attempt: Attempt | undefined): string | undefined {
  return attempt !== undefined && failedAttempt(job) === attempt ? `Log: jobman logs ${Number(job.id)}` : undefined;
}

function formatHeldCapacity(job: Job): string {
  if (job.removed || keptAllocations(job).length === 0) return '';
  const price = pricePerHour(job);
  return `. It keeps its ${acceleratorOf(job)}${price === null ? '' : `, which costs ${formatCapacityCost(job.spec.capacity, price)}`}`;
}
