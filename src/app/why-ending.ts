// The `why` answer for an attempt that is ending, and for a job that is finished.

import { capacityTraits } from '../core/decide/allocate.ts';
import { isNoLongerNeeded } from '../core/decide/end.ts';
import { keptUntil } from '../core/decide/finish.ts';
import { phaseOf, phaseSince } from '../core/decide/phase.ts';
import { continuationOf, giveUpAt } from '../core/decide/recover.ts';
import type { Event } from '../core/model/event.ts';
import { allocationOf, lastAttempt, openAttempt, type Attempt, type Job, type OwnerBudget } from '../core/model/job.ts';
import { earliest, type Instant } from '../core/model/time.ts';
import { formatCloudEvidence } from './cloud-status.ts';
import { asClause, capitalize, formatDate, formatDuration, formatTime, formatWhen, reasonPhrases } from './format.ts';
import { formatCapacityCost, formatEndReason } from './phrases.ts';
import {
  acceleratorOf,
  importedPhrase,
  keptAllocations,
  lastEnding,
  pricePerHour,
  releasingAllocations,
  requestedCommand,
} from './views.ts';
import {
  nextElsewhere,
  currentAttempt,
  currentRule,
  failedAttempt,
  endingBudget,
  formatEndCause,
  formatTask,
  interruptionOf,
  newestFailure,
  nextForInterruption,
  outageOf,
  stepLogHint,
  withHints,
} from './why-parts.ts';
import type { Next, Step, WhyAnswer, WhyRequest } from './why-parts.ts';
import { whyRecovering } from './why-running.ts';

/** Explains an attempt that ends. Null while the attempt continues. */
export function whyEnding(context: WhyRequest): WhyAnswer | null {
  const { job } = context;
  const ending = openAttempt(job)?.ending ?? null;
  if (job.desired === 'running' && ending === null) return null;
  return phaseOf(job) === 'recovering' ? whyEndingBeforeNext(context) : whyStopping(context);
}

function whyEndingBeforeNext(context: WhyRequest): WhyAnswer {
  const { job } = context;
  const attempt = currentAttempt(context);
  const allocation = allocationOf(job, attempt.allocation);
  const isReplaced = attempt.ending?.reason === 'preempted' || allocation.releasedAt !== null;
  const [clause, condition] = isReplaced
    ? ['deleting the old TPU', 'the old TPU is deleted']
    : ['stopping the old attempt', 'the old attempt has stopped'];
  const obstacle = endingObstacleOf(context);
  return whyRecovering(context, {
    evidence: formatCloudEvidence(job, allocation, context),
    next: `A new attempt starts once ${condition}.`,
    ...obstacle,
    clause: withObstacle(clause, obstacle),
  });
}

