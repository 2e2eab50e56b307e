// Why: one answer for each phase. A sentence, what it rests on and when that was, the rule in force, what comes next and
// when. Everything is from our own record; nobody outside is asked to make it.

import { capacityWaitEnd, isPermanent } from '../core/allocate.ts';
import type { Event } from '../core/decision.ts';
import { keptUntil } from '../core/end.ts';
import {
  allocationOf,
  lastAllocation,
  lastAttempt,
  openAttempt,
  type Allocation,
  type Attempt,
  type Job,
} from '../core/job.ts';
import { phaseOf, phaseSince, type Phase } from '../core/phase.ts';
import { answerFor, budgetOf, usedBudget } from '../core/recover.ts';
import type { RuledReason } from '../core/spec.ts';
import type { Instant } from '../core/time.ts';
import type { Why } from './client.ts';
import { ageText, countText, lengthText, momentText, priceText } from './figures.ts';
import { capacityText, evidenceText, reasonWords, refusalWords, ruleText, sentencePart } from './history.ts';
import {
  acceleratorOf,
  asksAgainAt,
  keptAllocations,
  lastEnding,
  leavingAllocations,
  pricePerHour,
  workersOf,
} from './views.ts';

/** Why that job is in its phase at that moment. `events` is its whole history; the rules that answered are told there. */
export function whyOf(job: Job, events: readonly Event[], now: Instant): Why {
  return { id: job.id, ...answer(job, events, now) };
}

type Answer = Omit<Why, 'id'>;

function answer(job: Job, events: readonly Event[], now: Instant): Answer {
  const phase = phaseOf(job);
  switch (phase) {
    case 'queued':
      return whyQueued(job, now);
    case 'provisioning':
      return whyProvisioning(job, now);
    case 'setup':
      return whySetup(job, now);
    case 'running':
      return whyRunning(job, now);
    case 'recovering':
      return whyRecovering(job, events, now);
    case 'stopping':
      return whyStopping(job, events, now);
    case 'succeeded':
    case 'failed':
    case 'stopped':
    case 'cancelled':
      return whySettled(job, events, now);
  }
}

// ------------------------------------------------------------------------------------------ waiting

function whyQueued(job: Job, now: Instant): Answer {
  const attempt = openAttempt(job);
  if (attempt === undefined) {
    return {
      sentence: `${job.id} is queued: it waits for its turn.`,
      because: `no attempt has begun since ${momentText(phaseSince(job))}, ${ageText(now - phaseSince(job))} ago`,
      rule: null,
      next: 'the controller begins an attempt when there is a free place',
      nextAt: null,
    };
  }
  const allocation = allocationOf(job, attempt.allocation);
  return {
    sentence: `${job.id} is queued: ${queuedFor(job, allocation)}.`,
    because: capacityEvidence(job, allocation, now),
    rule: null,
    ...nextForCapacity(job, attempt, allocation, now),
  };
}

function queuedFor(job: Job, allocation: Allocation): string {
  const kind = allocation.lastFailure?.error.kind;
  if (kind === 'stockout' || (kind === undefined && allocation.seen?.state === 'waiting')) {
    return `no capacity for ${capacityText(job)} so far`;
  }
  if (kind !== undefined) return `${capacityText(job)} was not given (${refusalWords[kind]})`;
  if (allocation.requestedAt !== null) return `${capacityText(job)} is asked for`;
  return `${capacityText(job)} is about to be asked for`;
}

/** What the outside has said of an allocation that is not ready, with the age of it. */
function capacityEvidence(job: Job, allocation: Allocation, now: Instant): string | null {
  const { lastFailure, seen, requestFailures, requestedAt, name } = allocation;
  if (lastFailure !== null) {
    const tries = requestFailures > 1 ? `; ${countText(requestFailures, 'request')} in vain` : '';
    return `${sentencePart(lastFailure.error.message)}, ${ageText(now - lastFailure.at)} ago${tries}`;
  }
  if (seen !== null) {
    const said = seen.detail === '' ? seen.state : seen.detail;
    return `${name} ${said} since ${momentText(seen.at)}, ${ageText(now - seen.at)} ago`;
  }
  return requestedAt === null ? null : `${name} asked ${ageText(now - requestedAt)} ago, not seen yet`;
}

