// History: one sentence for each line of it, the same in `history`, in job.log and on the pages.

import type { Event } from '../core/decision.ts';
import type { AllocationState, CloudErrorKind, Evidence, Job, PlaceAnswer } from '../core/job.ts';
import { capacityAt } from '../core/place.ts';
import { budgetOf, type Budget } from '../core/recover.ts';
import type { Reason, RecoverySpec } from '../core/spec.ts';
import { causeText, exitText, type Spec } from './cause.ts';
import { countText, lengthText, workerText } from './figures.ts';

/** What happened, in words. `job` gives the names of what the event speaks of by number; any later state of it will do. */
export function eventSentence(event: Event, job: Pick<Job, 'spec'>): string {
  switch (event.kind) {
    case 'created': {
      const allowed = allowanceText(job.spec.recovery);
      return `created by ${event.by}; rule ${job.spec.recovery.preset}${allowed === null ? '' : `, ${allowed}`}`;
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
      return `allocation ${event.allocation} not given (${refusalWords[event.error.kind]}): ${sentencePart(event.error.message)}${again}`;
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
      return `setup step ${event.step} failed on worker ${event.worker}, try ${event.tries}: ${sentencePart(event.detail)}`;
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
      return `allocation ${event.allocation} answers again`;
    case 'settled':
      return event.verdict === 'failed' ? `failed: ${reasonWords[event.reason]}` : event.verdict;
    case 'removed':
      return 'taken off the list; its history and logs are kept';
  }
}

/** `1000 preemptions and 3 failures allowed`: the budgets that some rule goes on under; null when none goes on. */
export function allowanceText({ rules, budget }: RecoverySpec): string | null {
  const isUsed = (of: Budget) =>
    rules.some(
      ({ reason, answer }) => budgetOf(reason) === of && (answer.then === 'resume' || answer.then === 'rerun'),
    );
  const parts = [
    ...(isUsed('preemptions') ? [countText(budget.preemptions, 'preemption')] : []),
    ...(isUsed('failures') ? [countText(budget.failures, 'failure')] : []),
  ];
  return parts.length === 0 ? null : `${parts.join(' and ')} allowed`;
}

/** `pre: preempted -> new allocation, resume (4 of 100 used)`: a row of the rules, and how much of its budget is used. */
export function ruleText(
  job: Pick<Job, 'spec'>,
  applied: {
    readonly reason: Reason;
    readonly then: string;
    readonly on: string;
    readonly used: number;
    readonly limit: number;
    /** The log pattern that the row names; two rows may speak of one reason. */
    readonly pattern?: string | undefined;
    readonly exitCode?: number | undefined;
    readonly worker?: number | undefined;
    readonly isOwn?: true | undefined;
  },
): string {
  const { reason, then, on, used, limit, pattern, exitCode, worker, isOwn } = applied;
  const named = [
    ...(exitCode === undefined ? [] : [`exit code ${exitCode}`]),
    ...(worker === undefined ? [] : [workerText(worker)]),
    ...(pattern === undefined ? [] : [`its log says ${pattern}`]),
  ];
  const log = named.length === 0 ? '' : ` (${named.join(', ')})`;
  const own = isOwn === true ? ' of this rule' : '';
  const goesOn = then === 'resume' || then === 'rerun';
  const answer = goesOn ? `${on} allocation, ${then}` : then;
  // An end that no rule goes on after uses up nothing; one that a budget forbids to go on after says so.
  const isUsedUp = limit > 0 && used > limit;
  const budget =
    goesOn && limit > 0 ? ` (${used} of ${limit}${own} used)` : isUsedUp ? ` (all ${limit}${own} are used up)` : '';
  return `${job.spec.recovery.preset}: ${reasonWords[reason]}${log} -> ${answer}${budget}`;
}

/** What an end rests on: its cause, the line of the log that said so, and the cloud's own words. */
export function endText(
  job: { readonly spec: Spec },
  { reason, evidence }: { readonly reason: Reason; readonly evidence: Evidence },
): string {
  return evidenceText({ ...evidence, detail: causeText(job.spec, reason, evidence) });
}

/** The same where nobody knows of which job it was. */
export function evidenceText(evidence: Evidence): string {
  const line = evidence.line === undefined ? '' : `; its log says "${evidence.line.trim()}"`;
  const raw =
    evidence.raw === undefined || evidence.detail.includes(evidence.raw) ? '' : `; it says "${evidence.raw.trim()}"`;
  return `${sentencePart(evidence.detail)}${line}${raw}`;
}

/** What a place came to that had nothing to give. */
function answerWords(answer: PlaceAnswer): string {
  return answer === 'waiting' ? 'it let the request wait for too long' : refusalWords[answer];
}

/** `v5litepod-16 spot in us-west4-a`, or `this machine`; of the place with that number among the spec's own. */
export function capacityText(job: Pick<Job, 'spec'>, place = 0): string {
  const capacity = capacityAt(job.spec.capacity, place);
  switch (capacity.kind) {
    case 'local':
      return 'this machine';
    case 'tpu':
      return `${capacity.accelerator} ${capacity.pricing} in ${capacity.zone}`;
  }
}

/** Reasons as words of a sentence. */
export const reasonWords: Readonly<Record<Reason, string>> = {
  succeeded: 'succeeded',
  stopped: 'stopped',
  preempted: 'preempted',
  unreachable: 'unreachable',
  allocation_failed: 'allocation failed',
  setup_failed: 'setup failed',
  command_failed: 'command failed',
  hung: 'hung',
  timed_out: 'timed out',
};

/** The classes of a cloud's refusal as words of a sentence. */
export const refusalWords: Readonly<Record<CloudErrorKind, string>> = {
  quota: 'over quota',
  stockout: 'no capacity',
  permission: 'not allowed',
  invalid: 'not valid',
  rate_limited: 'asked too often',
  not_found: 'not found',
  internal: 'an error of the cloud',
  unreachable: 'the cloud did not answer',
};

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
  switch (event.desired) {
    case 'run':
      return runWords[event.how ?? 'fresh'];
    case 'hold':
      return 'the program is to end, the capacity is kept';
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

/** A text of others as a part of our sentence: in one line and without its full stop. */
export function sentencePart(text: string): string {
  return text.trim().replaceAll(/\s+/g, ' ').replace(/\.$/, '');
}

/** Words of a failed look without the name of who was looked at, where the sentence has it already. */
export function withoutWho(words: string, who: string): string {
  return words.startsWith(`${who}: `) ? words.slice(who.length + 2) : words;
}

/** For evidence, which has brackets of its own. */
function afterComma(text: string): string {
  const part = sentencePart(text);
  return part === '' ? '' : `, ${part}`;
}

function inBrackets(text: string): string {
  const part = sentencePart(text);
  return part === '' ? '' : ` (${part})`;
}
