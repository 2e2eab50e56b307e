// Facts about a job as labels and texts, the same in `show`, in a report and on its page.

import { quote } from '../catalogue/shell.ts';
import { isFinishedPhase } from '../core/decide/phase.ts';
import { periodPhrases } from '../core/decide/spending.ts';
import type { DashboardLinks } from '../core/model/dashboard-links.ts';
import type { ResumeFrom } from '../core/model/spec.ts';
import type { Instant } from '../core/model/time.ts';
import type { AllocationView, BudgetView, HostPath, JobView, Why, WorkdirCopyView } from './client.ts';
import { formatCostSplit } from './cost-table.ts';
import {
  formatDuration,
  formatMachine,
  formatTime,
  formatUsdOf,
  formatWhen,
  pluralize,
  type ReadingTime,
} from './format.ts';
import { capacityPhrases, formatHourlyCost, formatStartFolder } from './phrases.ts';

export type Fact = readonly [label: string, text: string];

export interface FactReading extends ReadingTime {
  /** The name of the reader's machine: its paths are shown without that name. Null if it is not known. */
  readonly machine: string | null;
}

/** The capacity of the job, its progress, checkpoint, cost, budgets and folders, in order. */
export function jobFacts(view: JobView, reading: FactReading): readonly Fact[] {
  const rows: Fact[] = [['where', formatWhere(view, reading)]];
  if (view.progress !== null) rows.push(['progress', view.progress]);
  if (view.throughput !== null) rows.push(['pace', view.throughput]);
  if (view.slowWorker !== null) rows.push(['slow', view.slowWorker]);
  if (view.leftOut !== null) rows.push(['left out', view.leftOut]);
  rows.push(...dashboardRows(view.dashboards));
  if (view.checkpoint !== null) {
    const { name, folder, savedAt } = view.checkpoint;
    rows.push(['saved', `${name}, ${formatWhen(savedAt, reading)}, in ${formatHostPath(folder, reading)}`]);
  } else if (view.resumedFrom !== null) {
    const { name, savedAt, attempt } = view.resumedFrom;
    const when = savedAt === null ? '' : `, ${formatWhen(savedAt, reading)}`;
    rows.push(['saved', `${name}${when}, the newest when attempt ${attempt} started`]);
  }
  if (view.ifPreempted !== null) rows.push(['if lost', view.ifPreempted]);
  const cost = formatCost(view);
  if (cost !== null) rows.push(['cost', cost]);
  for (const [index, budget] of view.budgets.entries())
    rows.push([index === 0 ? 'budget' : '', formatBudgetView(view, budget, reading.now)]);
  const { overrides } = view.spec;
  if (overrides !== undefined) rows.push(['set', overrides.map(({ key, value }) => `${key}=${value}`).join(', ')]);
  const { resumeFrom } = view.spec.command;
  if (resumeFrom?.kind === 'folder' || resumeFrom?.kind === 'entry')
    rows.push(['starts at', formatResumeFrom(resumeFrom)]);
  const isShared = view.spec.command.checkpoints === 'shared';
  const shared = isShared ? ', shared with every job that uses this folder' : '';
  const { checkpointDir: folder, checkpointUrl: url } = view;
  if (folder !== null) {
    const bucket = url === null || url === folder ? '' : ` (${url})`;
    const newest = url === null ? '' : '; age of the newest file: jobman storage checkpoints';
    rows.push(['saves to', `${folder}${bucket}${shared}${newest}`]);
  }
  const workdir = view.workdirCopies.at(-1);
  if (workdir !== undefined) rows.push(['workdir', formatWorkdir(workdir, view, reading)]);
  const owner = formatOwner(view);
  if (owner !== null) rows.push(['owner', owner]);
  if (view.tags.length > 0) rows.push(['tags', view.tags.join(', ')]);
  rows.push(['files', view.hasFiles ? formatHostPath(view.folder, reading) : 'none; removed by `jobman clean`']);
  return rows;
}

/** A folder with a command for it; what a program printed is escaped like all text. */
export function dashboardRows({ wandb, tensorboard }: DashboardLinks): readonly Fact[] {
  return [
    ...(wandb === null ? [] : [['wandb', wandb] as const]),
    ...(tensorboard === null ? [] : [['curves', `tensorboard --logdir ${quotePath(tensorboard)}`] as const]),
  ];
}

/** A shell expands a tilde only outside of quotes. */
function quotePath(path: string): string {
  return path.startsWith('~/') ? `~/${quote(path.slice(2))}` : quote(path);
}

/** In a shared project, the owner in the TPU's metadata may be another person than the user of jobman. */
function formatOwner({ spec: { capacity } }: JobView): string | null {
  const owner = capacity.kind === 'tpu' ? capacity.metadata['owner'] : undefined;
  return owner === undefined ? null : `${owner}, by tpu.metadata`;
}

/** A path of this machine as it is; of another, with its name. */
function formatHostPath({ host, path }: HostPath, { machine }: FactReading): string {
  return host === machine ? path : `${host}:${path}`;
}

function formatResumeFrom(from: Exclude<ResumeFrom, { readonly kind: 'job' }>): string {
  const job = from.kind === 'folder' && from.job !== undefined ? ` of job ${from.job}` : '';
  return from.kind === 'entry' ? from.path : `the newest checkpoint${job} in ${from.path}`;
}

