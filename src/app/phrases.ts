// Phrases: parts of sentences that history, `why`, lists and screens share.

import type { Plan } from './client.ts';
import {
  type CloudError,
  type CloudErrorKind,
  type Evidence,
  type Job,
  type CapacityAnswer,
  type Spending,
} from '../core/model/job.ts';
import { vanishedPrefix } from '../core/decide/evidence.ts';
import {
  capacityAt,
  formatWorker,
  isSimulated,
  type CapacitySpec,
  type JobSpec,
  type Reason,
  type RecoveryRule,
  type RecoverySpec,
  type TpuSpec,
  formatHosts,
  hostNamesOf,
  isOnThisMachine,
  ownHost,
  type BackendName,
} from '../core/model/spec.ts';
import { budgetOf, type BudgetName } from '../core/decide/recover.ts';
import { periodPhrases } from '../core/decide/spending.ts';
import {
  pluralize,
  formatList,
  formatDuration,
  formatPricePerHour,
  formatUsd,
  formatUsdOf,
  reasonPhrases,
  asClause,
} from './format.ts';
import { failurePatterns } from '../core/model/log-lines.ts';

/** A worker that answered without the program was reachable, so that end has its own phrase. */
export function formatEndReason({
  reason,
  evidence,
}: {
  readonly reason: Reason;
  readonly evidence: Evidence;
}): string {
  const hasVanished = reason === 'unreachable' && evidence.message.startsWith(vanishedPrefix);
  return hasVanished ? 'program vanished' : reasonPhrases[reason];
}

/** A host of the job for a command to copy: its name if the job has no other, else `NAME`. */
export function hostArgument({ spec: { capacity } }: Pick<Job, 'spec'>): string {
  const [host = 'NAME', ...others] = hostNamesOf(capacity).filter((name) => name !== ownHost);
  return others.length === 0 ? host : 'NAME';
}

export const errorPhrases: Readonly<Record<CloudErrorKind, string>> = {
  quota: 'over quota',
  stockout: 'no capacity',
  permission: 'not allowed',
  invalid: 'invalid request',
  rate_limited: 'rate limited',
  not_found: 'not found',
  internal: 'cloud error',
  unreachable: 'no answer from the cloud',
};

/** The cloud's own message after ours: `; the cloud said: …`; empty if ours contains it. */
export function formatRawError({ message, raw }: CloudError): string {
  return raw === '' || message.includes(raw) ? '' : `; the cloud said: ${asClause(raw)}`;
}

export function formatCloudError({ kind, noLogin }: CloudError): string {
  return noLogin === true ? 'no login' : errorPhrases[kind];
}

/** `, in /home/ada/train`; empty if the command starts in the login folder or in a container. `from`: the copied folder. */
export function formatStartFolder({ workdir, command }: JobSpec, from: string | undefined): string {
  const folder = workdir === undefined ? command.workdir : `a copy of ${from ?? 'job.workdir'}`;
  return folder === null ? '' : `, in ${folder}`;
}

export function formatAccelerator({ accelerator, nodeCount }: Pick<TpuSpec, 'accelerator' | 'nodeCount'>): string {
  return nodeCount === undefined ? accelerator : `${nodeCount} × ${accelerator}`;
}

/** `v5litepod-16 spot in us-west4-a`, or `this machine`; of that alternative. */
export function formatCapacity(job: Pick<Job, 'spec'>, alternative = 0): string {
  const capacity = capacityAt(job.spec.capacity, alternative);
  switch (capacity.kind) {
    case 'hosts':
      return formatHosts(capacity.hosts);
    case 'tpu':
      return `${formatAccelerator(capacity)} ${capacity.pricing} in ${capacity.zone}`;
  }
}

interface CapacityPhrases {
  /** A cloud answers about it. False: the settings name it, so nothing but the settings can make it unknown. */
  readonly hasCloud: boolean;
  /** Before the name of one that exists before the job. */
  readonly existing: string;
  /** The capacity that a job waits for in a queue, and the end of that wait. */
  readonly awaited: string;
  readonly inUse: string;
  readonly whenFree: string;
  /** The condition under which a silent worker ends an attempt. */
  readonly whileReady: string;
  /** The end that a running job must expect first, whose rule `why` shows. */
  readonly likelyEnd: 'preempted' | 'command_failed';
  readonly withoutPrice: string;
}

/** The phrases for each kind of capacity. */
export const capacityPhrases: Readonly<Record<BackendName, CapacityPhrases>> = {
  hosts: {
    hasCloud: false,
    existing: '',
    awaited: 'a slot',
    inUse: 'no slot is free',
    whenFree: 'An attempt starts when a slot is free. The number of slots: jobman hosts',
    whileReady: '',
    likelyEnd: 'command_failed',
    withoutPrice: 'free: it runs on your own machines',
  },
  tpu: {
    hasCloud: true,
    existing: 'the existing TPU ',
    awaited: 'its TPU',
    inUse: 'its TPU is in use',
    whenFree: 'An attempt starts when the TPU is free.',
    whileReady: ' while the cloud reports the TPU as ready',
    likelyEnd: 'preempted',
    withoutPrice: 'unknown',
  },
};

