// Phrases: parts of sentences that history, `why`, the rows of a list and the screens say in the same words.

import {
  capacityOf,
  type CloudError,
  type CloudErrorKind,
  type Evidence,
  type Job,
  type PlaceAnswer,
} from '../core/job.ts';
import { vanishedWords } from '../core/evidence.ts';
import {
  capacityAt,
  type LocalSpec,
  type Reason,
  type RecoverySpec,
  type TpuSpec,
  type WorkdirSpec,
  type JobSpec,
  builtInProject,
  type CapacitySpec,
} from '../core/spec.ts';
import { budgetLimit, budgetOf, type Budget } from '../core/recover.ts';
import { countText, joinedText, workerText, lengthText, priceText, reasonWords, sentencePart } from './figures.ts';
import { patterns } from '../core/log-lines.ts';
import { hour, type Instant } from '../core/time.ts';

/** The reason of that end. A worker that answered and had lost the program was never out of reach, so that has its own words. */
export function endWords({ reason, evidence }: { readonly reason: Reason; readonly evidence: Evidence }): string {
  const hasVanished = reason === 'unreachable' && evidence.detail.startsWith(vanishedWords);
  return hasVanished ? 'program vanished' : reasonWords[reason];
}

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

// ------------------------------------------------------------------------------------------ causes

export type Spec = Pick<JobSpec, 'limits' | 'capacity'>;

/** `no output on any worker for 30m (job.silence_timeout)`, `killed by SIGKILL (exit code 137) on worker 3`. */
export function causeText(spec: Spec, reason: Reason, evidence: Evidence): string {
  const { limits, capacity } = spec;
  const isPlain = evidence.worker === undefined || capacity.kind === 'local';
  const where = isPlain ? '' : ` on ${workerText(evidence.worker)}`;
  switch (reason) {
    case 'hung':
      return limits.silenceTimeout === null || evidence.pattern !== undefined
        ? evidence.detail
        : `no output${capacity.kind === 'local' ? '' : ' on any worker'} for ${lengthText(limits.silenceTimeout)} (job.silence_timeout)`;
    case 'timed_out':
      return limits.maxRuntime === null
        ? evidence.detail
        : `it ran for ${lengthText(limits.maxRuntime)}, which is all that it may (job.max_runtime)`;
    case 'command_failed':
      if (evidence.exitCode === undefined && evidence.signal === undefined) return evidence.detail;
      return `${exitText(evidence)}${where}`;
    case 'succeeded':
    case 'stopped':
    case 'preempted':
    case 'unreachable':
    case 'allocation_failed':
    case 'setup_failed':
      return evidence.detail;
  }
}

/** `killed by SIGKILL (exit code 137)`; a shell tells a signal as 128 and its number, and so do we. */
export function exitText({ signal, exitCode }: Pick<Evidence, 'signal' | 'exitCode'>): string {
  const code = exitCode === undefined ? '' : `exit code ${exitCode}`;
  return signal === undefined ? code : `killed by SIG${signal}${code === '' ? '' : ` (${code})`}`;
}

/** The usual reason of such an end; a guess that holds mostly. Null where the words say it themselves. */
export function mostlyMeans({ pattern, signal, exitCode }: Evidence): string | null {
  // Its own words are the better witness.
  const said = patterns.find(({ name }) => name === pattern);
  if (said !== undefined) return said.means;
  if (signal !== undefined) return signalsMean[signal] ?? null;
  return exitCode === undefined ? null : (codesMean[exitCode] ?? null);
}

/** Sources: signal(7) for what sends each; the kernel's memory killer sends SIGKILL. */
const signalsMean: Readonly<Record<string, string>> = {
  KILL: 'mostly the machine ran out of memory, or somebody killed it',
  TERM: 'somebody, or the machine going down, asked it to end',
  INT: 'somebody interrupted it',
  HUP: 'the session that it belonged to ended',
  SEGV: 'it touched memory that is not its own: a mistake in compiled code, mostly a library',
  BUS: 'it touched memory that is not there: mostly a file that was cut, or full shared memory',
  ABRT: 'it gave up by itself: what it printed last says why',
  ILL: 'it was built for another processor than this one',
  FPE: 'it divided by zero in compiled code',
  PIPE: 'it wrote to a program that had ended',
  XCPU: 'a limit on its time of computing ended it',
  XFSZ: 'a file of its grew beyond a limit',
};

/** Sources: POSIX, "Exit Status for Commands" (126 and 127 of a shell); timeout(1) of GNU coreutils (124). */
const codesMean: Readonly<Record<number, string>> = {
  124: 'what `timeout` says when it ended a program',
  126: 'something that it called is there and cannot be run',
  127: 'something that it called was not found',
};

// ------------------------------------------------------------------------------------------ cost

/** True for the TPUs of the built-in cloud. They have Google's prices, so that a rehearsal shows what the real thing costs. */
export function isPretended(capacity: Pick<LocalSpec, 'kind'> | Pick<TpuSpec, 'kind' | 'project'>): boolean {
  return capacity.kind === 'tpu' && capacity.project === builtInProject;
}

/** `about $4.00/h`, as a part of a sentence; on the built-in cloud `about $4.00/h at Google and nothing here`. */
export function costText({ pretended }: { readonly pretended: boolean }, pricePerHour: number): string {
  return `about ${priceText(pricePerHour)}${pretended ? ' at Google and nothing here' : ''}`;
}

export function costOf(capacity: CapacitySpec, pricePerHour: number): string {
  return costText({ pretended: isPretended(capacity) }, pricePerHour);
}

/**
 * Dollars that the job's own allocations have cost until now, or until a forced delete; an estimate. Null when no price is known.
 */
export function spentOn(job: Job, now: Instant): number | null {
  const paid = job.allocations.filter(({ ownership, readyAt }) => ownership === 'owned' && readyAt !== null);
  if (paid.length === 0) return null;
  const until = job.removed ? job.desiredAt : now;
  let spent = 0;
  for (const allocation of paid) {
    const capacity = capacityOf(job, allocation);
    if (capacity.kind !== 'tpu' || capacity.pricePerHour === null) return null;
    const held = Math.max(0, (allocation.goneAt ?? until) - (allocation.readyAt ?? until));
    spent += (held / hour) * capacity.pricePerHour;
  }
  return spent;
}
