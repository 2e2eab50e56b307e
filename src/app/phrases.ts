// Phrases: parts of sentences that history, `why`, the rows of a list and the screens say in the same words.

import type { CloudError, CloudErrorKind, Evidence, Job, PlaceAnswer } from '../core/job.ts';
import { vanishedWords } from '../core/evidence.ts';
import { capacityAt } from '../core/place.ts';
import { budgetLimit, budgetOf, type Budget } from '../core/recover.ts';
import type { LocalSpec, Reason, RecoverySpec, TpuSpec, WorkdirSpec } from '../core/spec.ts';
import { causeText, type Spec } from './cause.ts';
import { countText, joinedText, workerText } from './figures.ts';
import { reasonWords, sentencePart } from './reason-words.ts';

/** The reason of that end. A worker that answered and had lost the program was never out of reach, so that has its own words. */
export function endWords({ reason, evidence }: { readonly reason: Reason; readonly evidence: Evidence }): string {
  const hasVanished = reason === 'unreachable' && evidence.detail.startsWith(vanishedWords);
  return hasVanished ? 'program vanished' : reasonWords[reason];
}

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

/** The cloud's own words behind ours for a refusal: `; the cloud said: …`; empty where ours have them. */
export function cloudWords({ message, raw }: CloudError): string {
  return raw === '' || message.includes(raw) ? '' : `; the cloud said: ${sentencePart(raw)}`;
}

/** The class of a refusal in a word or two. */
export function refusalWord({ kind, noLogin }: CloudError): string {
  return noLogin === true ? 'no login' : refusalWords[kind];
}

/** The folder of this machine that a job here starts in; with `job.workdir` its program sees a copy of that one. */
export function startText(copied: WorkdirSpec | undefined, local: LocalSpec): string {
  return copied === undefined ? local.workdir : `a copy of ${copied.from}`;
}

/** `v4-16`, or for a multislice `2 × v4-16`. */
export function acceleratorText({ accelerator, nodeCount }: Pick<TpuSpec, 'accelerator' | 'nodeCount'>): string {
  return nodeCount === undefined ? accelerator : `${nodeCount} × ${accelerator}`;
}

/** `v5litepod-16 spot in us-west4-a`, or `this machine`; of the place with that number among the spec's own. */
export function capacityText(job: Pick<Job, 'spec'>, place = 0): string {
  const capacity = capacityAt(job.spec.capacity, place);
  switch (capacity.kind) {
    case 'local':
      return 'this machine';
    case 'tpu':
      return `${acceleratorText(capacity)} ${capacity.pricing} in ${capacity.zone}`;
  }
}

/** The answer of a place that had nothing to give. */
export function answerWords(answer: PlaceAnswer): string {
  return answer === 'waiting' ? 'it let the request wait for too long' : refusalWords[answer];
}

/** `1000 preemptions and 3 failures allowed`: the budgets that some rule goes on under; null when none goes on. */
export function allowanceText(recovery: RecoverySpec): string | null {
  const { rules, budget } = recovery;
  const isUsed = (of: Budget) =>
    rules.some(
      ({ reason, answer }) => budgetOf(reason) === of && (answer.then === 'resume' || answer.then === 'rerun'),
    );
  const parts = [
    ...(isUsed('preemptions') ? [countText(budget.preemptions, 'preemption')] : []),
    ...(isUsed('failures') ? [countText(budget.failures, 'failure')] : []),
    ...(isUsed('setupFailures')
      ? [`${countText(budgetLimit(recovery, 'setupFailures'), 'setup failure')} in a row`]
      : []),
  ];
  return parts.length === 0 ? null : `${joinedText(parts)} allowed`;
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

/** The evidence of an end: its cause, the line of the log that said so, and the cloud's own words. */
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

/** Words of a failed look without the name of who was looked at, where the sentence has it already. */
export function withoutWho(words: string, who: string): string {
  return words.startsWith(`${who}: `) ? words.slice(who.length + 2) : words;
}