/** The phrases for the capacity of a job. */
export function phrasesOf({ spec }: Pick<Job, 'spec'>): CapacityPhrases {
  return capacityPhrases[spec.capacity.kind];
}

export function formatCapacityAnswer(answer: CapacityAnswer): string {
  return answer === 'waiting' ? 'waited too long' : errorPhrases[answer];
}

/** `1000 preemptions and 3 failures allowed`; null if no rule continues the job. */
export function formatBudget(recovery: RecoverySpec): string | null {
  const { rules, budget } = recovery;
  const isApplied = (of: BudgetName) =>
    rules.some(
      ({ reason, answer }) => budgetOf(reason) === of && (answer.then === 'resume' || answer.then === 'rerun'),
    );
  const parts = [
    ...(isApplied('preemptions') ? [pluralize(budget.preemptions, 'preemption')] : []),
    ...(isApplied('failures') ? [pluralize(budget.failures, 'failure')] : []),
    ...(isApplied('setupFailures') ? [`${pluralize(recovery.budget.setupFailures, 'setup failure')} in a row`] : []),
  ];
  return parts.length === 0 ? null : `${formatList(parts)} allowed`;
}

/** `pre: preempted -> new allocation, resume (4 of 100 used)`: a recovery rule and the use of its budget. */
export function formatRule(
  job: Pick<Job, 'spec'>,
  applied: {
    readonly reason: Reason;
    readonly then: string;
    readonly on: string;
    readonly used: number;
    readonly limit: number;
    /** The rule's log pattern; two rules may have one reason. */
    readonly pattern?: string | undefined;
    readonly exitCode?: number | undefined;
    readonly worker?: number | undefined;
    readonly isRuleLimit?: true | undefined;
  },
): string {
  const { reason, then, on, used, limit, pattern, exitCode, worker, isRuleLimit } = applied;
  const conditions = formatConditions({
    exitCodes: exitCode === undefined ? [] : [exitCode],
    worker,
    evidence: pattern,
  });
  const log = conditions === '' ? '' : ` (${conditions})`;
  const ofRule = isRuleLimit === true ? ' of this rule' : '';
  const continues = then === 'resume' || then === 'rerun';
  const answer = continues ? `${on} allocation, ${then}` : then;
  // An end without a continuing rule uses no budget; an end beyond the budget says so.
  const isUsedUp = limit > 0 && used > limit;
  const budget =
    continues && limit > 0 ? ` (${used} of ${limit}${ofRule} used)` : isUsedUp ? ` (all ${limit}${ofRule} used)` : '';
  return `${job.spec.recovery.preset}: ${reasonPhrases[reason]}${log} -> ${answer}${budget}`;
}

/** `exit code 3 or 4, worker 0, log matches oom`; empty for a rule without conditions. */
export function formatConditions({
  exitCodes = [],
  worker,
  evidence,
}: {
  readonly [Name in 'exitCodes' | 'worker' | 'evidence']?: RecoveryRule[Name] | undefined;
}): string {
  return [
    ...(exitCodes.length === 0 ? [] : [`exit code ${exitCodes.join(' or ')}`]),
    ...(worker === undefined ? [] : [formatWorker(worker)]),
    ...(evidence === undefined ? [] : [`log matches ${evidence}`]),
  ].join(', ');
}

export function formatEnding(
  job: { readonly spec: CauseSpec },
  { reason, evidence }: { readonly reason: Reason; readonly evidence: Evidence },
): string {
  return formatEvidence({ ...evidence, message: formatCause(job.spec, reason, evidence) });
}

export function formatEvidence(evidence: Evidence): string {
  const line = evidence.line === undefined ? '' : `; its log says "${evidence.line.trim()}"`;
  const raw =
    evidence.raw === undefined || evidence.message.includes(evidence.raw)
      ? ''
      : `; the cloud said "${evidence.raw.trim()}"`;
  return `${asClause(evidence.message)}${line}${raw}`;
}

export function withoutSubject(text: string, subject: string): string {
  return text.startsWith(`${subject}: `) ? text.slice(subject.length + 2) : text;
}

export type CauseSpec = Pick<JobSpec, 'limits' | 'capacity'>;