function nextForCapacity(
  job: Job,
  attempt: Attempt,
  allocation: Allocation,
  now: Instant,
): Pick<Answer, 'next' | 'nextAt'> {
  const again = asksAgainAt(job, now);
  const end = capacityWaitEnd(job, attempt);
  const limit =
    end === undefined
      ? ''
      : `; it gives up ${end > now ? `in ${lengthText(end - now)}` : 'now'}, by its limit on waiting`;
  if (again !== null) return { next: `it is asked for again${limit}`, nextAt: again };
  const kind = allocation.lastFailure?.error.kind;
  if (kind !== undefined && isPermanent(kind)) return { next: 'nothing more is asked: the job ends', nextAt: null };
  return { next: `the controller keeps looking, and sets it up when it is there${limit}`, nextAt: null };
}

// ------------------------------------------------------------------------------------------ coming up

function whyProvisioning(job: Job, now: Instant): Answer {
  const attempt = openAttempt(job);
  const allocation = lastAllocation(job);
  if (attempt === undefined || allocation === undefined) return whyQueued(job, now);
  const isBack = allocation.seen?.state === 'interrupted';
  return {
    sentence: isBack
      ? `${job.id} is provisioning: its ${acceleratorOf(job)} is interrupted and comes back by itself.`
      : `${job.id} is provisioning: its ${acceleratorOf(job)} is being made.`,
    because: capacityEvidence(job, allocation, now),
    rule: null,
    next: isBack ? 'the command goes on, or is judged, when it is back' : 'it is set up when it is ready',
    nextAt: null,
  };
}

function whySetup(job: Job, now: Instant): Answer {
  const attempt = openAttempt(job);
  const allocation = lastAllocation(job);
  const steps = job.spec.steps.map((step) => step.name).join(', ');
  const workers = countText(allocation?.workers ?? 1, 'worker');
  const failures = Object.entries(attempt?.stepFailures ?? {}).toSorted(
    ([, one], [, other]) => other.lastAt - one.lastAt,
  );
  const [newest] = failures;
  const begun = `ready since ${momentText(phaseSince(job))}, ${lengthText(now - phaseSince(job))} ago`;
  return {
    sentence:
      newest === undefined
        ? `${job.id} is in setup: ${steps === '' ? 'its command is being started' : `${steps} on ${workers}`}.`
        : `${job.id} is in setup: ${stepText(newest[0])} failed and is tried again.`,
    because:
      newest === undefined
        ? begun
        : `${sentencePart(newest[1].detail)}, ${ageText(now - newest[1].lastAt)} ago; ${countText(newest[1].tries, 'try', 'tries')} of ${job.spec.limits.setupTries + 1}`,
    rule: newest === undefined ? null : wouldFollow(job, 'setup_failed'),
    next: `the command starts on ${attempt === undefined ? 'its workers' : placesText(job, attempt)} when all steps hold`,
    nextAt: null,
  };
}

/** `step docker on worker 3` of `3/docker`; `the start on worker 3` of `start/3`. */
function stepText(key: string): string {
  const [first = '', second = ''] = key.split('/', 2);
  const isCommand = first === 'start' || first === 'stop';
  const worker = isCommand ? second : first;
  const place = worker === 'here' ? 'this machine' : `worker ${worker}`;
  return isCommand ? `the ${first} of the command on ${place}` : `step ${second} on ${place}`;
}

function placesText(job: Job, attempt: Attempt): string {
  const places = workersOf(job, attempt);
  if (job.spec.capacity.kind === 'local' || places[0] === 'here') return 'this machine';
  return places.length === 0 ? 'its workers' : countText(places.length, 'worker');
}

// ------------------------------------------------------------------------------------------ running

