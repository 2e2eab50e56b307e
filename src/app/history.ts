// History: one sentence per event, the same in `history`, in job.log and on the pages.

import type { Event } from '../core/model/event.ts';
import type { AllocationState, Job } from '../core/model/job.ts';
import type { Override } from '../core/model/spec.ts';
import {
  formatCause,
  formatExit,
  formatBudget,
  formatCapacityAnswer,
  formatCapacity,
  formatRawError,
  formatEnding,
  formatCloudError,
  formatRule,
  withoutSubject,
} from './phrases.ts';
import { pluralize, formatDuration, formatWorker, reasonPhrases, asClause } from './format.ts';

export function describeEvent(event: Event, job: Pick<Job, 'spec'>): string {
  switch (event.kind) {
    case 'created': {
      const allowed = formatBudget(job.spec.recovery);
      const sets = (event.overrides ?? []).map(formatOverride);
      const changed = sets.length === 0 ? '' : ` with ${sets.join(' ')}`;
      return `created by ${event.by}${changed}; rule ${job.spec.recovery.preset}${allowed === null ? '' : `, ${allowed}`}`;
    }
    case 'command_received':
      return `${event.by} said ${event.verb}: ${describeCommand(event)}`;
    case 'attempt_created': {
      const wait = event.notBeforeAt - event.at;
      const pause = wait > 0 ? `, in ${formatDuration(wait)}` : '';
      const steps = event.commandOnly === true ? ', just the command' : '';
      return `attempt ${event.attempt} on allocation ${event.allocation}: ${startModePhrases[event.startMode]}, stage ${event.stage}${steps}${pause}`;
    }
    case 'attempt_moved':
      return `attempt ${event.attempt} goes on to allocation ${event.allocation}`;
    case 'allocation_requested':
      return event.ownership === 'ephemeral'
        ? `allocation ${event.allocation} asked: ${formatCapacity(job, event.alternative)}, called ${event.name}`
        : `allocation ${event.allocation} is ${event.name}${job.spec.capacity.kind === 'local' ? '' : ', which exists already'}`;
    case 'alternative_exhausted':
      return `${formatCapacity(job, event.alternative)} is passed over (${formatCapacityAnswer(event.answer)}); next is ${formatCapacity(job, event.next)}`;
    case 'alternative_skipped':
      return `${formatCapacity(job, event.alternative)} has had nothing for another job a moment ago; ${formatCapacity(job, event.next)} is asked first`;
    case 'allocation_refused': {
      const again = event.nextAt === undefined ? '' : `; asked again in ${formatDuration(event.nextAt - event.at)}`;
      return `allocation ${event.allocation} not given (${formatCloudError(event.error)}): ${asClause(event.error.message)}${again}`;
    }
    case 'allocation_seen': {
      const workers = event.workers === undefined ? '' : ` with ${pluralize(event.workers, 'worker')}`;
      return `allocation ${event.allocation} ${statePhrases[event.state]}${workers}${inParentheses(event.message)}`;
    }
    case 'allocation_released':
      return `allocation ${event.allocation} is let go: ${asClause(event.message)}`;
    case 'allocation_gone':
      return `allocation ${event.allocation} seen gone`;
    case 'step_failed':
      return `${event.attempt === undefined ? '' : `attempt ${event.attempt}: `}setup step ${event.step} failed on worker ${event.worker}, try ${event.tries} of ${job.spec.limits.setupTries}: ${asClause(event.message)}`;
    case 'step_run_manually': {
      const again = event.force ? ' anew' : '';
      const holds = event.workers - event.failed.length;
      const failures = event.failed.map(
        ({ worker, message: detail }) => `; not on worker ${worker}: ${asClause(detail)}`,
      );
      return `${event.by} had setup step ${event.step} gone through${again}; it holds on ${holds} of ${pluralize(event.workers, 'worker')}${failures.join('')}`;
    }
    case 'attempt_started':
      return `attempt ${event.attempt} started on ${formatWorkers(event.workers)}`;
    case 'attempt_running':
      return `attempt ${event.attempt} runs`;
    case 'exit_seen':
      return `the program has ended on ${formatWorker(event.worker)}: ${formatExit(event)}; what did it is not known yet`;
    case 'attempt_ending':
      return event.reason === 'succeeded'
        ? `attempt ${event.attempt} has done its work${withComma(event.evidence.message)}`
        : `attempt ${event.attempt} is being ended: ${reasonPhrases[event.reason]}${withComma(formatCause(job.spec, event.reason, event.evidence))}`;
    case 'attempt_ended':
      return `attempt ${event.attempt} ended: ${reasonPhrases[event.reason]}${withComma(formatEnding(job, event))}`;
    case 'rule_applied':
      return `rule ${formatRule(job, event)}`;
    case 'unreachable': {
      const who = event.worker === undefined ? `allocation ${event.allocation}` : formatWorker(event.worker);
      return `${who} does not answer${inParentheses(withoutSubject(event.message, who))}`;
    }
    case 'reachable':
      return event.who === 'workers' ? 'every worker answers again' : `allocation ${event.allocation} answers again`;
    case 'clock_set_back':
      return "this machine's clock was set back; what was noted while it was ahead counts from now";
    case 'finished':
      return event.verdict === 'failed' ? `failed: ${reasonPhrases[event.reason]}` : event.verdict;
    case 'removed':
      return 'taken off the list; its history and logs are kept';
  }
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
      return `${name} is gone`;
    default:
      return null;
  }
}

function formatOverride({ key, value }: Override): string {
  return `--set ${key}=${value.replaceAll(/\s+/g, ' ')}`;
}

const requestPhrases = {
  fresh: 'it is to run',
  resume: 'it is to go on from its last checkpoint',
  rerun: 'it is to run from the beginning',
} as const;

const startModePhrases = { fresh: 'a fresh start', resume: 'resumes', rerun: 'from the beginning' } as const;

const statePhrases: Readonly<Record<AllocationState, string>> = {
  absent: 'is not there',
  waiting: 'waits for capacity',
  provisioning: 'is being made',
  ready: 'is ready',
  interrupted: 'is interrupted and will come back',
  lost: 'is lost',
  releasing: 'is being released',
  foreign: 'is a name that somebody else uses',
};

function describeCommand(event: Extract<Event, { readonly kind: 'command_received' }>): string {
  if (event.verb === 'disable-recovery') return 'what is under way is the last attempt, whatever the rules say';
  if (event.verb === 'accept-exit') return 'the end of its program is judged without waiting for the cloud';
  switch (event.desired) {
    case 'running':
      return requestPhrases[event.startMode ?? 'fresh'];
    case 'stopped':
      // The cloud decides if the capacity can be kept: a preemption may not be observed yet.
      return event.keepsNothing === true
        ? 'the program is to end; there is no capacity to keep'
        : 'the program is to end, and the capacity is to be kept';
    case 'cancelled':
      return 'the program is to end, the capacity is released';
    case 'deleted':
      return 'it is to end and leave the list once its capacity is gone';
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

function inParentheses(text: string): string {
  const part = asClause(text);
  return part === '' ? '' : ` (${part})`;
}
