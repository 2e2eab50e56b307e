// The `why` answer: a message, its evidence with the time, the rule in force, the next step and its time. It uses the
// database only and observes nothing.

import { phaseOf } from '../core/decide/phase.ts';
import { hostArgument, phrasesOf } from './phrases.ts';
import { situations } from '../core/decide/situations.ts';
import { allocationOf, lastAllocation, openAttempt, type Attempt, type Job } from '../core/model/job.ts';
import type { Instant } from '../core/model/time.ts';
import type { Why } from './client.ts';
import { loginEffects } from './controller-login.ts';
import { capitalize, formatTime, reasonPhrases } from './format.ts';
import { awaitsCapacity, formatTypicalWait, waitedFor } from './typical-wait.ts';
import { lastEnding, releasingAllocations } from './views.ts';
import { whyEnding, whyFinished } from './why-ending.ts';
import { failedAttempt, outageOf, type Outage, type WhyAnswer, type WhyContext, type WhyRequest } from './why-parts.ts';
import { whyBackoff, whyRunning, whySetup } from './why-running.ts';
import { whyQueued, whyWaitingForSlot, whyWithoutCapacity } from './why-waiting.ts';

export function whyOf(job: Job, now: Instant, context: WhyContext): Why & { readonly next: string } {
  const { message, evidence = null, rule = null, next, nextAt = null } = answerOf({ job, now, ...context });
  const { typicalWait = null, nextCheckAt = null, logTail = [] } = context;
  // If the next step has its own time, omit an earlier check. Ignore a time in the past: the controller stores the next
  // check only when something changes.
  const isAhead = nextCheckAt !== null && nextCheckAt > now && (nextAt === null || nextCheckAt < nextAt);
  return {
    id: job.id,
    backend: job.spec.capacity.kind,
    phase: phaseOf(job),
    message: `Job ${job.id} ${message}.`,
    evidence,
    rule,
    next: controllerSentences(job, nextAt, context).reduce(withSentence, next),
    nextAt,
    logTail: isFailureCurrent(job) ? withoutQuotedLine(job, logTail) : [],
    typicalWait:
      typicalWait !== null && awaitsCapacity(job) ? formatTypicalWait(typicalWait, waitedFor(job, now)) : null,
    nextCheckAt: isAhead && awaitsCheck(job) ? nextCheckAt : null,
    situation: situationOf(job),
  };
}

/** The message of `whyOf` without the job and its phase: `No capacity for v6e-8 spot in us-east5-b.` */
export function blockingSentence(job: Job, now: Instant, context: WhyContext): string {
  const sentence = answerOf({ job, now, ...context }).message.replace(/^is [a-z ]+: /u, '');
  // Not the type at the beginning: `v5litepod-16 spot in us-west4-a can never fit its quota`.
  return `${/^[a-z]+\b(?!-)/u.test(sentence) ? capitalize(sentence) : sentence}.`;
}

/** True if a controller acts on the job next, which a client never does. */
function needsController(job: Job, nextAt: Instant | null): boolean {
  return !job.removed && (job.finish === null || nextAt !== null || releasingAllocations(job).length > 0);
}

function controllerSentences(job: Job, nextAt: Instant | null, context: WhyContext): readonly string[] {
  const { isControllerRunning = true, controllerLogin = null } = context;
  const mayHaveFailed = isFailureCurrent(job) || phaseOf(job) === 'setup';
  const effects = mayHaveFailed ? loginEffects(job.spec, controllerLogin) : [];
  return [
    ...effects.map((effect) => `${capitalize(effect)}.`),
    ...(isControllerRunning || !needsController(job, nextAt)
      ? []
      : ['No controller runs, so jobman does nothing for this job until you start one: jobman controller start']),
  ];
}

function withSentence(text: string, sentence: string): string {
  return `${text}${text.endsWith('.') ? ' ' : ' · '}${sentence}`;
}

function situationOf({ situation: name }: Job): Why['situation'] {
  if (name === undefined) return null;
  return { name, description: situations.find((one) => one.name === name)?.means ?? null };
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

/** The progress of the job chooses the answer, in this order. The stored situation may be older than the newest command. */
function answerOf(context: WhyRequest): WhyAnswer {
  const { job, now, queuePosition } = context;
  // A forced delete leaves programs that the controller still ends. For the user the job is gone.
  if (job.removed || job.finish !== null) return whyFinished(context);
  const ending = whyEnding(context);
  if (ending !== null) return ending;
  const attempt = openAttempt(job);
  if (attempt === undefined) return whyQueued(context);
  const outage = outageOf(context);
  if (outage?.isCloud === true) return whyUnknown(context, outage);
  if (attempt.runningAt !== null) return whyRunning(context, attempt.runningAt);
  const isReady = hasCapacity(job, attempt);
  if (attempt.notBeforeAt > now) return isReady ? whyBackoff(context) : whyWithoutCapacity(context);
  if (queuePosition !== undefined && phaseOf(job) === 'recovering') return whyWaitingForSlot(context, queuePosition);
  return isReady ? whySetup(context) : whyWithoutCapacity(context);
}

/** True once the attempt's capacity was ready, so that only its setup remains. */
function hasCapacity(job: Job, attempt: Attempt): boolean {
  const phase = phaseOf(job);
  return phase === 'setup' || (phase === 'recovering' && allocationOf(job, attempt.allocation).readyAt !== null);
}

/** While the cloud does not answer, nothing else is certain. */
function whyUnknown({ job, now }: WhyRequest, { clause, evidence, isLoginMissing }: Outage): WhyAnswer {
  const hint = phrasesOf(job).hasCloud
    ? ''
    : ` Add the host again: jobman hosts add ${hostArgument(job)} --ssh ADDRESS. Or cancel: jobman cancel ${Number(job.id)}`;
  const phase = phaseOf(job);
  const ending = phase === 'recovering' ? lastEnding(job) : null;
  const after = ending === null ? '' : ` (${reasonPhrases[ending.reason]} at ${formatTime(ending.startedAt, now)})`;
  return {
    message: `has an unknown state: ${clause}. Its last known phase is ${phase}${after}`,
    evidence,
    next: isLoginMissing
      ? 'The job continues once there is a login.'
      : `The controller keeps checking without a time limit and changes nothing until then.${hint}`,
  };
}
