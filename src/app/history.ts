// History: one sentence per event, the same in `history`, in job.log and on the pages.

import { formatWorker, operationOf } from '../core/model/spec.ts';
import type { Event } from '../core/model/event.ts';
import type { AllocationState, Job } from '../core/model/job.ts';
import {
  formatCause,
  formatExit,
  formatBudget,
  formatBudgetName,
  formatCapacityAnswer,
  formatCapacity,
  formatRawError,
  formatEnding,
  formatCloudError,
  formatRule,
  withoutSubject,
  phrasesOf,
} from './phrases.ts';
import { pluralize, formatDuration, formatUsd, formatUsdOf, reasonPhrases, asClause } from './format.ts';

export function describeEvent(event: Event, job: Pick<Job, 'spec'>): string {
  switch (event.kind) {
    case 'created': {
      const allowed = formatBudget(job.spec.recovery);
      const sets = (event.overrides ?? []).map(({ key, value }) => `--set ${key}=${value.replaceAll(/\s+/g, ' ')}`);
      const changed = sets.length === 0 ? '' : ` with ${sets.join(' ')}`;
      return `created by ${event.by}${changed}; recovery ${job.spec.recovery.preset}${allowed === null ? '' : `: ${allowed}`}`;
    }
    case 'command_received':
      return `${event.by} requested ${event.verb}: ${describeCommand(event)}${event.budgetUsd === undefined ? '' : `, with a budget of ${formatUsd(event.budgetUsd)}`}`;
    case 'attempt_created': {
      const wait = event.notBeforeAt - event.at;
      const pause = wait > 0 ? `, starts in ${formatDuration(wait)}` : '';
      const steps = event.commandOnly === true ? ', without setup' : '';
      return `attempt ${event.attempt} created: ${startModePhrases[event.startMode]}, stage ${event.stage}, for allocation ${event.allocation}${steps}${pause}`;
    }
    case 'attempt_moved':
      return `attempt ${event.attempt} moved to allocation ${event.allocation}`;
    case 'allocation_requested':
      return event.ownership === 'ephemeral' || isCreatedByOperation(job, event.allocation)
        ? `allocation ${event.allocation} requested: ${formatCapacity(job, event.alternative)}, named ${event.name}`
        : `allocation ${event.allocation} is ${phrasesOf(job).existing}${event.name}`;
    case 'alternative_exhausted':
      return `skipped ${formatCapacity(job, event.alternative)} (${formatCapacityAnswer(event.answer)}); next: ${formatCapacity(job, event.next)}`;
    case 'alternative_skipped':
      return `skipped ${formatCapacity(job, event.alternative)} (no capacity for another job just now); next: ${formatCapacity(job, event.next)}`;
    case 'allocation_refused': {
      const again = event.nextAt === undefined ? '' : `; retry in ${formatDuration(event.nextAt - event.at)}`;
      return `allocation ${event.allocation} refused (${formatCloudError(event.error)}): ${asClause(event.error.message)}${again}`;
    }
    case 'allocation_seen': {
      const workers = event.workers === undefined ? '' : ` with ${pluralize(event.workers, 'worker')}`;
      const slices = event.slices ?? [];
      const ready = slices.filter((state) => state === 'ready').length;
      const part = slices.length > 1 ? `, ${ready} of ${slices.length} slices ready` : '';
      return `allocation ${event.allocation} ${statePhrases[event.state]}${workers}${part}${inParentheses(event.message)}`;
    }
    case 'allocation_released':
      return `allocation ${event.allocation} released: ${asClause(event.message)}`;
    case 'allocation_gone':
      return `allocation ${event.allocation} ${operationOf(job.spec)?.kind === 'restart' ? 'stopped' : 'deleted'}`;
    case 'orphan_seen': {
      const isReady = event.slices.includes('ready');
      const orphan = event.alternative === undefined ? '' : ` (${formatCapacity(job, event.alternative)})`;
      return `allocation ${event.allocation}, an orphan${orphan}, ${isReady ? 'is ready and costs money' : 'is not ready any more'}`;
    }
    case 'step_failed':
      return `${event.attempt === undefined ? '' : `attempt ${event.attempt}: `}setup step ${event.step} failed on worker ${event.worker} (try ${event.tries} of ${job.spec.limits.setupTries}): ${asClause(event.message)}`;
    case 'step_run_manually': {
      const forced = event.force ? ' with --force' : '';
      const done = event.workers - event.failed.length;
      const failures = event.failed.map(({ worker, message }) => `; failed on worker ${worker}: ${asClause(message)}`);
      return `${event.by} ran setup step ${event.step}${forced}: done on ${done} of ${pluralize(event.workers, 'worker')}${failures.join('')}`;
    }
    case 'attempt_started':
      return `attempt ${event.attempt} started on ${formatWorkers(event.workers)}`;
    case 'attempt_running':
      return `attempt ${event.attempt} is running`;
    case 'attempt_resumed':
      return event.entry === null || event.savedAt === null
        ? `attempt ${event.attempt} found no checkpoint`
        : `attempt ${event.attempt} continues from ${event.entry}, saved ${formatDuration(Math.max(0, event.at - event.savedAt))} before`;
    case 'exit_seen':
      return `the program exited on ${formatWorker(event.worker)}: ${formatExit(event)}; the cause is not known yet`;
    case 'attempt_ending':
      return event.reason === 'succeeded'
        ? `attempt ${event.attempt} succeeded${withComma(event.evidence.message)}`
        : `ending attempt ${event.attempt}: ${reasonPhrases[event.reason]}${withComma(formatCause(job.spec, event.reason, event.evidence))}`;
    case 'attempt_ended':
      return `attempt ${event.attempt} ended: ${reasonPhrases[event.reason]}${withComma(formatEnding(job, event))}`;
    case 'rule_applied':
      return `rule ${formatRule(job, event)}`;
    case 'unreachable': {
      if (event.worker === undefined && !phrasesOf(job).hasCloud)
        return `allocation ${event.allocation} is unknown: ${event.message}`;
      const who = event.worker === undefined ? `allocation ${event.allocation}` : formatWorker(event.worker);
      if (event.who !== undefined) return `${who} cannot be checked: ${event.message}`;
      return `${who} does not answer${inParentheses(withoutSubject(event.message, who))}`;
    }
    case 'reachable':
      return event.who === 'workers' ? 'every worker answers again' : `allocation ${event.allocation} answers again`;
    case 'clock_set_back':
      return 'the clock of this machine was set back; times in the future count as now';
    case 'budget_warning':
      return `${formatUsdOf(event.spentUsd, event.budgetUsd)} have been used (${formatBudgetName(event)})`;
    case 'finished':
      return event.verdict === 'failed' ? `failed: ${reasonPhrases[event.reason]}` : event.verdict;
    case 'removed':
      return 'removed from the list; its history and logs are kept';
  }
}

