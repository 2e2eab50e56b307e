// Plan: the answer of `create --dry-run`. Sends no request and stores nothing.

import { nodeName } from '../core/decide/allocate.ts';
import { answerFor } from '../core/decide/recover.ts';
import {
  alternativesOf,
  formatWorker,
  nodeNamePlaceholder,
  type JobSpec,
  type RecoverableReason,
  type RecoveryRule,
  type TpuSpec,
  withJobIds,
  isSimulated,
  formatHosts,
  isOnThisMachine,
  hostNamesOf,
} from '../core/model/spec.ts';
import type { UserName } from '../core/model/user.ts';
import { hasBudget, possibleCapacity } from '../core/policy/grants.ts';
import type { Plan } from './client.ts';
import { StoreError } from './errors.ts';
import type { Store } from './ports.ts';
import { plannedWait } from './typical-wait.ts';
import { checkRequest, withPrice, type GuardParts } from './confirmation.ts';
import { formatBudgetLeft } from './grants.ts';
import { readHostQueues, type QueueSources } from './host-queues.ts';
import { formatBudget, formatConditions, formatStartFolder, phrasesOf } from './phrases.ts';
import { pluralize, formatDuration, formatPricePerHour, formatUsd, reasonPhrases } from './format.ts';
import { hour } from '../core/model/time.ts';

const jobIdToken = '<job id>';

/** The plan of a request, for the owner that `readOwner` returns. */
export async function planRequest(
  parts: GuardParts & QueueSources & { readonly store: Pick<Store, 'similarJobs'> },
  given: JobSpec,
  workdir: string | undefined,
  readOwner: () => Promise<UserName>,
): Promise<Plan> {
  const spec = await withPrice(parts, given);
  // Without a budget a dry run works without a database, and knows no limits of the user.
  const isLimited = hasBudget(await parts.grants(), possibleCapacity(spec), parts.now());
  const owner = await readOwner().catch((error: unknown) => {
    if (isLimited || !(error instanceof StoreError)) throw error;
    return '';
  });
  const { budgets, confirmation } = await checkRequest(parts, { owner, spec, job: null }, null);
  const left = budgets.map((one) => formatBudgetLeft(one, owner, parts.now()));
  const reasons = confirmation?.reasons.map(({ token: _token, ...reason }) => reason) ?? [];
  const plan = createPlan(spec, (await parts.pricePerHour(spec))?.usdPerHour ?? null, left, workdir);
  return {
    ...plan,
    requests: [...plan.requests, ...(await queueLines(parts, spec))],
    typicalWait: await plannedWait(parts.store, spec, parts.now()),
    reasons,
  };
}

/** The queues in which the job would have to wait. None if the database does not answer: a dry run works without one. */
async function queueLines(sources: QueueSources, { capacity }: JobSpec): Promise<readonly string[]> {
  const names = hostNamesOf(capacity);
  if (names.length === 0) return [];
  const queues = await readHostQueues(sources).catch(() => []);
  return queues
    .filter((queue) => names.includes(queue.pool) && queue.slotsUsed + queue.waiting.length >= queue.slots)
    .map(
      ({ pool, slots, slotsUsed, waiting }) =>
        `a wait on ${formatHosts([pool])}: ${slotsUsed} of ${pluralize(slots, 'slot')} used, ${pluralize(waiting.length, 'job')} before this one`,
    );
}

/** `budgetsLeft`: what is left of the owner's budgets, as phrases. */
export function createPlan(
  template: JobSpec,
  pricePerHour: number | null,
  budgetsLeft: readonly string[] = [],
  workdir?: string,
): Omit<Plan, 'reasons' | 'typicalWait'> {
  const spec = withJobIds(template, jobIdToken, '<installation id>');
  return {
    name: spec.name,
    backend: spec.capacity.kind,
    requests: requestLines(spec, workdir),
    steps: spec.steps.map((step) => `${step.name}, on every worker, at most ${formatDuration(step.timeoutMs)} a try`),
    command:
      spec.command.isSetupOnly === true
        ? formatSetupOnly(spec)
        : `${formatWhere(spec)}:\n${resolvedText(spec, spec.command.userScript ?? spec.command.script)}`,
    script: spec.command.userScript === undefined ? null : resolvedText(spec, spec.command.script),
    rules: ruleLines(spec),
    limits: [...limitLines(spec, pricePerHour), ...budgetsLeft],
    pricePerHourUsd: pricePerHour,
    simulated: isSimulated(spec.capacity),
  };
}

