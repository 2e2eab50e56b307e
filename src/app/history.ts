// History: one sentence for each line of it, the same in `history`, in job.log and on the pages.

import type { Event } from '../core/decision.ts';
import type { AllocationState, Job } from '../core/job.ts';
import type { Override } from '../core/spec.ts';
import {
  causeText,
  exitText,
  allowanceText,
  answerWords,
  capacityText,
  cloudWords,
  endText,
  refusalWord,
  ruleText,
  withoutWho,
} from './phrases.ts';
import { countText, lengthText, workerText, reasonWords, sentencePart } from './figures.ts';

export function eventSentence(event: Event, job: Pick<Job, 'spec'>): string {
  switch (event.kind) {
    case 'created': {
      const allowed = allowanceText(job.spec.recovery);
      const sets = (event.overrides ?? []).map(overrideText);
      const changed = sets.length === 0 ? '' : ` with ${sets.join(' ')}`;
      return `created by ${event.by}${changed}; rule ${job.spec.recovery.preset}${allowed === null ? '' : `, ${allowed}`}`;
    }
    case 'asked':
      return `${event.by} said ${event.verb}: ${askedFor(event)}`;
    case 'attempt_created': {
      const wait = event.notBefore - event.at;
      const pause = wait > 0 ? `, in ${lengthText(wait)}` : '';
      const steps = event.commandOnly === true ? ', just the command' : '';
      return `attempt ${event.attempt} on allocation ${event.allocation}: ${startWords[event.how]}, stage ${event.stage}${steps}${pause}`;
    }
    case 'attempt_moved':
      return `attempt ${event.attempt} goes on to allocation ${event.allocation}`;
    case 'allocation_requested':
      return event.ownership === 'owned'
        ? `allocation ${event.allocation} asked: ${capacityText(job, event.place)}, called ${event.name}`
        : `allocation ${event.allocation} is ${event.name}${job.spec.capacity.kind === 'local' ? '' : ', which exists already'}`;
    case 'place_passed_over':
      return `${capacityText(job, event.place)} is passed over (${answerWords(event.answer)}); next is ${capacityText(job, event.next)}`;
    case 'place_skipped':
      return `${capacityText(job, event.place)} has had nothing for another job a moment ago; ${capacityText(job, event.next)} is asked first`;
    case 'allocation_refused': {
      const again = event.nextAt === undefined ? '' : `; asked again in ${lengthText(event.nextAt - event.at)}`;
      return `allocation ${event.allocation} not given (${refusalWord(event.error)}): ${sentencePart(event.error.message)}${again}`;
    }
    case 'allocation_seen': {
      const workers = event.workers === undefined ? '' : ` with ${countText(event.workers, 'worker')}`;
      return `allocation ${event.allocation} ${stateWords[event.state]}${workers}${inBrackets(event.detail)}`;
    }
    case 'allocation_released':
      return `allocation ${event.allocation} is let go: ${sentencePart(event.why)}`;
    case 'allocation_gone':
      return `allocation ${event.allocation} seen gone`;
    case 'step_failed':
      return `${event.attempt === undefined ? '' : `attempt ${event.attempt}: `}setup step ${event.step} failed on worker ${event.worker}, try ${event.tries} of ${job.spec.limits.setupTries}: ${sentencePart(event.detail)}`;
    case 'step_by_hand': {
      const again = event.force ? ' anew' : '';
      const holds = event.workers - event.failed.length;
      const failures = event.failed.map(({ worker, detail }) => `; not on worker ${worker}: ${sentencePart(detail)}`);
      return `${event.by} had setup step ${event.step} gone through${again}; it holds on ${holds} of ${countText(event.workers, 'worker')}${failures.join('')}`;
    }
    case 'attempt_started':
      return `attempt ${event.attempt} started on ${placesText(event.workers)}`;
    case 'attempt_running':
      return `attempt ${event.attempt} runs`;
    case 'exit_seen':
      return `the program has ended on ${workerText(event.worker)}: ${exitText(event)}; what did it is not known yet`;
    case 'attempt_ending':
      return event.reason === 'succeeded'
        ? `attempt ${event.attempt} has done its work${afterComma(event.evidence.detail)}`
        : `attempt ${event.attempt} is being ended: ${reasonWords[event.reason]}${afterComma(causeText(job.spec, event.reason, event.evidence))}`;
    case 'attempt_ended':
      return `attempt ${event.attempt} ended: ${reasonWords[event.reason]}${afterComma(endText(job, event))}`;
    case 'rule_applied':
      return `rule ${ruleText(job, event)}`;
    case 'silent': {
      const who = event.worker === undefined ? `allocation ${event.allocation}` : workerText(event.worker);
      return `${who} does not answer${inBrackets(withoutWho(event.detail, who))}`;
    }
    case 'answering':
      return event.who === 'workers' ? 'every worker answers again' : `allocation ${event.allocation} answers again`;
    case 'clock_set_back':
      return "this machine's clock was set back; what was noted while it was ahead counts from now";
    case 'settled':
      return event.verdict === 'failed' ? `failed: ${reasonWords[event.reason]}` : event.verdict;
    case 'removed':
      return 'taken off the list; its history and logs are kept';
  }
}