function whyRunning(job: Job, now: Instant): Answer {
  const attempt = openAttempt(job);
  if (attempt === undefined) throw new Error(`job ${job.id} is running and has no attempt under way`);
  const runningAt = attempt.runningAt ?? attempt.startedAt ?? attempt.createdAt;
  const allocation = allocationOf(job, attempt.allocation);
  const { maxRuntime } = job.spec.limits;
  const end =
    maxRuntime === null
      ? { next: 'it ends when its program does', nextAt: null }
      : { next: 'its program is ended when its time is over', nextAt: runningAt + maxRuntime };
  const { silentSince, silentWho } = allocation;
  if (silentSince !== null) {
    const who = silentWho === 'allocation' ? 'the cloud' : 'a worker';
    return {
      sentence: `${job.id} ran when it was last seen; ${who} has not answered for ${lengthText(now - silentSince)}. Nothing is changed.`,
      because: `no answer since ${momentText(silentSince)}`,
      rule: wouldFollow(job, 'unreachable'),
      next:
        silentWho === 'worker'
          ? 'its worker is given up if it stays silent while the cloud says that it is ready'
          : 'the controller keeps looking',
      nextAt: silentWho === 'worker' ? silentSince + job.spec.recovery.unreachableGrace : null,
    };
  }
  return {
    sentence: `${job.id} has been running for ${lengthText(now - runningAt)} on ${placesText(job, attempt)}.`,
    because: `attempt ${attempt.ordinal}, stage ${attempt.stage}, seen running since ${momentText(runningAt)}`,
    rule: job.spec.capacity.kind === 'tpu' ? wouldFollow(job, 'preempted') : wouldFollow(job, 'command_failed'),
    ...end,
  };
}

/** The row of the rules that would answer if the attempt under way ended for that reason, counting that end. */
function wouldFollow(job: Job, reason: RuledReason): string {
  const answers = answerFor(job.spec.recovery, reason, { detail: '' });
  const attempt = lastAttempt(job);
  const budget = budgetOf(reason);
  if (answers.then === 'fail' || attempt === undefined || budget === null) {
    return ruleText(job, { reason, ...answers, used: 0, limit: 0 });
  }
  const used = usedBudget(job, attempt, budget).length;
  return ruleText(job, { reason, ...answers, used, limit: job.spec.recovery.budget[budget] });
}

// ------------------------------------------------------------------------------------------ recovering

function whyRecovering(job: Job, events: readonly Event[], now: Instant): Answer {
  const ending = lastEnding(job);
  const attempt = openAttempt(job);
  if (ending === null) return whyQueued(job, now);
  const ago = ageText(now - ending.since);
  const rule = lastRule(job, events);
  const because = `${evidenceText(ending.evidence)}; seen ${momentText(ending.since)}`;
  const happened = `its attempt ended ${ago} ago (${reasonWords[ending.reason]})`;
  const sentence = ending.reason === 'preempted' ? `its ${acceleratorOf(job)} was preempted ${ago} ago` : happened;
  if (attempt === undefined || attempt.ending !== null) {
    return {
      sentence: `${job.id} is recovering: ${sentence}; what is left of it is being ended.`,
      because,
      rule,
      next: 'the next attempt begins once nothing of this one can be alive',
      nextAt: null,
    };
  }
  const allocation = allocationOf(job, attempt.allocation);
  const goesOn = `attempt ${attempt.ordinal}, stage ${attempt.stage}`;
  if (allocation.readyAt !== null) {
    return {
      sentence: `${job.id} is recovering: ${sentence}; ${goesOn} is being set up.`,
      because,
      rule,
      next: `its command starts on ${placesText(job, attempt)}`,
      nextAt: attempt.notBefore > now ? attempt.notBefore : null,
    };
  }
  const said = capacityEvidence(job, allocation, now);
  return {
    sentence: `${job.id} is recovering: ${sentence}; ${queuedFor(job, allocation)}.`,
    because: said === null ? because : `${because}; ${said}`,
    rule,
    ...nextForCapacity(job, attempt, allocation, now),
  };
}