function requestLines(spec: JobSpec, workdir: string | undefined): readonly string[] {
  const { capacity } = spec;
  switch (capacity.kind) {
    case 'hosts':
      return [
        `a slot on ${capacity.hosts.length > 1 ? 'each of ' : ''}${formatHosts(capacity.hosts)}${formatStartFolder(spec, workdir)}`,
      ];
    case 'tpu': {
      const name = nodeName(spec, jobIdToken, 1);
      if (capacity.ownership === 'persistent') {
        return [`the existing TPU ${name} in ${capacity.zone} of ${capacity.project}, which is never released`];
      }
      // Names only: the values may be for the machines alone.
      const metadataKeys = Object.keys(capacity.metadata);
      const resources = capacity.mode === 'queued-resources' ? 'queued resource and node' : 'node';
      return [
        `${resources} ${name} in ${capacity.zone} of ${capacity.project}`,
        `${capacity.accelerator}, ${capacity.pricing}, runtime ${capacity.runtimeVersion}`,
        `labels jobman-installation, jobman-job, jobman-allocation${formatNamed(', tags', spec.tags)}${formatNamed(', network tags', capacity.networkTags)}`,
        ...(capacity.startupScript === null ? [] : ['a startup script at every boot']),
        ...(metadataKeys.length === 0 ? [] : [`metadata ${metadataKeys.join(', ')}`]),
        ...optionLines(capacity),
      ];
    }
  }
}

function optionLines(capacity: TpuSpec): readonly string[] {
  const { nodeCount, topology, reservation, network, subnetwork, serviceAccount, dataDisks, validForMs } = capacity;
  const [, ...alternatives] = alternativesOf(capacity);
  const wait = capacity.alternativesWaitMs;
  const waitLimit = wait === undefined ? '' : `, or after ${formatDuration(wait)} of waiting`;
  return [
    ...(nodeCount === undefined ? [] : [`a multislice of ${nodeCount} such TPUs, all or none`]),
    ...(topology === undefined ? [] : [`topology ${topology}`]),
    ...(reservation === undefined ? [] : [`reservation ${reservation}`]),
    ...(network === undefined ? [] : [`network ${network}`]),
    ...(subnetwork === undefined ? [] : [`subnetwork ${subnetwork}`]),
    ...(serviceAccount === undefined ? [] : [`service account ${serviceAccount}`]),
    ...(dataDisks ?? []).map(({ source, mode }) => `disk ${source}, ${mode}`),
    ...(validForMs === undefined ? [] : [`the request expires after ${formatDuration(validForMs)}`]),
    ...alternatives.map(
      ({ accelerator, pricing, zone }) =>
        `alternative: ${accelerator}, ${pricing}, in ${zone}, if there is no capacity before${waitLimit}`,
    ),
  ];
}

function formatNamed(heading: string, items: readonly string[]): string {
  return items.length === 0 ? '' : `${heading} ${items.join(', ')}`;
}

function formatWhere({ command, capacity }: JobSpec): string {
  if (command.runsOn === 'controller') return 'on this machine, once its TPU is ready';
  if (command.workers === 'all') return isOnThisMachine({ capacity }) ? 'on this machine' : 'on every worker';
  return `on ${command.workers.map(formatWorker).join(', ')}`;
}

function resolvedText(spec: JobSpec, script: string): string {
  return script.replaceAll(nodeNamePlaceholder, nodeName(spec, jobIdToken, 1)).trimEnd();
}

