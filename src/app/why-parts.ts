// Parts of the `why` answer that several of its files share: silence, interruptions, rules and hints.

import { formatWorker, isOnThisMachine } from '../core/model/spec.ts';
import { ruleUseOf, answerFor, continuationOf } from '../core/decide/recover.ts';
import type { Event } from '../core/model/event.ts';
import { lastAllocation, lastAttempt, openAttempt } from '../core/model/job.ts';
import type { Attempt, Ending, Evidence, Job, TaskFailure } from '../core/model/job.ts';
import type { RecoverableReason } from '../core/model/spec.ts';
import { budgetEnd, usedBudgetOf, type Budget } from '../core/decide/spending.ts';
import { earliest, type Instant } from '../core/model/time.ts';
import type { QueuePosition } from '../core/policy/admission.ts';
import { asClause, formatDuration, formatTime, pluralize, type ReadingTime } from './format.ts';
import type { HangEvidence } from './logs.ts';
import { formatBudgetName, formatEnding, formatRule, likelyCause, withoutSubject, phrasesOf } from './phrases.ts';
import type { TypicalWait } from './typical-wait.ts';
import { acceleratorOf, interruptedSince, workersOf } from './views.ts';

export interface WhyContext extends Omit<ReadingTime, 'now'> {
  /** The whole history: it holds the rules that were applied and the reasons why observations failed. */
  readonly events: readonly Event[];
  readonly queuePosition?: QueuePosition | undefined;
  readonly nextCheckAt?: Instant | null;
  readonly typicalWait?: TypicalWait | null;
  /** The budgets that limit the job. */
  readonly budgets?: readonly Budget[];
  /** The jobs that may use the quota that refuses the job. */
  readonly quotaJobs?: readonly Job[];
  /** Default: true. */
  readonly isControllerRunning?: boolean;
  /** The login of the controller if it is another one than the caller's. Default: null. */
  readonly controllerLogin?: string | null;
  readonly logTail?: readonly string[];
  /** The failed call after which the running program may hang. */
  readonly hangEvidence?: HangEvidence | null;
}

export interface WhyRequest extends WhyContext {
  readonly now: Instant;
  readonly job: Job;
}

export interface WhyAnswer {
  /** Follows `Job 000042 `; without the last full stop. */
  readonly message: string;
  readonly evidence?: string | null;
  readonly rule?: string | null;
  /** Sentences. The screens add `nextAt` to the first. */
  readonly next: string;
  readonly nextAt?: Instant | null;
}

export type Next = Pick<WhyAnswer, 'next' | 'nextAt'>;

/** The second half of a message: what happens now. It follows a colon, or begins a sentence. */
export type Step = Omit<WhyAnswer, 'message' | 'rule'> & { readonly clause: string };

export function currentAttempt({ job }: WhyRequest): Attempt {
  const attempt = openAttempt(job);
  if (attempt === undefined) throw new Error(`job ${job.id} is ${job.situation}, and it has no open attempt`);
  return attempt;
}

export interface Outage {
  readonly since: Instant;
  /** `worker 3 has not answered for 2m` */
  readonly clause: string;
  readonly isCloud: boolean;
  readonly isLoginMissing: boolean;
  /** The program runs in another home, whose controller does not run the jobs now. */
  readonly isElsewhere: boolean;
  readonly evidence: string;
}

export function outageOf({ job, events, now }: WhyRequest): Outage | null {
  const allocation = lastAllocation(job);
  if (allocation === undefined || allocation.unreachableAt === null) return null;
  const { unreachableAt: since, unreachableWho, name } = allocation;
  const isLoginMissing = unreachableWho === 'login';
  const isElsewhere = unreachableWho === 'home' || unreachableWho === 'machine';
  const isCloud = unreachableWho === 'cloud' || isLoginMissing;
  const event = events.findLast((event) => event.kind === 'unreachable' && event.allocation === allocation.ordinal);
  // The cloud and a worker may be unreachable one after the other. The event of one does not describe the other.
  const isSameSubject = event?.kind === 'unreachable' && (event.worker === undefined) === isCloud;
  const worker = isSameSubject && event.worker !== undefined ? formatWorker(event.worker) : '';
  const detail = isSameSubject ? asClause(withoutSubject(event.message, worker)) : '';
  const length = formatDuration(now - since);
  // The settings say that nothing is known about a host: it left them, or has another address.
  if (isElsewhere || (isCloud && !phrasesOf(job).hasCloud))
    return {
      since,
      clause:
        detail || (isElsewhere ? `its host has been unknown for ${length}` : 'its hosts are not as in the settings'),
      isCloud,
      isLoginMissing,
      isElsewhere,
      evidence: `since ${formatTime(since, now)}`,
    };
  const missing = isLoginMissing ? 'no login' : isCloud ? `no answer about ${name}` : 'no answer';
  return {
    since,
    clause: isLoginMissing
      ? `there has been no Google Cloud login for ${length}`
      : `${isCloud ? 'the cloud' : worker || 'a worker'} has not answered for ${length}`,
    isCloud,
    isLoginMissing,
    isElsewhere,
    evidence: `${missing} since ${formatTime(since, now)}${detail === '' ? '' : `: ${detail}`}`,
  };
}

