// Why: one answer for each row of the situation table. A sentence, its evidence with the time, the rule in force, what comes
// next and when. The row is the stored one: everything is from our own record, and nothing outside is asked.

import { takesTurns, type Turn } from '../core/admit.ts';
import { capacityWaitEnd, isPermanent } from '../core/allocate.ts';
import type { Event } from '../core/decision.ts';
import { keptUntil, givenUpAt } from '../core/attempts.ts';
import { workerName } from '../core/evidence.ts';
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
  type StepFailure,
} from '../core/job.ts';
import { hasPlaces, sendsElsewhere, turnAfter, type Turn as PlaceTurn } from '../core/alternatives.ts';
import { phaseOf, phaseSince, type Phase } from '../core/phase.ts';
import { allowance, answerFor, isOnHeld, silencePatience, whatFollows } from '../core/recover.ts';
import { situations, type SituationName } from '../core/situation.ts';
import type { RuledReason } from '../core/spec.ts';
import type { Instant } from '../core/time.ts';
import {
  exitText,
  mostlyMeans,
  costOf,
  capacityText,
  endText,
  endWords,
  refusalWord,
  ruleText,
  withoutWho,
} from './phrases.ts';
import type { Why } from './client.ts';
import { ageText, countText, lengthText, momentText, workerText, reasonWords, sentencePart } from './figures.ts';
import type { Hang } from './logs.ts';
import { evidenceOf, lastInVain } from './outside.ts';
import { awaitsCapacity, usualText, waitedFor, type UsualWait } from './usual.ts';
import {
  acceleratorOf,
  asksAgainAt,
  importedPhrase,
  interruptedSince,
  keptAllocations,
  lastEnding,
  lacksCapacity,
  leavingAllocations,
  pricePerHour,
  workersOf,
} from './views.ts';

/** Known besides the record of the job itself. */
export interface Around {
  /** Its whole history; the rules that answered are told there, and what a look said that failed. */
  readonly events: readonly Event[];
  /** Where it stands among those that wait for a place of this machine, if it does. */
  readonly turn?: Turn | undefined;
  /** When the controller looks at it again, at the latest. */
  readonly nextLook?: Instant | null;
  /** How long such capacity is usually waited for. */
  readonly usual?: UsualWait | null;
  /** The last lines of the log of the attempt that failed last, where it did. */
  readonly log?: readonly string[];
  /** The failed call in the log of a running program, after which it may hang. */
  readonly hang?: Hang | null;
}

/** Why that job is in its phase at that moment. */
export function whyOf(job: Job, now: Instant, around: Around): Why {
  const told = answer({ job, now, ...around });
  const { usual = null, nextLook = null, log = [] } = around;
  // If the next step has its own time, an earlier look is not worth mentioning. A time in the past says nothing: the
  // controller records its next look only when something changes.
  const isAhead = nextLook !== null && nextLook > now && (told.nextAt === null || nextLook < told.nextAt);
  const isLookAwaited = isAhead && awaitsLook(job);
  return {
    id: job.id,
    ...told,
    log: isAboutFailure(job) ? withoutEvidence(job, log) : [],
    usually: usual !== null && awaitsCapacity(job) ? usualText(usual, waitedFor(job, now)) : null,
    lookAt: isLookAwaited ? nextLook : null,
    situation: situationOf(job),
  };
}

function situationOf({ situation: name }: Job): Why['situation'] {
  if (name === undefined) return null;
  return { name, means: situations.find((one) => one.name === name)?.means ?? null };
}

type Answer = Pick<Why, 'sentence' | 'because' | 'rule' | 'next' | 'nextAt'>;