function isCreatedByOperation({ spec }: Pick<Job, 'spec'>, allocation: number): boolean {
  const kind = operationOf(spec)?.kind;
  return kind === 'create' || (kind === 'recreate' && allocation > 1);
}

/** A preempted TPU is first SUSPENDING, then SUSPENDED, which is one loss. */
export function withoutRepeatedLosses(events: readonly Event[]): readonly Event[] {
  const states = new Map<number, AllocationState>();
  return events.filter((event) => {
    if (event.kind !== 'allocation_seen') return true;
    const before = states.get(event.allocation);
    states.set(event.allocation, event.state);
    return event.state !== 'lost' || before !== 'lost';
  });
}

/** The cloud's answer for `tpu.log`; null for any other event. */
export function describeCloudAnswer(event: Event, job: Pick<Job, 'allocations'>): string | null {
  if (!('allocation' in event)) return null;
  const name = job.allocations[event.allocation - 1]?.name ?? `allocation ${event.allocation}`;
  switch (event.kind) {
    case 'allocation_refused':
      return `${name} refused (${formatCloudError(event.error)}): ${asClause(event.error.message)}${formatRawError(event.error)}`;
    case 'allocation_seen':
      return `${name} ${statePhrases[event.state]}${inParentheses(event.message)}`;
    case 'allocation_gone':
      return `${name} is deleted`;
    default:
      return null;
  }
}

const requestPhrases = {
  fresh: 'run the job',
  resume: 'continue from the last checkpoint',
  rerun: 'run from the beginning',
} as const;

const startModePhrases = { fresh: 'fresh start', resume: 'resume', rerun: 'rerun' } as const;

const statePhrases: Readonly<Record<AllocationState, string>> = {
  absent: 'does not exist',
  waiting: 'waits for capacity',
  provisioning: 'is being created',
  ready: 'is ready',
  interrupted: 'is interrupted and will come back',
  lost: 'is lost',
  releasing: 'is being deleted',
  foreign: 'has the name of another resource',
};

function describeCommand(event: Extract<Event, { readonly kind: 'command_received' }>): string {
  if (event.verb === 'disable-recovery') return 'this attempt is the last one';
  if (event.verb === 'accept-exit') return 'accept the exit without waiting for the cloud';
  switch (event.desired) {
    case 'running':
      return requestPhrases[event.startMode ?? 'fresh'];
    case 'stopped':
      // The cloud decides if the capacity can be kept: a preemption may not be observed yet.
      return event.keepsNothing === true
        ? 'end the program; there is no capacity to keep'
        : 'end the program and keep the capacity';
    case 'cancelled':
      return 'end the program and release the capacity';
    case 'deleted':
      return 'end the program, release the capacity and leave the list';
  }
}

function formatWorkers(workers: readonly (number | 'controller')[]): string {
  const [only] = workers;
  return workers.length === 1 && only !== undefined ? formatWorker(only) : pluralize(workers.length, 'worker');
}

function withComma(text: string): string {
  const part = asClause(text);
  return part === '' ? '' : `, ${part}`;
}

export function inParentheses(text: string): string {
  const part = asClause(text);
  return part === '' ? '' : ` (${part})`;
}