export function nextElsewhere(job: Job): string {
  return withHints('The job continues when a controller of that home runs the jobs.', [
    'Start it there (jobman controller start) and stop the other one (jobman controller stop).',
    `If the machine is gone: jobman delete ${Number(job.id)} --force`,
  ]);
}

/** A maintenance interruption ends by itself, and no limit of the job ends it. */
export function interruptionOf(job: Job, now: Instant): string | null {
  const since = interruptedSince(job);
  if (since === undefined) return null;
  const detail = lastAllocation(job)?.lastObserved?.detail ?? '';
  return `its ${acceleratorOf(job)} has been interrupted for ${formatDuration(now - since)}${detail === '' ? '' : ` (${detail})`}`;
}

export function nextForInterruption(job: Job, step: string): string {
  return withHints(`${step} when the TPU is back (no time limit).`, [
    job.spec.capacity.ownership === 'ephemeral' && `Release it now: jobman cancel ${Number(job.id)}`,
  ]);
}

const recoveryDisabledText = 'none: recovery is off for this job';

/** The rule that continues the job after its newest end. */
export function currentRule({ job, events }: WhyRequest): string | null {
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

export function formatRuleFor(job: Job, reason: RecoverableReason, ending: Omit<Evidence, 'message'> = {}): string {
  if (job.recoveryDisabled === true) return recoveryDisabledText;
  const evidence = { message: '', ...ending };
  const answer = answerFor(job.spec.recovery, reason, evidence);
  const applied = { reason, ...answer, pattern: ending.pattern };
  const attempt = lastAttempt(job);
  if (answer.then === 'fail' || attempt === undefined || reason === 'succeeded')
    return formatRule(job, { ...applied, used: 0, limit: 0 });
  const { used, limit, isRuleLimit } = ruleUseOf(job, attempt, reason, evidence);
  return formatRule(job, { ...applied, used: used.length, limit, ...(isRuleLimit && { isRuleLimit: true }) });
}

/** The newest ended attempt, if its log can explain the end. */
export function failedAttempt(job: Job): Attempt | undefined {
  const attempt = job.attempts.findLast(({ ending }) => ending !== null);
  switch (attempt?.ending?.reason) {
    case 'command_failed':
    case 'hung':
    case 'timed_out':
    case 'budget':
    case 'unreachable':
    case 'setup_failed':
      return attempt;
    default:
      return undefined;
  }
}

export function formatEndCause(job: Job, ending: Ending): string {
  const cause = ending.reason === 'command_failed' ? likelyCause(ending.evidence) : null;
  return `${formatEnding(job, ending)}${cause === null ? '' : `; ${cause}`}`;
}

export function newestFailure(
  attempt: Attempt | undefined,
  kind?: TaskFailure['task']['kind'],
): TaskFailure | undefined {
  const failures = (attempt?.failures ?? []).filter(({ task }) => kind === undefined || task.kind === kind);
  return failures.toSorted((one, other) => other.lastAt - one.lastAt)[0];
}

export function formatTask(task: TaskFailure['task']): string {
  const name =
    task.kind === 'step' ? `step ${task.step}` : `${task.kind === 'stop' ? 'stopping' : 'starting'} the command`;
  return `${name} on ${formatWorker(task.worker)}`;
}

export function formatAttemptWorkers(job: Job, attempt: Attempt): string {
  const workers = workersOf(job, attempt);
  if (isOnThisMachine(job.spec) || workers[0] === 'controller') return 'this machine';
  return workers.length === 0 ? 'its workers' : pluralize(workers.length, 'worker');
}

export function withHints(text: string, hints: readonly (string | false | undefined)[]): string {
  const shown = hints.filter((hint) => hint !== undefined && hint !== false);
  return shown.length === 0 ? text : `${text} ${shown.join(' · ')}`;
}

export function stepLogHint(job: Job, attempt: Attempt | undefined): string | undefined {
  const task = newestFailure(attempt, 'step')?.task;
  return task?.kind === 'step' ? `Log: jobman logs ${Number(job.id)} --step ${task.step}` : undefined;
}

/**
 * The budget that ends the job or its kept capacity: one that is used up, else the first to be used up if nothing
 * changes. `at` is now for one that is used up. Undefined if none will be used up.
 */
export function endingBudget({
  budgets = [],
  now,
}: WhyRequest): { readonly at: Instant; readonly clause: string } | undefined {
  const used = usedBudgetOf(budgets);
  if (used !== undefined) return { at: now, clause: `because ${formatBudgetName(used)} is used up` };
  const at = earliest(...budgets.map((one) => budgetEnd(one, now)));
  const next = budgets.find((one) => budgetEnd(one, now) === at);
  if (at === undefined || next === undefined) return undefined;
  return { at, clause: `when ${formatBudgetName(next)} is used up` };
}
