import { hostname } from 'node:os';
import type { JobDetails } from '../../app/job-source.ts';
import { capacityPhrases, formatCause, formatHourlyCost, formatStartFolder } from '../../app/phrases.ts';
import { isFinishedPhase } from '../../core/decide/phase.ts';
import { periodPhrases } from '../../core/decide/spending.ts';
import type {
  AllocationView,
  AttemptView,
  BudgetView,
  HostPath,
  JobView,
  Why,
  WorkdirCopyView,
  WorkerView,
} from '../../app/client.ts';
import {
  formatAge,
  formatTime,
  formatTimeOfDay,
  pluralize,
  formatDate,
  formatUsdOf,
  formatDuration,
  formatMachine,
  reasonPhrases,
  escapeLine,
  formatStatus,
  formatWhen,
  type ReadingTime,
} from '../../app/format.ts';
import { fittedTable, labelled, type Column } from './aligned.ts';
import { fillLines, wrap } from './cell.ts';
import { clusterFactRows, clusterJobLines } from './cluster-job.ts';
import { formatCostSplit, formatJobName } from './job-phrases.ts';
import { glyph, type Layout, stylePhase } from '../screen.ts';
import { quote } from '../../catalogue/shell.ts';
import type { DashboardLinks } from '../../core/model/dashboard-links.ts';
import type { ResumeFrom } from '../../core/model/spec.ts';
import type { Duration, Instant } from '../../core/model/time.ts';

export type ShowLayout = Layout & ReadingTime;

/** Workers and attempts beyond this many are counted, not listed; `--json` has all. */
const maxRows = 20;

/** For `show`. */
export function showLines(details: JobDetails, layout: ShowLayout): readonly string[] {
  return details.backend === 'kubernetes' ? clusterJobLines(details, layout) : storedJobLines(details, layout);
}

/** Labels and texts about the job as a whole, in order. */
export function factRows(details: JobDetails, layout: ShowLayout): readonly (readonly [label: string, text: string])[] {
  return details.backend === 'kubernetes' ? clusterFactRows(details, layout) : storedFactRows(details, layout);
}

function storedJobLines(view: JobView, layout: ShowLayout): readonly string[] {
  return [
    ...heading(view, layout),
    ...labelled(storedFactRows(view, layout), layout.columns),
    ...attempts(view, layout),
    ...workers(view, layout),
    ...commands(view, layout.columns),
  ];
}

function heading(view: JobView, layout: ShowLayout): readonly string[] {
  const status = `${glyph(layout, view.phase)} ${escapeLine(formatStatus(view))} for ${formatDuration(layout.now - view.phaseStartedAt)}`;
  const attempt = view.attempt === 0 ? '' : `attempt ${view.attempt}, stage ${view.stage}`;
  const parts = [
    layout.styler('bold', formatJobName(view)),
    stylePhase(layout.styler, view.phase, status),
    attempt,
  ].filter(Boolean);
  return fillLines(parts, '  ', layout.columns);
}

function storedFactRows(view: JobView, layout: ShowLayout): readonly (readonly [label: string, text: string])[] {
  const rows: (readonly [string, string])[] = [['why', view.why.message]];
  rows.push(...whyRows(view.why, layout), ['where', formatWhere(view, layout)]);
  if (view.progress !== null) rows.push(['progress', view.progress]);
  if (view.throughput !== null) rows.push(['pace', view.throughput]);
  if (view.slowWorker !== null) rows.push(['slow', view.slowWorker]);
  if (view.leftOut !== null) rows.push(['left out', view.leftOut]);
  rows.push(...dashboardRows(view.dashboards));
  if (view.checkpoint !== null) {
    const { name, folder, savedAt } = view.checkpoint;
    rows.push(['saved', `${name}, ${formatWhen(savedAt, layout)}, in ${formatHostPath(folder)}`]);
  } else if (view.resumedFrom !== null) {
    const { name, savedAt, attempt } = view.resumedFrom;
    const when = savedAt === null ? '' : `, ${formatWhen(savedAt, layout)}`;
    rows.push(['saved', `${name}${when}, the newest when attempt ${attempt} started`]);
  }
  if (view.ifPreempted !== null) rows.push(['if lost', view.ifPreempted]);
  const cost = formatCost(view);
  if (cost !== null) rows.push(['cost', cost]);
  for (const [index, budget] of view.budgets.entries())
    rows.push([index === 0 ? 'budget' : '', formatBudget(view, budget, layout.now)]);
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
  if (workdir !== undefined) rows.push(['workdir', formatWorkdir(workdir, view)]);
  const owner = formatOwner(view);
  if (owner !== null) rows.push(['owner', owner]);
  if (view.tags.length > 0) rows.push(['tags', view.tags.join(', ')]);
  rows.push(['files', view.hasFiles ? formatHostPath(view.folder) : 'none; removed by `jobman clean`']);
  return rows;
}