/** The ending whose log tells something, if that is what the job is about now: its program or its setup failed, and nothing else runs. */
export function failureOf(job: Job): Attempt | undefined {
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

function isAboutFailure(job: Job): boolean {
  const phase = phaseOf(job);
  return (phase === 'failed' || phase === 'recovering' || phase === 'stopping') && failureOf(job) !== undefined;
}

function withoutEvidence(job: Job, log: readonly string[]): readonly string[] {
  const line = failureOf(job)?.ending?.evidence.line?.trim();
  return log.length === 1 && log[0]?.trim() === line ? [] : log;
}

/** Only a look can bring news. What runs well calls for itself, and an attempt that winds down is looked at every few seconds. */
function awaitsLook(job: Job): boolean {
  if ((lastAllocation(job)?.silentSince ?? null) !== null || awaitsCapacity(job)) return true;
  return openAttempt(job) === undefined && leavingAllocations(job).length > 0;
}

/** A job, what is known besides its record, and the time of the question. */
interface About extends Around {
  readonly job: Job;
  readonly now: Instant;
}

/** The answer for each row. The row tells which it is; the record gives its times, names and how far its action has come. */
const answers: Readonly<Record<SituationName, (about: About) => Answer>> = {
  removed: whySettled,
  finished: whySettled,
  'ended-by-owner': whyAhead,
  'waiting-for-slot': whyNotBegun,
  'start-requested': whyAhead,

  // The end of an attempt: its pass may also have seen it end, and begun the next one.
  'attempt-over': whyEnded,
  'attempt-ending': whyEnded,
  'command-succeeded': whyEnded,
  'stop-requested': whyEnded,
  'recovery-disabled': whyEnded,
  'max-runtime-reached': whyEnded,
  'capacity-wait-reached': whyEnded,
  'request-refused': whyEnded,
  preempted: whyEnded,
  'allocation-failed-for-good': whyEnded,
  'program-vanished': whyEnded,
  'command-failed': whyEnded,
  'hung-after-failed-call': whyEnded,
  hung: whyEnded,
  'worker-unreachable': whyEnded,
  'setup-failed': whyEnded,
  'no-worker-for-command': whyEnded,
  'worker-does-not-exist': whyEnded,
  'setup-done': whyEnded,

  // An attempt under way.
  running: whileAnswered(whyRunning),
  'setup-lost': whileAnswered(whySetup),
  'partly-started': whileAnswered(whySetup),
  'start-due': whileAnswered(whySetup),
  'workers-in-setup': whileAnswered(whySetup),
  'other-attempt-alive': whyAhead,
  'attempt-waiting-for-slot': whileAnswered(whyWaitingForSlot),
  backoff: whileAnswered(whyPaused),
  'allocation-failed': whileAnswered(whyLeaving),
  'kept-capacity-unreachable': whileAnswered(whyLeaving),
  'previous-allocation-releasing': whileAnswered(whyLeaving),
  'alternative-exhausted': whileAnswered(whyLeaving),
  'allocation-unknown': whileAnswered(whyWithoutCapacity),
  'better-alternative': whileAnswered(whyWithoutCapacity),
  'refused-and-unconfirmed': whileAnswered(whyWithoutCapacity),
  'request-due': whileAnswered(whyWithoutCapacity),
  'request-accepted': whileAnswered(whyWithoutCapacity),
  'allocation-pending': whileAnswered(whyWithoutCapacity),
};

function answer(about: About): Answer {
  const { job } = about;
  // A forced delete leaves programs to be ended; for people the job is gone all the same.
  if (job.removed) return whySettled(about);
  const name = job.situation;
  return name !== undefined && Object.hasOwn(answers, name) ? answers[name as SituationName](about) : whyAhead(about);
}

function attemptOf({ job }: About): Attempt {
  const attempt = openAttempt(job);
  if (attempt === undefined) throw new Error(`job ${job.id} is ${job.situation}, and no attempt of it is under way`);
  return attempt;
}

/** The answer for the row that the next pass will find, judged by the record alone. */
function whyAhead(about: About): Answer {
  return answers[rowAhead(about)](about);
}

/**
 * Used if no row is stored (a new job, a record of another version), or if the stored row no longer holds because its pass
 * made the next attempt or ended another attempt's programs.
 */
function rowAhead({ job, now, turn }: About): SituationName {
  const attempt = openAttempt(job);
  if (job.settled !== null) return 'finished';
  if (job.desired !== 'run' || (attempt !== undefined && attempt.ending !== null)) return 'attempt-ending';
  if (attempt === undefined) return 'waiting-for-slot';
  if (attempt.runningAt !== null) return 'running';
  if (attempt.notBefore > now) return 'backoff';
  if (turn !== undefined) return 'attempt-waiting-for-slot';
  return hasCapacity(job, attempt) ? 'workers-in-setup' : 'previous-allocation-releasing';
}

/** True once the capacity of an attempt has been there: its setup is what is left, whatever else is still to happen. */
function hasCapacity(job: Job, attempt: Attempt): boolean {
  const phase = phaseOf(job);
  return phase === 'setup' || (phase === 'recovering' && allocationOf(job, attempt.allocation).readyAt !== null);
}

// ------------------------------------------------------------------------------------------ not knowing

interface Silence {
  readonly since: Instant;
  /** `the cloud`, `worker 3`. */
  readonly who: string;
  readonly isCloud: boolean;
  /** The cloud cannot be asked for lack of a login. */
  readonly isLogin: boolean;
  /** `no answer since 20 Nov 12:50:00 UTC: PERMISSION_DENIED: …`. */
  readonly because: string;
}

function silenceOf(job: Job, events: readonly Event[], now: Instant): Silence | null {
  const allocation = lastAllocation(job);
  if (allocation === undefined || allocation.silentSince === null) return null;
  const { silentSince: since, silentWho, name } = allocation;
  const isLogin = silentWho === 'login';
  const isCloud = silentWho !== 'worker';
  const told = events.findLast((event) => event.kind === 'silent' && event.allocation === allocation.ordinal);
  // Both may be silent one after the other; the words of the one are not those of the other.
  const isOfSame = told?.kind === 'silent' && (told.worker === undefined) === isCloud;
  const worker = isOfSame ? told.worker : undefined;
  const words = isOfSame ? sentencePart(withoutWho(told.detail, worker === undefined ? '' : workerText(worker))) : '';
  return {
    since,
    who: isCloud ? 'the cloud' : worker === undefined ? 'a worker' : workerText(worker),
    isCloud,
    isLogin,
    because: `no ${isLogin ? 'login' : 'answer'}${isCloud && !isLogin ? ` about ${name}` : ''} since ${momentText(since, now)}${words === '' ? '' : `: ${words}`}`,
  };
}

/** While the cloud does not answer, no other sentence would be sure: the answer is that nothing is known. */
function whileAnswered(tell: (about: About) => Answer): (about: About) => Answer {
  return (about) => {
    const silence = silenceOf(about.job, about.events, about.now);
    return silence?.isCloud === true ? whyUnknown(about, silence) : tell(about);
  };
}

function whyUnknown({ job, now }: About, silence: Silence): Answer {
  const { since, isLogin } = silence;
  const phase = phaseOf(job);
  const word = phase === 'setup' ? 'in setup' : phase;
  const ending = phase === 'recovering' ? lastEnding(job) : null;
  const after = ending === null ? '' : ` (${reasonWords[ending.reason]} at ${momentText(ending.since, now)})`;
  return {
    sentence: `${job.id}: not known since ${momentText(since, now)} (${lengthText(now - since)})${isLogin ? ', for lack of a login' : ''}. It was ${word}${after} then; nothing is changed.`,
    because: silence.because,
    rule: null,
    next: isLogin
      ? 'the job goes on by itself after you have logged in'
      : 'the controller keeps looking, without limit, and goes on from what it sees',
    nextAt: null,
  };
}

// ------------------------------------------------------------------------------------------ waiting

function whyNotBegun({ job, now, turn }: About): Answer {
  return {
    sentence: `${job.id} is queued: ${turnText(job, turn)}.`,
    because: `no attempt has begun since ${momentText(phaseSince(job), now)}, ${ageText(now - phaseSince(job))} ago`,
    rule: null,
    next: nextForTurn(job, turn),
    nextAt: null,
  };
}

function whyWaitingForSlot(about: About): Answer {
  const { job, turn } = about;
  const attempt = attemptOf(about);
  if (phaseOf(job) !== 'recovering' || turn === undefined)
    return hasCapacity(job, attempt) ? whySetup(about) : whyLeaving(about);
  return whyRecovering(about, {
    clause: `${stageText(attempt)} waits for a place: ${turnText(job, turn)}`,
    next: nextForTurn(job, turn),
    nextAt: null,
  });
}

function whyLeaving(about: About): Answer {
  const { job, now } = about;
  const { requestedAt } = allocationOf(job, attemptOf(about).allocation);
  const before = requestedAt === null ? leavingAllocations(job) : [];
  if (before.length === 0 || phaseOf(job) === 'recovering') return whyWithoutCapacity(about);
  return {
    sentence: `${job.id} is queued: what it held before is to be seen gone first.`,
    because: before.map((leaving) => evidenceOf(job, leaving, now)).join('; '),
    rule: null,
    next: `${capacityText(job, lastAllocation(job)?.place)} is asked for then`,
    nextAt: null,
  };
}

function whyWithoutCapacity(about: About): Answer {
  const { job, now } = about;
  const attempt = attemptOf(about);
  if (hasCapacity(job, attempt)) return whyAhead(about);
  const allocation = allocationOf(job, attempt.allocation);
  const phase = phaseOf(job);
  if (phase === 'provisioning') return whyProvisioning(job, allocation, now);
  const clause = queuedFor(job, attempt, allocation, now);
  const because = evidenceOf(job, allocation, now);
  const next = nextForCapacity(job, attempt, allocation, now);
  if (phase === 'recovering') return whyRecovering(about, { clause, because, ...next });
  return { sentence: `${job.id} is queued: ${clause}.`, because, rule: null, ...next };
}

function turnText(job: Job, turn: Turn | undefined): string {
  if (!takesTurns(job)) return 'no controller has looked at it yet';
  if (turn === undefined) return 'it waits for its turn';
  const { slots, taken, ahead } = turn;
  if (taken < slots && ahead < slots - taken) return 'it is its turn, and no controller has looked at it yet';
  const jobs = `${countText(ahead, 'job')} ${ahead === 1 ? 'is' : 'are'} ahead`;
  return `${taken} of ${countText(slots, 'place')} of this machine are taken${ahead === 0 ? '' : `, and ${jobs}`}`;
}

function nextForTurn(job: Job, turn: Turn | undefined): string {
  if (!takesTurns(job) || (turn !== undefined && turn.taken < turn.slots)) return 'the controller begins an attempt';
  const which =
    turn?.ahead === 0 ? 'it is the next to begin, as soon as a place is free' : 'it begins when its turn has come';
  return `${which} (local.slots says how many there are)`;
}

function queuedFor(job: Job, attempt: Attempt, allocation: Allocation, now: Instant): string {
  const error = (allocation.lastFailure ?? lastInVain(job, attempt))?.error;
  const kind = error?.kind;
  if (kind === 'stockout' || lacksCapacity(allocation, now))
    return `no capacity for ${capacityText(job, allocation.place)} so far`;
  if (kind === undefined && allocation.seen?.state === 'waiting')
    return `it waits for ${capacityText(job, allocation.place)}`;
  if (error !== undefined) return `${capacityText(job, allocation.place)} was not given (${refusalWord(error)})`;
  if (allocation.requestedAt !== null) return `${capacityText(job, allocation.place)} is asked for`;
  return `${capacityText(job, allocation.place)} is about to be asked for`;
}

function nextForCapacity(
  job: Job,
  attempt: Attempt,
  allocation: Allocation,
  now: Instant,
): Pick<Answer, 'next' | 'nextAt'> {
  const elsewhere = placeAfter(job, attempt, allocation, now);
  const again = elsewhere === undefined ? asksAgainAt(job, now) : null;
  const end = capacityWaitEnd(job, attempt);
  const limit =
    end === undefined
      ? ''
      : `; it gives up ${end > now ? `in ${lengthText(end - now)}` : 'now'}, by its limit on waiting`;
  if (elsewhere !== undefined) {
    const nextAt = elsewhere.notBefore > now ? elsewhere.notBefore : null;
    return { next: `${capacityText(job, elsewhere.place)} is asked for${limit}`, nextAt };
  }
  if (again !== null) return { next: `it is asked for again${limit}`, nextAt: again };
  const kind = allocation.lastFailure?.error.kind;
  if (kind !== undefined && isPermanent(kind)) return { next: 'nothing more is asked: the job ends', nextAt: null };
  return { next: `it is set up as soon as it is there${limit}`, nextAt: null };
}

/** The place that a just refused attempt tries next, while the record does not yet say that it has left this one. */
function placeAfter(job: Job, attempt: Attempt, allocation: Allocation, now: Instant): PlaceTurn | undefined {
  const kind = allocation.lastFailure?.error.kind;
  const isLeft = kind !== undefined && allocation.acceptedAt === null && sendsElsewhere(kind) && hasPlaces(job);
  if (!isLeft || attempt.notBefore > now) return undefined;
  const next = turnAfter(job, attempt, kind, undefined, now);
  return next?.place === (allocation.place ?? 0) ? undefined : next;
}

// ------------------------------------------------------------------------------------------ coming up

function whyProvisioning(job: Job, allocation: Allocation, now: Instant): Answer {
  const interruption = interruptionOf(job, now);
  const it = `its ${acceleratorOf(job)}`;
  return {
    sentence: `${job.id} is provisioning: ${it} ${interruption === null ? 'is being made' : interruption.text}.`,
    because: evidenceOf(job, allocation, now),
    rule: null,
    next: interruption === null ? 'it is set up when it is ready' : `it is set up ${interruption.wait}`,
    nextAt: null,
  };
}

/** The result of a worker that stays silent before the command: held capacity is exchanged, anything else is a lost try. */
function nextForSilence(job: Job, attempt: Attempt, since: Instant): Pick<Answer, 'rule' | 'next' | 'nextAt'> {
  const isExchanged = isOnHeld(job, attempt) && allocationOf(job, attempt.allocation).ownership === 'owned';
  return {
    rule: isExchanged ? null : wouldFollow(job, 'unreachable'),
    next: isExchanged
      ? 'another TPU takes its place if the worker stays silent while the cloud says that it is ready'
      : 'its worker is given up if it stays silent while the cloud says that it is ready',
    nextAt: since + silencePatience(job, attempt),
  };
}

/** The pause before an attempt whose capacity is there; without capacity the answer is about that. */
function whyPaused(about: About): Answer {
  const { job, events, now } = about;
  const attempt = attemptOf(about);
  const { ordinal, notBefore } = attempt;
  if (notBefore <= now) return whyAhead(about);
  if (!hasCapacity(job, attempt)) return whyLeaving(about);
  if (phaseOf(job) === 'recovering') {
    const clause = `${stageText(attempt)} follows after a pause`;
    const silence = silenceOf(job, events, now);
    return whyRecovering(about, { clause, ...nextForStart(job, attempt, silence), nextAt: notBefore });
  }
  const before = lastEnding(job);
  if (before === null || silenceOf(job, events, now) !== null) return whySetup(about);
  return {
    sentence: `${job.id} is in setup: its attempt ended ${ageText(now - before.since)} ago (${endWords(before)}); attempt ${ordinal} follows after a pause.`,
    because: endedOf(job, before),
    rule: lastRule(job, events),
    next: `its setup begins again on ${countText(lastAllocation(job)?.workers ?? 1, 'worker')}`,
    nextAt: notBefore,
  };
}

function whySetup(about: About): Answer {
  const { job, events, now } = about;
  const attempt = attemptOf(about);
  const silence = silenceOf(job, events, now);
  if (phaseOf(job) === 'recovering') {
    const clause = `${stageText(attempt)} is being set up`;
    return whyRecovering(about, { clause, ...nextForStart(job, attempt, silence), nextAt: null });
  }
  if (silence !== null) {
    return {
      sentence: `${job.id} is in setup: ${silence.who} has not answered for ${lengthText(now - silence.since)}. Nothing is changed.`,
      because: silence.because,
      ...nextForSilence(job, attempt, silence.since),
    };
  }
  const next = {
    next: `the command starts on ${placesText(job, attempt)} when all steps hold${stepLog(job, attempt)}`,
    nextAt: null,
  };
  const newest = newestFailure(attempt);
  if (newest === undefined) {
    const steps = job.spec.steps.map((step) => step.name).join(', ');
    const workers = countText(lastAllocation(job)?.workers ?? 1, 'worker');
    return {
      sentence: `${job.id} is in setup: ${steps === '' ? 'its command is being started' : `${steps} on ${workers}`}.`,
      because: `ready since ${momentText(phaseSince(job), now)}, ${lengthText(now - phaseSince(job))} ago`,
      rule: null,
      ...next,
    };
  }
  const { task, tries, detail, lastAt } = newest;
  const count =
    tries === 0 ? 'it does not count as a try' : `${tries} of ${countText(job.spec.limits.setupTries, 'try', 'tries')}`;
  return {
    sentence: `${job.id} is in setup: ${taskText(task)} ${tries === 0 ? 'was broken off' : 'failed'} and is tried again.`,
    because: `${sentencePart(detail)}, ${ageText(now - lastAt)} ago; ${count}`,
    rule: wouldFollow(job, 'setup_failed'),
    ...next,
  };
}

function stepLog(job: Job, attempt: Attempt | undefined): string {
  const task = newestFailure(attempt, 'step')?.task;
  return task?.kind !== 'step' ? '' : `; what the step printed: jobman logs ${Number(job.id)} --step ${task.step}`;
}

function newestFailure(attempt: Attempt | undefined, kind?: StepFailure['task']['kind']): StepFailure | undefined {
  const failures = (attempt?.failures ?? []).filter(({ task }) => kind === undefined || task.kind === kind);
  return failures.toSorted((one, other) => other.lastAt - one.lastAt)[0];
}

/** `step docker on worker 3`, `the start of the command on worker 3`. */
function taskText(task: StepFailure['task']): string {
  const place = workerName(task.worker);
  return task.kind === 'step' ? `step ${task.step} on ${place}` : `the ${task.kind} of the command on ${place}`;
}

function placesText(job: Job, attempt: Attempt): string {
  const places = workersOf(job, attempt);
  if (job.spec.capacity.kind === 'local' || places[0] === 'here') return 'this machine';
  return places.length === 0 ? 'its workers' : countText(places.length, 'worker');
}

/** Maintenance ends by itself, and no limit of the job's is about it: what is said of it, and how long that is waited for. */
function interruptionOf(job: Job, now: Instant): { readonly text: string; readonly wait: string } | null {
  const since = interruptedSince(job);
  if (since === undefined) return null;
  const detail = lastAllocation(job)?.seen?.detail ?? '';
  const word = detail === '' ? '' : ` (${detail})`;
  const letGo = job.spec.capacity.ownership === 'owned' ? `; to let it go: jobman cancel ${Number(job.id)}` : '';
  return {
    text: `has been interrupted for ${lengthText(now - since)}${word} and comes back by itself`,
    wait: `when it is back, which is waited for without limit${letGo}`,
  };
}

// ------------------------------------------------------------------------------------------ running

function whyRunning(about: About): Answer {
  const { job, events, hang = null, now } = about;
  const attempt = attemptOf(about);
  const { runningAt } = attempt;
  // The command was started, and was not seen running yet on every worker.
  if (runningAt === null) return whySetup(about);
  const allocation = allocationOf(job, attempt.allocation);
  const { maxRuntime } = job.spec.limits;
  const end =
    maxRuntime === null
      ? { next: `it ends when its program does${hangText(job)}`, nextAt: null }
      : { next: 'its program is ended when its time is over', nextAt: runningAt + maxRuntime };
  const silence = silenceOf(job, events, now);
  if (silence !== null) {
    return {
      sentence: `${job.id} ran when it was last seen; ${silence.who} has not answered for ${lengthText(now - silence.since)}. Nothing is changed.`,
      because: silence.because,
      rule: wouldFollow(job, 'unreachable'),
      next: 'its worker is given up if it stays silent while the cloud says that it is ready',
      nextAt: silence.since + job.spec.recovery.unreachableGrace,
    };
  }
  const interruption = interruptionOf(job, now);
  if (interruption !== null) {
    return {
      sentence: `${job.id} ran when it was last seen; its ${acceleratorOf(job)} ${interruption.text}.`,
      because: evidenceOf(job, allocation, now),
      rule: wouldFollow(job, 'unreachable'),
      next: `the command goes on, or is judged, ${interruption.wait}`,
      nextAt: end.nextAt,
    };
  }
  if (attempt.exitSeen !== undefined) return whyNotJudged(job, attempt.exitSeen, now);
  if (hang !== null)
    return {
      sentence: `${job.id} has been running for ${lengthText(now - runningAt)} on ${placesText(job, attempt)}, and may hang: ${hang.means}.`,
      because: `its log says "${hang.line}", and nothing of progress after that`,
      rule: wouldFollow(job, 'hung'),
      next: 'its program is ended if it prints nothing until then',
      nextAt: hang.endsAt,
    };
  return {
    sentence: `${job.id} has been running for ${lengthText(now - runningAt)} on ${placesText(job, attempt)}.`,
    because: `attempt ${attempt.ordinal}, stage ${attempt.stage}, seen running since ${momentText(runningAt, now)}`,
    rule: job.spec.capacity.kind === 'tpu' ? wouldFollow(job, 'preempted') : wouldFollow(job, 'command_failed'),
    ...end,
  };
}

function hangText({ spec: { limits } }: Job): string {
  const { troubleTimeout } = limits;
  if (troubleTimeout === undefined) return '';
  return `, or once it prints nothing for ${lengthText(troubleTimeout)} after a failed call between workers`;
}

/** A program that was killed where the cloud may take the machine: half a minute is given to the cloud to say so. */
function whyNotJudged(job: Job, exit: ExitSeen, now: Instant): Answer {
  const means = mostlyMeans({ detail: '', ...exit });
  return {
    sentence: `${job.id}: its program has ended on ${workerText(exit.worker)} and is not judged yet: the cloud may be about to say that it took the machine.`,
    because: `${exitText(exit)}, seen ${momentText(exit.at, now)}, ${ageText(now - exit.at)} ago${means === null ? '' : `; ${means}`}`,
    rule: `${wouldFollow(job, 'preempted')}; else ${wouldFollow(job, 'command_failed', exit)}`,
    next: 'if the cloud reports a preemption within half a minute of its end, it counts as one; otherwise as a failure of the program',
    nextAt: null,
  };
}

/** The row of the rules that would answer if the attempt under way ended for that reason and like that, and what is used so far. */
function wouldFollow(job: Job, reason: RuledReason, how: Omit<Evidence, 'detail'> = {}): string {
  if (job.answersNothing === true) return unruled;
  const answers = answerFor(job.spec.recovery, reason, { detail: '', ...how });
  const attempt = lastAttempt(job);
  if (answers.then === 'fail' || attempt === undefined || reason === 'succeeded') {
    return ruleText(job, { reason, ...answers, pattern: how.pattern, used: 0, limit: 0 });
  }
  const { used, limit, isOwn } = allowance(job, attempt, reason, { detail: '', ...how });
  return ruleText(job, {
    reason,
    ...answers,
    pattern: how.pattern,
    used: used.length,
    limit,
    ...(isOwn && { isOwn: true }),
  });
}

// ------------------------------------------------------------------------------------------ recovering

/** An attempt has ended, and the next one does not run yet: `part` tells why, unless its capacity is interrupted. */
function whyRecovering(
  about: About,
  part: Pick<Answer, 'next' | 'nextAt'> & { readonly clause: string; readonly because?: string | null },
): Answer {
  const { job, events, now } = about;
  const rule = lastRule(job, events);
  const interruption = interruptionOf(job, now);
  if (interruption === null) return afterEnd(job, rule, part, now);
  const because = evidenceOf(job, allocationOf(job, attemptOf(about).allocation), now);
  const next = `it is set up ${interruption.wait}`;
  return afterEnd(job, rule, { clause: `the next one ${interruption.text}`, because, next, nextAt: null }, now);
}

function afterEnd(
  job: Job,
  rule: string | null,
  part: Pick<Answer, 'next' | 'nextAt'> & { readonly clause: string; readonly because?: string | null },
  now: Instant,
): Answer {
  const ending = lastEnding(job);
  if (ending === null) throw new Error(`job ${job.id} is recovering, and no attempt of it has ended`);
  const ago = ageText(now - ending.since);
  const happened =
    ending.reason === 'preempted'
      ? `its ${acceleratorOf(job)} was preempted ${ago} ago`
      : `its attempt ended ${ago} ago (${endWords(ending)})`;
  const ended = `${endedOf(job, ending)}; seen ${momentText(ending.since, now)}`;
  const { clause, because = null, next, nextAt } = part;
  return {
    sentence: `${job.id} is recovering: ${happened}; ${clause}.`,
    because: because === null ? ended : `${ended}; ${because}`,
    rule,
    next,
    nextAt,
  };
}

function nextForStart(job: Job, attempt: Attempt, silence: Silence | null): { next: string; because: string | null } {
  return {
    next: `its command starts on ${placesText(job, attempt)}`,
    because: silence === null ? null : `${silence.who}: ${silence.because}`,
  };
}

function stageText({ ordinal, stage }: Attempt): string {
  return `attempt ${ordinal}, stage ${stage}`;
}

function endedOf(job: Job, ending: NonNullable<Attempt['ending']>): string {
  const means = ending.reason === 'command_failed' ? mostlyMeans(ending.evidence) : null;
  return `${endText(job, ending)}${means === null ? '' : `; ${means}`}`;
}

/**
 * The rule that will apply once everything of that attempt has ended; the newest `rule_applied` event is about the attempt
 * before it.
 */
function ruleAhead(job: Job, attempt: Attempt): string | null {
  const { ending } = attempt;
  if (ending === null) return null;
  const following = whatFollows(job, attempt, ending.since);
  return following.next === 'attempt' ? ruleText(job, { reason: ending.reason, ...following.applied }) : null;
}

/** In the place of a rule, once the owner has said that what is under way is the last. */
const unruled = 'none applies any more: its owner wanted no further attempt';

function lastRule(job: Job, events: readonly Event[]): string | null {
  if (job.answersNothing === true) return unruled;
  const applied = events.findLast((event) => event.kind === 'rule_applied');
  return applied === undefined ? null : ruleText(job, applied);
}

// ------------------------------------------------------------------------------------------ ending

/** The attempt must end, or has. Its pass may also have found it ended: then the job has finished, or goes on. */
function whyEnded(about: About): Answer {
  const { job } = about;
  const attempt = openAttempt(job);
  if (job.settled !== null) return whySettled(about);
  if (job.desired === 'run' && (attempt === undefined || attempt.ending === null)) return whyAhead(about);
  return phaseOf(job) === 'recovering' ? whyClosing(about) : whyStopping(about);
}

function whyClosing({ job, events, now }: About): Answer {
  const attempt = openAttempt(job);
  const rule = attempt === undefined ? null : ruleAhead(job, attempt);
  const hindrance = hindranceOf(job, events, now);
  const part = {
    clause: `what is left of it is being ended${inSentence(hindrance)}`,
    because: hindrance?.because ?? null,
    next: hindrance?.next ?? 'the next attempt begins when nothing of it is alive',
    nextAt: hindrance?.nextAt ?? null,
  };
  return afterEnd(job, rule, part, now);
}

function whyStopping({ job, events, now }: About): Answer {
  const ending = openAttempt(job)?.ending ?? null;
  const { signal, grace } = job.spec.stop;
  const askedAt = ending?.stopAskedAt ?? null;
  const isInGrace = askedAt !== null && now < askedAt + grace;
  const hindrance = hindranceOf(job, events, now);
  const because = [
    hindrance?.because,
    askedAt === null ? undefined : `${signal} sent at ${momentText(askedAt, now)}, ${ageText(now - askedAt)} ago`,
    askedAt === null && ending !== null && ending.reason !== 'stopped' ? endedOf(job, ending) : undefined,
    hindrance === null ? stopFailure(job, now) : undefined,
  ].filter((part) => part !== undefined);
  return {
    sentence: `${job.id} is stopping: ${whyEnding(job, events, now)}${inSentence(hindrance)}.`,
    because: because.length === 0 ? null : because.join('; '),
    rule: `${signal}, then after ${lengthText(grace)} it is killed with all its children`,
    next:
      hindrance?.next ??
      (isInGrace ? 'it is killed if it is still there' : 'the controller sees that nothing of it is alive'),
    nextAt: hindrance === null ? (isInGrace ? askedAt + grace : null) : hindrance.nextAt,
  };
}

interface Hindrance {
  readonly clause: string;
  readonly because: string | undefined;
  readonly next: string;
  readonly nextAt: Instant | null;
}

function inSentence(hindrance: Hindrance | null): string {
  return hindrance === null ? '' : `; ${hindrance.clause}`;
}

/** Silence and maintenance: in both nobody can see whether the program has ended. */
function hindranceOf(job: Job, events: readonly Event[], now: Instant): Hindrance | null {
  const attempt = openAttempt(job);
  if (attempt === undefined || attempt.ending === null) return null;
  const { ownership } = allocationOf(job, attempt.allocation);
  const it = `its ${acceleratorOf(job)}`;
  const number = Number(job.id);
  const interruption = interruptionOf(job, now);
  if (interruption !== null) {
    const next = `it ends when ${it} is back, which is waited for without limit`;
    const letGo = ownership === 'owned' ? `; to let it go now: jobman cancel ${number}` : '';
    return { clause: `${it} ${interruption.text}`, because: undefined, next: `${next}${letGo}`, nextAt: null };
  }
  const silence = silenceOf(job, events, now);
  if (silence === null) return null;
  const length = lengthText(now - silence.since);
  const clause = silence.isLogin
    ? `the cloud could not be asked for ${length}, for lack of a login`
    : `${silence.who} has not answered for ${length}`;
  const { because } = silence;
  if (ownership === 'standing') {
    const end = 'it ends when the worker answers or its TPU is seen gone';
    const goesOn = whatFollows(job, attempt, attempt.ending.since).next === 'attempt';
    const givenUp = goesOn ? 'the job fails' : 'it ends without that';
    const next = `${end}${silence.isCloud ? '' : `; else ${givenUp}, and the TPU stays as it is`}; to wait no longer: jobman delete ${number} --force`;
    return { clause, because, next, nextAt: givenUpAt(job, attempt, now) ?? null };
  }
  if (silence.isCloud) {
    const next = `the controller keeps asking, without limit; to release ${it} as soon as the cloud answers: jobman cancel ${number}`;
    return { clause, because, next, nextAt: null };
  }
  // The moment is said behind this, and it is that of letting go by itself.
  const next = `to let ${it} go now: jobman cancel ${number}; else it ends when the worker answers, or is let go`;
  return { clause, because, next, nextAt: givenUpAt(job, attempt, now) ?? null };
}

function stopFailure(job: Job, now: Instant): string | undefined {
  const newest = newestFailure(openAttempt(job), 'stop');
  if (newest === undefined) return undefined;
  const { task, lastAt, detail } = newest;
  return `${taskText(task)} failed ${ageText(now - lastAt)} ago: ${sentencePart(detail)}`;
}

function whyEnding(job: Job, events: readonly Event[], now: Instant): string {
  const ending = openAttempt(job)?.ending ?? null;
  if (job.desired !== 'run') {
    const asked = events.findLast((event) => event.kind === 'asked');
    const word = asked === undefined ? 'it was asked to' : `${asked.by} said ${asked.verb}`;
    return `${word} ${ageText(now - job.desiredAt)} ago`;
  }
  const reason = ending === null ? 'it has ended' : reasonWords[ending.reason];
  return `${reason} ${ageText(now - phaseSince(job))} ago; what is left of it is being ended`;
}

// ------------------------------------------------------------------------------------------ ended

function whySettled({ job, events, now }: About): Answer {
  const phase = phaseOf(job);
  const at = phaseSince(job);
  const ending = lastAttempt(job)?.ending ?? null;
  const leaving = leavingAllocations(job);
  const ended =
    ending === null
      ? `ended at ${momentText(at, now)}`
      : `${endedOf(job, ending)}; at ${momentText(ending.since, now)}`;
  return {
    sentence: `${job.id} ${settledText(job, phase)} ${ageText(now - at)} ago${holdingText(job)}.`,
    because: [
      ended,
      ...lostSince(job, at, events, now),
      ...leaving.map((allocation) => evidenceOf(job, allocation, now)),
    ].join('; '),
    rule: phase === 'failed' ? lastRule(job, events) : null,
    ...nextForSettled(job, phase),
  };
}

/** The loss of capacity that the job kept after its end: the end of the job does not explain it. */
function lostSince(job: Job, end: Instant, events: readonly Event[], now: Instant): readonly string[] {
  const seen = events.find((event) => event.kind === 'allocation_seen' && event.state === 'lost' && event.at > end);
  if (seen?.kind !== 'allocation_seen') return [];
  const { allocation, at, detail } = seen;
  const isReleasedBefore = (job.allocations[allocation - 1]?.releasedAt ?? at) < at;
  const word = detail === '' ? '' : ` (${detail})`;
  return isReleasedBefore ? [] : [`the ${acceleratorOf(job)} that it kept was lost${word} at ${momentText(at, now)}`];
}

function settledText(job: Job, phase: Phase): string {
  const reason = job.settled?.reason;
  switch (phase) {
    case 'failed':
      return reason === undefined ? phase : `${phase} (${failureWords(job, reason)})`;
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

function failureWords(job: Job, reason: NonNullable<Job['settled']>['reason']): string {
  const ending = lastEnding(job);
  return ending?.reason === reason ? endWords(ending) : reasonWords[reason];
}

function nextForSettled(job: Job, phase: Phase): Pick<Answer, 'next' | 'nextAt'> {
  if (job.removed) {
    // Only a forced delete leaves something; what became of that is not in the record of the job.
    const left = keptAllocations(job).length > 0 ? '; what it held was never seen gone; to look for it: jobman gc' : '';
    return { next: `nothing: it was taken off the list${left}`, nextAt: null };
  }
  if (leavingAllocations(job).length > 0) {
    const then = job.desired === 'delete' ? '; then it leaves the list' : '';
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
    const release = capacity.ownership === 'owned' ? `; to release it: jobman stop ${number} --release` : '';
    return { next: `nothing: the job runs no command and keeps its ${acceleratorOf(job)}${release}`, nextAt: null };
  }
  if (phase === 'succeeded') return { next: `nothing; ${again}`, nextAt: null };
  const attempt = lastAttempt(job);
  const log = attempt?.ending?.reason === 'setup_failed' ? stepLog(job, attempt) : programLog(job, attempt);
  const held =
    keptAllocations(job).length > 0 ? `; to let its ${acceleratorOf(job)} go: jobman stop ${number} --release` : '';
  return { next: `nothing by itself${log}; to go on: jobman resume ${number}; ${again}${held}`, nextAt: null };
}

function programLog(job: Job, attempt: Attempt | undefined): string {
  return attempt !== undefined && failureOf(job) === attempt
    ? `; all that it printed: jobman logs ${Number(job.id)}`
    : '';
}

/** `; it still holds v4-8, which costs about $4.00/h`, or nothing. */
function holdingText(job: Job): string {
  if (job.removed || keptAllocations(job).length === 0) return '';
  const price = pricePerHour(job);
  return `; it still holds ${acceleratorOf(job)}${price === null ? '' : `, which costs ${costOf(job.spec.capacity, price)}`}`;
}