function whyStopping(context: WhyRequest): WhyAnswer {
  const { job, now } = context;
  const ending = openAttempt(job)?.ending ?? null;
  const { signal, graceMs } = job.spec.stop;
  // An attempt of an earlier version has no times of its stops.
  const sentAt =
    ending?.stopSentAt?.at(-1)?.at ?? (ending?.stopConfirmedBy.length === 0 ? null : (ending?.stopRequestedAt ?? null));
  const isInGrace = sentAt !== null && now < sentAt + graceMs;
  const obstacle = endingObstacleOf(context);
  if (obstacle === null && job.desired !== 'running' && lostItsTpu(ending)) {
    return {
      message: `is stopping: ${formatEndOrigin(context)}`,
      evidence: `its ${acceleratorOf(job)} was preempted; deleting the old TPU`,
      next: `${capitalize(job.desired)} once the TPU is deleted.`,
    };
  }
  const evidence = [
    obstacle?.evidence,
    sentAt === null ? undefined : `SIG${signal} sent at ${formatTime(sentAt, now)}`,
    sentAt === null && ending !== null && ending.reason !== 'stopped' ? formatEndCause(job, ending) : undefined,
    obstacle === null ? formatStopFailure(context) : undefined,
  ].filter((part) => part !== undefined);
  const next = isInGrace
    ? { next: 'The controller kills the remaining processes.', nextAt: sentAt + graceMs }
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
function lostItsTpu(ending: Attempt['ending']): boolean {
  return ending?.reason === 'preempted';
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
  const { clause, evidence, isCloud, isElsewhere } = outage;
  if (isElsewhere) return { clause, evidence, next: nextElsewhere(job), nextAt: null };
  const forceHint = `Skip the wait: jobman delete ${number} --force`;
  if (!capacityTraits(job.spec.capacity).givenUpWhenSilent) {
    const slots = (allocationOf(job, attempt.allocation).workers ?? 1) === 1 ? 'Its slot stays' : 'Its slots stay';
    const next = `${slots} held until the host answers, because its program may still run there.`;
    return { clause, evidence, next: `${next} If the machine is gone: jobman delete ${number} --force`, nextAt: null };
  }
  // If nothing needs the TPU any more, it is released after the stop grace, even if a worker stays silent.
  const isReleased = isNoLongerNeeded(job, attempt, now);
  if (isCloud) {
    const hint = isPersistent ? forceHint : `Release the TPU once the cloud answers: jobman cancel ${number}`;
    return {
      clause,
      evidence,
      next: `The controller keeps checking without a time limit.${isReleased ? '' : ` ${hint}`}`,
    };
  }
  if (isReleased) {
    const nextAt = (attempt.ending.stopRequestedAt ?? now) + job.spec.stop.graceMs;
    return { clause, evidence, next: 'The controller releases the TPU.', nextAt };
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

function formatStopFailure(context: WhyRequest): string | undefined {
  const newest = newestFailure(openAttempt(context.job), 'stop');
  if (newest === undefined) return undefined;
  const { task, lastAt, message: detail } = newest;
  return `${formatTask(task)} failed ${formatWhen(lastAt, context)}: ${asClause(detail)}`;
}

function formatEndOrigin(context: WhyRequest): string {
  const { job, events } = context;
  if (job.desired !== 'running') {
    const command = events.findLast((event) => event.kind === 'command_received');
    const request = command === undefined ? requestedCommand(job) : `${command.verb} requested by ${command.by}`;
    return `${request} ${formatWhen(job.desiredAt, context)}`;
  }
  const ending = openAttempt(job)?.ending ?? null;
  const reason = ending === null ? 'its attempt ended' : reasonPhrases[ending.reason];
  return `${reason} ${formatWhen(phaseSince(job), context)}. Ending its processes`;
}

export function whyFinished(context: WhyRequest): WhyAnswer {
  const { job, events, now } = context;
  const at = phaseSince(job);
  const ending = lastAttempt(job)?.ending ?? null;
  const phase = phaseOf(job);
  const isRequested = (phase === 'stopped' || phase === 'cancelled') && importedPhrase(job) === undefined;
  const by = job.endedBy ?? 'the owner';
  const ended =
    ending === null
      ? `ended at ${formatTime(at, now)}`
      : isRequested && lostItsTpu(ending)
        ? `requested by ${by}; its TPU had been preempted at ${formatTime(ending.startedAt, now)}`
        : `${formatEndCause(job, ending)} (${formatTime(ending.startedAt, now)})`;
  return {
    message: `${formatFinish(job, formatWhen(at, context))}${formatHeldCapacity(job)}`,
    evidence: [
      ended,
      ...formatLaterLoss(job, at, events, now),
      ...formatLaterRelease(job, at, events, now),
      ...releasingAllocations(job).map((allocation) => formatCloudEvidence(job, allocation, context)),
    ].join('; '),
    rule: phase === 'failed' ? currentRule(context) : null,
    ...nextForFinished(context),
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

/** The release of capacity that the job kept after its end, if the owner did not ask for it. */
function formatLaterRelease(job: Job, end: Instant, events: readonly Event[], now: Instant): readonly string[] {
  const event = events.findLast((event) => event.kind === 'allocation_released');
  const isRequested = job.desired === 'cancelled' || job.desired === 'deleted';
  if (event === undefined || event.at <= end || isRequested) return [];
  if (formatLaterLoss(job, end, events, now).length > 0) return [];
  return [`the ${acceleratorOf(job)} that it kept was released at ${formatTime(event.at, now)}: ${event.message}`];
}

function formatFinish(job: Job, when: string): string {
  const phase = phaseOf(job);
  if (phase === 'failed') {
    const ending = lastEnding(job);
    const { reason } = job.finish ?? {};
    const text =
      ending !== null && ending.reason === reason ? formatEndReason(ending) : reasonPhrases[reason ?? 'stopped'];
    return `failed ${when} (${text})`;
  }
  if (phase !== 'stopped' && phase !== 'cancelled') return `${phase} ${when}`;
  const imported = importedPhrase(job);
  return imported === undefined
    ? `was ${phase} by ${job.endedBy ?? 'its owner'} ${when}`
    : `counts as ${phase} (${imported})`;
}

function nextForFinished(context: WhyRequest): Next {
  const { job, now } = context;
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
  const budget = endingBudget(context);
  const nextAt = earliest(keptUntil(job), budget?.at);
  if (nextAt !== undefined && kept.length > 0) {
    const why = nextAt === budget?.at ? ` ${budget.clause}` : '';
    return { next: `The controller releases its ${accelerator}${why}. Release it now: ${release}`, nextAt };
  }
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
  const used = attempt?.ending?.evidence.budget;
  const resume =
    used !== undefined && used.ownerBudget === undefined
      ? `Resume with the whole budget again: jobman resume ${number} [--budget AMOUNT]`
      : `Resume: jobman resume ${number}`;
  return {
    next: withHints(`Nothing.${formatUsedPeriod(used?.ownerBudget, now)}`, [log, resume, startOver, releaseHint]),
  };
}

/** In this period the commands of the hints are refused, unless the grant or the limit of the user has changed since. */
function formatUsedPeriod(budget: OwnerBudget | undefined, now: Instant): string {
  if (budget === undefined || now >= budget.endsAt) return '';
  return ` Until ${formatDate(budget.endsAt, now)} (UTC), a new start needs a higher budgetUsd in that grant, or a higher usd-per-day.`;
}

function logHint(job: Job, attempt: Attempt | undefined): string | undefined {
  return attempt !== undefined && failedAttempt(job) === attempt ? `Log: jobman logs ${Number(job.id)}` : undefined;
}

function formatHeldCapacity(job: Job): string {
  if (job.removed || keptAllocations(job).length === 0) return '';
  const price = pricePerHour(job);
  return `. It keeps its ${acceleratorOf(job)}${price === null ? '' : `, which costs ${formatCapacityCost(job.spec.capacity, price)}`}`;
}