/** A folder with a command for it; what a program printed is escaped like all text. */
export function dashboardRows({ wandb, tensorboard }: DashboardLinks): readonly (readonly [string, string])[] {
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
function formatHostPath({ host, path }: HostPath): string {
  return host === hostname() ? path : `${host}:${path}`;
}

function formatResumeFrom(from: Exclude<ResumeFrom, { readonly kind: 'job' }>): string {
  const job = from.kind === 'folder' && from.job !== undefined ? ` of job ${from.job}` : '';
  return from.kind === 'entry' ? from.path : `the newest checkpoint${job} in ${from.path}`;
}

/** `/home/ada/vit at 3f2a9c1 (main) with changes, 120 files, copied 2h ago; attempt 1 ran copy 1`. */
function formatWorkdir(workdir: WorkdirCopyView, { attempts: all }: JobView): string {
  const { git } = workdir;
  const commit =
    git === null ? '' : git.commit === null ? ', before its first commit' : ` at ${git.commit.slice(0, 10)}`;
  const branch = git?.branch === null || git === null ? '' : ` (${git.branch})`;
  const changes = git?.changed === true ? ` with changes (${formatHostPath(workdir.folder)}/changes.diff)` : '';
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
function formatBudget({ owner }: JobView, budget: BudgetView, now: Instant): string {
  const { spentUsd, budgetUsd, ownerBudget, usedUpAt } = budget;
  const percent = Math.floor((100 * spentUsd) / budgetUsd);
  const of =
    ownerBudget === null ? '' : ` by ${owner} on ${ownerBudget.grant}, ${periodPhrases[ownerBudget.period]} (UTC)`;
  const end = usedUpAt === null ? '' : `, will be used up at ${formatTime(usedUpAt, now)}`;
  return `${formatUsdOf(spentUsd, budgetUsd)} used (${percent}%)${of}${end}`;
}

function formatWhere(view: JobView, layout: ShowLayout): string {
  if (view.hosts.length > 0)
    return `${formatMachine(view)}${formatStartFolder(view.spec, view.workdirCopies.at(-1)?.from)}`;
  const allocation = view.allocations.at(-1);
  const hardware = [formatMachine(view), view.pricing].filter((part) => part !== null).join(' ');
  const parts = [hardware, view.zone, allocation === undefined ? null : formatAllocation(allocation, layout)];
  return parts.filter((part) => part !== null && part !== '').join(', ');
}

function formatAllocation(allocation: AllocationView, layout: ShowLayout): string | null {
  if (allocation.ownership === 'persistent' && allocation.readyAt === null) return null;
  const name = `allocation ${allocation.allocation} (${allocation.name})`;
  // The TPU was never requested, for example in an imported job, so its name was never used.
  if (allocation.requestedAt === null) return null;
  if (allocation.goneAt !== null) return `${name} deleted ${formatWhen(allocation.goneAt, layout)}`;
  if (allocation.releasedAt !== null)
    return `deleting ${name} (requested ${formatWhen(allocation.releasedAt, layout)})`;
  if (allocation.readyAt !== null)
    return layout.isKept === true
      ? `${name} ready since ${formatTime(allocation.readyAt, layout.now)}`
      : `${name} ready for ${formatDuration(layout.now - allocation.readyAt)}`;
  return `${name} requested ${formatWhen(allocation.requestedAt, layout)}: ${allocation.state}`;
}

function attempts(view: JobView, layout: ShowLayout): readonly string[] {
  if (view.attempts.length === 0) return [];
  const shown = view.attempts.slice(-maxRows);
  const rows = shown.map((attempt) => {
    const ready = view.allocations.find(({ allocation }) => allocation === attempt.allocation)?.readyAt ?? null;
    return { ...attempt, ...spans(attempt, ready, layout.now) };
  });
  const end = { title: 'ENDED (UTC)', text: (attempt: AttemptView) => formatEnd(view, attempt, layout.now) };
  const columns = [...columnsFor(attemptColumns, layout), end];
  const lines = fittedTable(columns, rows, [], layout.columns, 'wrap');
  const earlier = view.attempts.length - shown.length;
  return earlier === 0
    ? lines
    : [...lines, `${pluralize(earlier, 'earlier attempt')}: jobman history ${Number(view.id)}`];
}

const minTableWidth = 80;

/** `isDropped`: in a narrow terminal. */
type ShownColumn<Row> = Column<Row> & { readonly isDropped?: true };

function columnsFor<Row>(columns: readonly ShownColumn<Row>[], { columns: terminal }: ShowLayout) {
  const isNarrow = terminal !== null && terminal < minTableWidth;
  return columns.filter(({ isDropped }) => !isNarrow || isDropped !== true);
}

const attemptColumns: readonly ShownColumn<AttemptView & Spans>[] = [
  { title: 'ATTEMPT', side: 'right', text: ({ attempt }) => String(attempt) },
  { title: 'STAGE', side: 'right', isDropped: true, text: ({ stage }) => String(stage) },
  { title: 'ALLOCATION', side: 'right', isDropped: true, text: ({ allocation }) => String(allocation) },
  { title: 'WAITED', side: 'right', isDropped: true, text: ({ waited }) => formatSpan(waited) },
  { title: 'SETUP', side: 'right', isDropped: true, text: ({ setup }) => formatSpan(setup) },
  { title: 'RAN', side: 'right', text: ({ ran }) => formatSpan(ran) },
];

interface Spans {
  readonly waited: Duration | null;
  readonly setup: Duration | null;
  readonly ran: Duration | null;
}

function formatSpan(span: Duration | null): string {
  return span === null ? '-' : formatDuration(span);
}

/** Null for a part that has not begun. A backoff contains no setup, even if the attempt inherits one. */
function spans(attempt: AttemptView, ready: Instant | null, now: Instant): Spans {
  const end = attempt.endedAt ?? now;
  const usable = ready === null ? null : Math.max(ready, attempt.createdAt, attempt.notBeforeAt);
  const begun = usable === null || usable > (attempt.startedAt ?? end) ? null : usable;
  return {
    waited: (begun ?? attempt.startedAt ?? end) - attempt.createdAt,
    setup: begun === null ? null : (attempt.startedAt ?? end) - begun,
    ran: attempt.startedAt === null ? null : (attempt.endingAt ?? end) - attempt.startedAt,
  };
}

function formatEnd({ spec }: JobView, attempt: AttemptView, now: Instant): string {
  if (attempt.reason === null) return '-';
  const at = attempt.endedAt;
  const day = at === null || formatDate(at, now) === formatDate(now, now) ? '' : `${formatDate(at, now)} `;
  const when = at === null ? 'ending' : `${day}${formatTimeOfDay(at)}`;
  const cause = attempt.evidence === null ? '' : formatCause(spec, attempt.reason, attempt.evidence);
  return `${when} ${reasonPhrases[attempt.reason]}${cause === '' ? '' : `: ${cause}`}`.replaceAll('\n', ' ');
}

function workers(view: JobView, layout: ShowLayout): readonly string[] {
  if (view.workers.length === 0) return [];
  const shown = view.workers.length <= maxRows ? view.workers : unusualWorkers(view.workers);
  const lines = fittedTable(columnsFor(workerColumns, layout), shown, [], layout.columns);
  const more = view.workers.length - shown.length;
  return more === 0
    ? lines
    : [...lines, `${pluralize(more, 'more worker')}, like the others: jobman show ${Number(view.id)} --json`];
}

/** A narrow terminal drops the address: the last line is more useful, and `ssh` knows the address. */
const workerColumns: readonly ShownColumn<WorkerView>[] = [
  { title: 'WORKER', side: 'right', text: ({ worker }) => String(worker) },
  { title: 'HOST', isDropped: true, text: ({ address }) => address ?? '-' },
  { title: 'STATE', text: ({ message }) => message },
  { title: 'LOG AGE', side: 'right', text: ({ logAgeMs }) => (logAgeMs === null ? '-' : formatAge(logAgeMs)) },
  { title: 'LAST LINE', text: lastLine },
];

/** First workers with a rare state, then those with the oldest log. */
function unusualWorkers(all: readonly WorkerView[]): readonly WorkerView[] {
  const counts = new Map<string, number>();
  for (const { message } of all) counts.set(message, (counts.get(message) ?? 0) + 1);
  const rarity = ({ message }: WorkerView) => counts.get(message) ?? 0;
  const age = ({ logAgeMs }: WorkerView) => logAgeMs ?? 0;
  const chosen = new Set(
    all.toSorted((one, other) => rarity(one) - rarity(other) || age(other) - age(one)).slice(0, maxRows),
  );
  return all.filter((worker) => chosen.has(worker));
}

function lastLine(worker: WorkerView): string {
  // A progress bar overwrites itself: show the last state.
  return (worker.lastLine ?? '').trimEnd().split('\r').at(-1) ?? '';
}

function commands(view: JobView, columns: number | null): readonly string[] {
  const id = Number(view.id);
  return fillLines(
    ['logs', 'history', 'why'].map((verb) => `jobman ${verb} ${id}`),
    ' | ',
    columns,
  );
}

export function whyLines(why: Why, { columns, now }: Layout, isExplained = false): readonly string[] {
  const sentence = escapeLine(why.message);
  const head = columns === null ? [sentence] : wrap(sentence, columns);
  return [
    ...head,
    ...labelled(
      [...whyRows(why, { now }), ...(isExplained && why.backend !== 'kubernetes' ? [situationRow(why)] : [])],
      columns,
    ),
  ];
}

function situationRow({ situation }: Why): readonly [string, string] {
  if (situation === null) return ['situation', 'none yet'];
  const { name, description } = situation;
  return ['situation', description === null ? name : `${name}: ${description}`];
}

function whyRows(why: Why, reading: ReadingTime): readonly (readonly [string, string])[] {
  const rows: (readonly [string, string])[] = [];
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