/** The newest row of the rules that answered, as history tells it. */
function lastRule(job: Job, events: readonly Event[]): string | null {
  const applied = events.findLast((event) => event.kind === 'rule_applied');
  return applied === undefined ? null : ruleText(job, applied);
}

// ------------------------------------------------------------------------------------------ ending

function whyStopping(job: Job, events: readonly Event[], now: Instant): Answer {
  const ending = openAttempt(job)?.ending ?? null;
  const { signal, grace } = job.spec.stop;
  const askedAt = ending?.stopAskedAt ?? null;
  const isInGrace = askedAt !== null && now < askedAt + grace;
  return {
    sentence: `${job.id} is stopping: ${whyEnding(job, events, now)}.`,
    because:
      askedAt === null
        ? ending === null || ending.reason === 'stopped'
          ? null
          : evidenceText(ending.evidence)
        : `${signal} sent at ${momentText(askedAt)}, ${ageText(now - askedAt)} ago`,
    rule: `${signal}, then after ${lengthText(grace)} it is killed with all its children`,
    next: isInGrace ? 'it is killed if it is still there' : 'the controller sees that nothing of it is alive',
    nextAt: isInGrace ? askedAt + grace : null,
  };
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

function whySettled(job: Job, events: readonly Event[], now: Instant): Answer {
  const phase = phaseOf(job);
  const at = phaseSince(job);
  const ending = lastAttempt(job)?.ending ?? null;
  const leaving = leavingAllocations(job);
  const ended =
    ending === null ? `ended at ${momentText(at)}` : `${evidenceText(ending.evidence)}; at ${momentText(ending.since)}`;
  return {
    sentence: `${job.id} ${settledText(job, phase)} ${ageText(now - at)} ago${holdingText(job)}.`,
    because: [ended, ...leaving.map((allocation) => leavingText(allocation, now))].join('; '),
    rule: phase === 'failed' ? lastRule(job, events) : null,
    ...nextForSettled(job, phase),
  };
}

function leavingText(allocation: Allocation, now: Instant): string {
  const { name, releasedAt, lastFailure } = allocation;
  const failed = lastFailure === null ? '' : `, last answer: ${sentencePart(lastFailure.error.message)}`;
  return `${name} told to go ${ageText(now - (releasedAt ?? now))} ago, not seen gone yet${failed}`;
}

function settledText(job: Job, phase: Phase): string {
  const reason = job.settled?.reason;
  switch (phase) {
    case 'failed':
      return reason === undefined ? phase : `${phase} (${reasonWords[reason]})`;
    case 'stopped':
    case 'cancelled':
      return `was ${phase} by its owner`;
    default:
      return phase;
  }
}

function nextForSettled(job: Job, phase: Phase): Pick<Answer, 'next' | 'nextAt'> {
  if (job.removed) return { next: 'nothing: it was taken off the list', nextAt: null };
  if (leavingAllocations(job).length > 0) {
    const then = job.desired === 'delete' ? '; then it leaves the list' : '';
    return { next: `the controller looks until its ${acceleratorOf(job)} is seen gone${then}`, nextAt: null };
  }
  const until = keptUntil(job);
  if (until !== undefined && keptAllocations(job).length > 0) {
    return { next: 'what it still holds is let go', nextAt: until };
  }
  const number = Number(job.id);
  const again = `from the beginning: jobman rerun ${number}`;
  const next =
    phase === 'succeeded' ? `nothing; ${again}` : `nothing by itself; to go on: jobman resume ${number}; ${again}`;
  return { next, nextAt: null };
}

/** `; it still holds v4-8 at $4.00/h`, or nothing. */
export function holdingText(job: Job): string {
  if (keptAllocations(job).length === 0) return '';
  const price = pricePerHour(job);
  return `; it still holds ${acceleratorOf(job)}${price === null ? '' : ` at about ${priceText(price)}`}`;
}