/** `no output on any worker for 30m (job.silence_timeout)`, `killed by SIGKILL (exit code 137) on worker 3`. */
export function formatCause(spec: CauseSpec, reason: Reason, evidence: Evidence): string {
  const { limits } = spec;
  const isPlain = evidence.worker === undefined || isOnThisMachine(spec);
  const where = isPlain ? '' : ` on ${formatWorker(evidence.worker)}`;
  switch (reason) {
    case 'hung':
      return limits.silenceTimeoutMs === null || evidence.pattern !== undefined
        ? evidence.message
        : `no output${isOnThisMachine(spec) ? '' : ' on any worker'} for ${formatDuration(limits.silenceTimeoutMs)} (job.silence_timeout)`;
    case 'timed_out':
      return limits.maxRuntimeMs === null
        ? evidence.message
        : `reached its time limit of ${formatDuration(limits.maxRuntimeMs)} (job.max_runtime)`;
    case 'budget':
      return evidence.budget === undefined ? evidence.message : formatUsedBudget(evidence.message, evidence.budget);
    case 'command_failed':
      if (evidence.exitCode === undefined && evidence.signal === undefined) return evidence.message;
      return `${formatExit(evidence)}${where}`;
    case 'succeeded':
    case 'stopped':
    case 'preempted':
    case 'unreachable':
    case 'allocation_failed':
    case 'setup_failed':
      return evidence.message;
  }
}

function formatUsedBudget(message: string, { spentUsd, budgetUsd, ownerBudget }: Spending): string {
  return ownerBudget === undefined
    ? `its capacity has cost ${formatUsd(budgetUsd)}, as much as job.budget allows`
    : `${formatUsdOf(spentUsd, budgetUsd)} have been spent: ${message}`;
}

/** `job.budget`, `its owner's budget of spot v4-* for this month`. */
export function formatBudgetName({ ownerBudget }: Pick<Spending, 'ownerBudget'>): string {
  return ownerBudget === undefined
    ? 'job.budget'
    : `its owner's budget of ${ownerBudget.grant} for ${periodPhrases[ownerBudget.period]}`;
}

/** `killed by SIGKILL (exit code 137)`: like a shell, with 128 and the signal's number. */
export function formatExit({ signal, exitCode }: Pick<Evidence, 'signal' | 'exitCode'>): string {
  const code = exitCode === undefined ? '' : `exit code ${exitCode}`;
  return signal === undefined ? code : `killed by SIG${signal}${code === '' ? '' : ` (${code})`}`;
}

/** A guess at the usual cause of such an end; null if the evidence already names it. */
export function likelyCause({ pattern, signal, exitCode }: Evidence): string | null {
  // The program's own output is better evidence than its exit code.
  const matched = failurePatterns.find(({ name }) => name === pattern);
  if (matched !== undefined) return matched.meaning;
  if (signal !== undefined) return signalCauses[signal] ?? null;
  return exitCode === undefined ? null : (exitCodeCauses[exitCode] ?? null);
}

/** Sources: signal(7) for the sender of each; the kernel's out-of-memory killer sends SIGKILL. */
const signalCauses: Readonly<Record<string, string>> = {
  KILL: 'usually the machine ran out of memory, or a user killed the program',
  TERM: 'a user or a shutdown of the machine ended the program',
  INT: 'a user interrupted the program',
  HUP: 'the session of the program ended',
  SEGV: 'invalid memory access in compiled code, usually in a library',
  BUS: 'memory without content, usually a truncated file or full shared memory',
  ABRT: 'the program aborted itself; its last output usually says why',
  ILL: 'the program was built for another processor',
  FPE: 'division by zero in compiled code',
  PIPE: 'the program wrote to a program that had exited',
  XCPU: 'the program exceeded its CPU time limit',
  XFSZ: 'the program exceeded its file size limit',
};

/** Sources: POSIX, "Exit Status for Commands" (126 and 127 of a shell); timeout(1) of GNU coreutils (124). */
const exitCodeCauses: Readonly<Record<number, string>> = {
  124: 'the command `timeout` ended a program',
  126: 'a command was found but could not be executed',
  127: 'a command was not found',
};

/** `about $4.00/h`; on the TPU emulator `about $4.00/h on Google Cloud (simulated: free)`. */
export function formatHourlyCost({ simulated }: { readonly simulated: boolean }, pricePerHour: number): string {
  return `about ${formatPricePerHour(pricePerHour)}${simulated ? ' on Google Cloud (simulated: free)' : ''}`;
}

/** The price of a planned job, even if none is known. */
export function formatPlanPrice({
  backend,
  simulated,
  pricePerHourUsd,
}: Pick<Plan, 'backend' | 'simulated' | 'pricePerHourUsd'>): string {
  return pricePerHourUsd === null
    ? capacityPhrases[backend].withoutPrice
    : `${formatHourlyCost({ simulated }, pricePerHourUsd)}, while it is ready`;
}

export function formatCapacityCost(capacity: CapacitySpec, pricePerHour: number): string {
  return formatHourlyCost({ simulated: isSimulated(capacity) }, pricePerHour);
}
