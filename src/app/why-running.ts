// The `why` answer for an attempt on ready capacity, and for the attempt that follows an end.

import { formatWorker } from '../core/model/spec.ts';
import { phaseOf, phaseSince } from '../core/decide/phase.ts';
import { isOnHeldCapacity, unreachableGraceOf } from '../core/decide/recover.ts';
import { allocationOf, lastAllocation } from '../core/model/job.ts';
import type { Attempt, Ending, ExitSeen, Job } from '../core/model/job.ts';
import { earliest, type Instant } from '../core/model/time.ts';
import { formatCloudEvidence } from './cloud-status.ts';
import { asClause, capitalize, formatDuration, formatSince, formatTime, formatWhen, pluralize } from './format.ts';
import { formatEndReason, formatExit, likelyCause, phrasesOf } from './phrases.ts';
import { acceleratorOf, lastEnding } from './views.ts';
import {
  nextElsewhere,
  currentAttempt,
  currentRule,
  endingBudget,
  formatAttemptWorkers,
  formatEndCause,
  formatRuleFor,
  formatTask,
  interruptionOf,
  newestFailure,
  nextForInterruption,
  outageOf,
  stepLogHint,
  withHints,
} from './why-parts.ts';
import type { Outage, Step, WhyAnswer, WhyRequest } from './why-parts.ts';

export function whyRunning(context: WhyRequest, runningAt: Instant): WhyAnswer {
  const { job, hangEvidence = null, now } = context;
  const attempt = currentAttempt(context);
  const { maxRuntimeMs, failedCallTimeoutMs } = job.spec.limits;
  const limitAt = maxRuntimeMs === null ? undefined : runningAt + maxRuntimeMs;
  const budget = endingBudget(context);
  const nextAt = earliest(limitAt, budget?.at) ?? null;
  const outage = outageOf(context);
  if (outage !== null)
    return {
      ...whySilentWorker(job, attempt, outage),
      message: `was running when last checked: ${outage.clause}`,
    };
  const interruption = interruptionOf(job, now);
  if (interruption !== null)
    return {
      message: `was running when last checked: ${interruption}`,
      evidence: formatCloudEvidence(job, allocationOf(job, attempt.allocation), context),
      rule: formatRuleFor(job, 'unreachable'),
      next: nextForInterruption(job, 'The controller checks the command'),
      nextAt,
    };
  if (attempt.exitSeen !== undefined) return whyExitUndecided(context, attempt.exitSeen);
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
    rule: formatRuleFor(job, phrasesOf(job).likelyEnd),
    next:
      nextAt === null
        ? `The job runs until its program exits${hang}.`
        : nextAt === budget?.at
          ? `The controller ends the job ${budget.clause}.`
          : 'The controller ends the program at its time limit (job.max_runtime).',
    nextAt,
  };
}

/** A program was killed on capacity that the cloud may preempt: the cloud has half a minute to report the preemption. */
function whyExitUndecided({ job, now }: WhyRequest, exit: ExitSeen): WhyAnswer {
  const cause = likelyCause({ message: '', ...exit });
  return {
    message: `waits for the cloud: its program has exited on ${formatWorker(exit.worker)}, and the cloud may be preempting the TPU`,
    evidence: `${formatExit(exit)} at ${formatTime(exit.at, now)}${cause === null ? '' : `; ${cause}`}`,
    rule: `${formatRuleFor(job, 'preempted')}; else ${formatRuleFor(job, 'command_failed', exit)}`,
    next: 'The exit counts as a preemption if the cloud reports one within 30s, and as a failure of the program otherwise.',
  };
}

/** Explains the pause before an attempt on ready capacity. */
export function whyBackoff(context: WhyRequest): WhyAnswer {
  const { job } = context;
  const attempt = currentAttempt(context);
  const { ordinal, notBeforeAt } = attempt;
  const clause = `attempt ${ordinal} starts after a pause`;
  if (phaseOf(job) === 'recovering')
    return whyRecovering(context, { clause, ...nextForStart(context, attempt), nextAt: notBeforeAt });
  const ending = lastEnding(job);
  if (ending === null || outageOf(context) !== null) return whySetup(context);
  return {
    message: `is in setup: ${formatLastEnd(context, ending)}. ${capitalize(clause)}`,
    evidence: formatEndCause(job, ending),
    rule: currentRule(context),
    next: `Setup starts again on ${pluralize(lastAllocation(job)?.workers ?? 1, 'worker')}.`,
    nextAt: notBeforeAt,
  };
}

export function whySetup(context: WhyRequest): WhyAnswer {
  const { job } = context;
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
      evidence: `ready since ${formatSince(since, context)}`,
      next,
    };
  }
  const { task, tries, message: detail, lastAt } = newest;
  const happened =
    tries === 0 ? 'was interrupted' : `failed (${tries} of ${pluralize(job.spec.limits.setupTries, 'try', 'tries')})`;
  return {
    message: `is in setup: ${formatTask(task)} ${happened}. Retrying`,
    evidence: `${asClause(detail)}, ${formatWhen(lastAt, context)}${tries === 0 ? '; this does not count as a try' : ''}`,
    rule: formatRuleFor(job, 'setup_failed'),
    next: withHints(next, [stepLogHint(job, attempt)]),
  };
}

/** A worker is silent before the command starts: the job switches to new ephemeral capacity, else the attempt ends. */
function whySilentWorker(job: Job, attempt: Attempt, outage: Outage): Omit<WhyAnswer, 'message'> {
  const { since, evidence, isElsewhere } = outage;
  if (isElsewhere) return { evidence, next: nextElsewhere(job) };
  const isReplaced = isOnHeldCapacity(job, attempt) && allocationOf(job, attempt.allocation).ownership === 'ephemeral';
  const result = isReplaced ? 'The controller requests another TPU' : 'The attempt ends';
  return {
    evidence,
    rule: isReplaced ? null : formatRuleFor(job, 'unreachable'),
    next: `${result} if the worker stays silent${phrasesOf(job).whileReady}.`,
    nextAt: since + unreachableGraceOf(job, attempt),
  };
}

function nextForStart(context: WhyRequest, attempt: Attempt): Pick<Step, 'next' | 'evidence'> {
  return {
    next: `The command starts on ${formatAttemptWorkers(context.job, attempt)}.`,
    evidence: outageOf(context)?.evidence ?? null,
  };
}

/** Explains a job whose attempt has ended or ends, while the next one does not run yet. */
export function whyRecovering(context: WhyRequest, step: Step): WhyAnswer {
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
          evidence: formatCloudEvidence(job, allocationOf(job, attempt.allocation), context),
          next: nextForInterruption(job, 'Setup starts'),
        };
  const ended = `${formatEndCause(job, ending)}; seen ${formatTime(ending.startedAt, now)}`;
  return {
    message: `is recovering: ${formatLastEnd(context, ending)}. ${capitalize(clause)}`,
    evidence: evidence === null || evidence === undefined ? ended : `${ended}; ${evidence}`,
    rule: currentRule(context),
    ...next,
  };
}

function formatLastEnd(context: WhyRequest, ending: Ending): string {
  const when = formatWhen(ending.startedAt, context);
  return ending.reason === 'preempted'
    ? `its ${acceleratorOf(context.job)} was preempted ${when}`
    : `its last attempt ended ${when} (${formatEndReason(ending)})`;
}