function formatSetupOnly({ capacity, finish }: JobSpec): string {
  if ('hosts' in capacity)
    return isOnThisMachine({ capacity }) ? 'none' : `none: ${formatHosts(capacity.hosts)} is set up`;
  if (capacity.ownership === 'persistent') return 'none: the TPU is set up';
  if (finish.capacity === 'release') return 'none: the TPU is set up and released';
  const limit = finish.keepForMs === null ? 'until you release it' : `for ${formatDuration(finish.keepForMs)}`;
  return `none: the TPU is set up and kept ${limit}`;
}

const recoverableReasons: readonly RecoverableReason[] = [
  'preempted',
  'unreachable',
  'setup_failed',
  'command_failed',
  'hung',
  'succeeded',
];

function ruleLines(spec: JobSpec): readonly string[] {
  const { recovery } = spec;
  const rows = recoverableReasons
    .filter((reason) => reason !== 'preempted' || phrasesOf({ spec }).hasCloud)
    .map((reason) => `${reasonPhrases[reason]} -> ${formatAnswer(answerFor(recovery, reason, { message: '' }))}`);
  const byLog = recovery.rules.flatMap((rule) => {
    const conditions = formatConditions(rule);
    if (conditions === '') return [];
    return [`${reasonPhrases[rule.reason]}, ${conditions} -> ${formatAnswer(rule.answer)}${formatTerms(rule)}`];
  });
  return [`preset ${recovery.preset}: ${formatBudget(recovery) ?? 'no automatic recovery'}`, ...byLog, ...rows];
}

function formatTerms({ limit, delayMs, avoidZone }: RecoveryRule): string {
  return [
    ...(avoidZone === undefined ? [] : [', in another zone']),
    ...(limit === undefined ? [] : [`, ${pluralize(limit, 'time')} at most`]),
    ...(delayMs === undefined ? [] : [`, after ${formatDuration(delayMs)}`]),
  ].join('');
}

function formatAnswer(answer: { readonly then: string; readonly on: string }): string {
  return answer.then === 'resume' || answer.then === 'rerun'
    ? `${answer.then} on ${answer.on === 'new' ? 'a new' : 'the same'} allocation`
    : answer.then;
}

function formatMoneyBudget(budgetUsd: number, pricePerHour: number | null): string {
  // A price of your own may be 0: then the budget never ends the job.
  const length =
    pricePerHour === null || pricePerHour === 0
      ? ''
      : `: about ${formatDuration((budgetUsd / pricePerHour) * hour)} at ${formatPricePerHour(pricePerHour)}`;
  return `budget ${formatUsd(budgetUsd)}${length}`;
}

function limitLines(spec: JobSpec, pricePerHour: number | null): readonly string[] {
  const { limits, stop, finish, recovery } = spec;
  const kept = finish.keepForMs === null ? 'until you release it' : `for ${formatDuration(finish.keepForMs)}`;
  return [
    limits.maxRuntimeMs === null ? 'no time limit' : `time limit ${formatDuration(limits.maxRuntimeMs)}`,
    ...(limits.budgetUsd === undefined ? [] : [formatMoneyBudget(limits.budgetUsd, pricePerHour)]),
    limits.silenceTimeoutMs === null
      ? 'no limit on silence'
      : `counts as hung after ${formatDuration(limits.silenceTimeoutMs)} without output`,
    limits.capacityWaitMs === null
      ? 'waits for capacity without a limit'
      : `fails after ${formatDuration(limits.capacityWaitMs)} without capacity`,
    `setup steps are tried ${pluralize(limits.setupTries, 'time')} on a worker`,
    `stopped with ${stop.signal}, killed after ${formatDuration(stop.graceMs)}`,
    `a silent worker counts as lost after ${formatDuration(recovery.unreachableGraceMs)}`,
    ...(spec.capacity.ownership === 'ephemeral'
      ? [finish.capacity === 'release' ? 'released when it ends' : `kept when it ends, ${kept}`]
      : []),
  ];
}