/** `/home/ada/vit at 3f2a9c1 (main) with changes, 120 files, copied 2h ago; attempt 1 ran copy 1`. */
function formatWorkdir(workdir: WorkdirCopyView, { attempts: all }: JobView, reading: FactReading): string {
  const { git } = workdir;
  const commit =
    git === null ? '' : git.commit === null ? ', before its first commit' : ` at ${git.commit.slice(0, 10)}`;
  const branch = git?.branch === null || git === null ? '' : ` (${git.branch})`;
  const changes =
    git?.changed === true ? ` with changes (${formatHostPath(workdir.folder, reading)}/changes.diff)` : '';
  const last = all.at(-1)?.workdirCopy ?? null;
  const next = last === null || last === workdir.copy ? '' : `; attempt ${all.length} ran copy ${last}`;
  const copy = workdir.copy === 1 ? '' : `, copy ${workdir.copy}`;
  return `${workdir.from}${commit}${branch}${changes}, ${pluralize(workdir.files, 'file')}${copy}${next}`;
}

/** `about $8.00/h; $75.70 estimated so far (151 chip-hours): useful $70.00, lost $5.00, setup $0.70, waiting 4h30m`. */
function formatCost(view: JobView): string | null {
  const { backend, simulated, pricePerHourUsd, cost } = view;
  const isFinal = isFinishedPhase(view.phase) && view.heldCapacity === null;
  const isFree = simulated && pricePerHourUsd === null && cost.held.estimateUsd !== null;
  // Without a price, only the loss of a job on hosts is worth a line.
  const isShown = capacityPhrases[backend].hasCloud || cost.held.estimateUsd !== null || cost.lost.durationMs > 0;
  const split = isShown ? formatCostSplit(cost, isFinal, isFree ? ['simulated: free'] : []) : null;
  const parts = [
    ...(pricePerHourUsd === null ? [] : [formatHourlyCost(view, pricePerHourUsd)]),
    ...(split === null ? [] : [split]),
  ];
  return parts.length === 0 ? null : parts.join('; ');
}

/** `$3.20 of $4.00 used (80%), will be used up at 20 Nov 22:31:07 UTC`. */
export function formatBudgetView({ owner }: JobView, budget: BudgetView, now: Instant): string {
  const { spentUsd, budgetUsd, ownerBudget, usedUpAt } = budget;
  const percent = Math.floor((100 * spentUsd) / budgetUsd);
  const of =
    ownerBudget === null ? '' : ` by ${owner} on ${ownerBudget.grant}, ${periodPhrases[ownerBudget.period]} (UTC)`;
  const end = usedUpAt === null ? '' : `, will be used up at ${formatTime(usedUpAt, now)}`;
  return `${formatUsdOf(spentUsd, budgetUsd)} used (${percent}%)${of}${end}`;
}

function formatWhere(view: JobView, reading: FactReading): string {
  if (view.hosts.length > 0)
    return `${formatMachine(view)}${formatStartFolder(view.spec, view.workdirCopies.at(-1)?.from)}`;
  const allocation = view.allocations.at(-1);
  const hardware = [formatMachine(view), view.pricing].filter((part) => part !== null).join(' ');
  const parts = [hardware, view.zone, allocation === undefined ? null : formatAllocation(allocation, reading)];
  return parts.filter((part) => part !== null && part !== '').join(', ');
}

function formatAllocation(allocation: AllocationView, reading: FactReading): string | null {
  if (allocation.ownership === 'persistent' && allocation.readyAt === null) return null;
  const name = `allocation ${allocation.allocation} (${allocation.name})`;
  // The TPU was never requested, for example in an imported job, so its name was never used.
  if (allocation.requestedAt === null) return null;
  if (allocation.goneAt !== null) return `${name} deleted ${formatWhen(allocation.goneAt, reading)}`;
  if (allocation.releasedAt !== null)
    return `deleting ${name} (requested ${formatWhen(allocation.releasedAt, reading)})`;
  if (allocation.readyAt !== null)
    return reading.isKept === true
      ? `${name} ready since ${formatTime(allocation.readyAt, reading.now)}`
      : `${name} ready for ${formatDuration(reading.now - allocation.readyAt)}`;
  return `${name} requested ${formatWhen(allocation.requestedAt, reading)}: ${allocation.state}`;
}

/** The reasons behind the sentence of `why`: evidence, log, rule, typical wait, and what happens next. */
export function whyRows(why: Why, reading: ReadingTime): readonly Fact[] {
  const rows: Fact[] = [];
  if (why.evidence !== null) rows.push(['because', why.evidence]);
  for (const [index, line] of why.logTail.entries()) rows.push([index === 0 ? 'log' : '', line]);
  if (why.rule !== null) rows.push(['rule', why.rule]);
  if (why.typicalWait !== null) rows.push(['usually', why.typicalWait]);
  return why.next === null ? rows : [...rows, ['next', formatNext(why, reading)]];
}

/** The times belong to the first sentence: `The controller requests it again (in 30s).` */
export function formatNext({ next, nextAt, nextCheckAt }: Why, { now, isKept = false }: ReadingTime): string {
  const when = (at: Instant) => (isKept ? `at ${formatTime(at, now)}` : `in ${formatDuration(at - now)}`);
  const times = [
    ...(nextAt !== null && nextAt > now ? [when(nextAt)] : []),
    ...(nextCheckAt !== null && nextCheckAt > now ? [`next check ${when(nextCheckAt)}`] : []),
  ];
  return next === null || times.length === 0
    ? (next ?? '')
    : next.replace(/(?=\.(?: |$)|$)/u, ` (${times.join(', ')})`);
}