/** The cloud's answer in its own words, for `tpu.log`; null for an event that is not an answer of a cloud. */
export function cloudAnswer(event: Event, job: Pick<Job, 'allocations'>): string | null {
  if (!('allocation' in event)) return null;
  const name = job.allocations[event.allocation - 1]?.name ?? `allocation ${event.allocation}`;
  switch (event.kind) {
    case 'allocation_refused':
      return `${name} refused (${refusalWord(event.error)}): ${sentencePart(event.error.message)}${cloudWords(event.error)}`;
    case 'allocation_seen':
      return `${name} ${stateWords[event.state]}${inBrackets(event.detail)}`;
    case 'allocation_gone':
      return `${name} is gone`;
    default:
      return null;
  }
}

function overrideText({ key, value }: Override): string {
  return `--set ${key}=${value.replaceAll(/\s+/g, ' ')}`;
}

const runWords = {
  fresh: 'it is to run',
  resume: 'it is to go on from its last checkpoint',
  rerun: 'it is to run from the beginning',
} as const;

const startWords = { fresh: 'a fresh start', resume: 'resumes', rerun: 'from the beginning' } as const;

const stateWords: Readonly<Record<AllocationState, string>> = {
  absent: 'is not there',
  waiting: 'waits for capacity',
  provisioning: 'is being made',
  ready: 'is ready',
  interrupted: 'is interrupted and will come back',
  lost: 'is lost',
  releasing: 'is being released',
  foreign: 'is a name that somebody else uses',
};

function askedFor(event: Extract<Event, { readonly kind: 'asked' }>): string {
  if (event.verb === 'last') return 'what is under way is the last attempt, whatever the rules say';
  if (event.verb === 'judge') return 'the end of its program is judged without waiting for the cloud';
  switch (event.desired) {
    case 'run':
      return runWords[event.how ?? 'fresh'];
    case 'hold':
      // Whether it can be kept, the cloud decides: a preemption may not have been seen yet.
      return event.keepsNothing === true
        ? 'the program is to end; there is no capacity to keep'
        : 'the program is to end, and the capacity is to be kept';
    case 'end':
      return 'the program is to end, the capacity is released';
    case 'delete':
      return 'it is to end and leave the list once its capacity is gone';
  }
}

function placesText(workers: readonly (number | 'here')[]): string {
  const [only] = workers;
  return workers.length === 1 && only !== undefined ? workerText(only) : countText(workers.length, 'worker');
}

function afterComma(text: string): string {
  const part = sentencePart(text);
  return part === '' ? '' : `, ${part}`;
}

function inBrackets(text: string): string {
  const part = sentencePart(text);
  return part === '' ? '' : ` (${part})`;
}
