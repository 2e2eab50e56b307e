// The tables of `top`.

import { escapeLine, formatAge, formatCount, formatPricePerHour } from '../../app/format.ts';
import {
  formatZoneUsers,
  percentOf,
  type TopJob,
  type TopRows,
  type TopTpu,
  type TopWorker,
  type TopZone,
} from '../../app/top.ts';
import { suggestZone } from '../../catalogue/zones.ts';
import type { Instant } from '../../core/model/time.ts';
import { glyph, type Layout, type Styler } from '../screen.ts';
import type { TopOrder } from '../table/flags.ts';
import { zoneColumn } from '../../app/report-columns.ts';
import { fittedTable, type Column } from './aligned.ts';
import { cutEnd, cutMiddle, padEnd, padStart, width } from './cell.ts';

/** A line of the lower table: a job, one of its workers, or a TPU without a job. */
export type TopLine = TopJob | TopWorker | TopTpu;

/** A name for a line that stays the same between two pictures. */
export function lineKey(line: TopLine): string {
  if (line.kind === 'job') return line.id;
  return line.kind === 'tpu' ? `${line.project}/${line.zone}/${line.name}` : `${line.job}/${line.pod ?? line.worker}`;
}

/** The lines in that order, the workers of the `expanded` jobs below them. The largest value comes first, unknown values last. */
export function topLines(
  { jobs, tpus, workers }: TopRows,
  order: TopOrder,
  expanded: (job: string) => boolean,
): readonly TopLine[] {
  const value = valueOf(order);
  const all = [...jobs, ...tpus];
  const sorted = value === null ? all : all.toSorted((one, other) => value(other) - value(one));
  return sorted.flatMap((line): readonly TopLine[] =>
    line.kind === 'job' && expanded(line.id) ? [line, ...(workers.get(line.id) ?? [])] : [line],
  );
}

function valueOf(order: TopOrder): ((line: TopJob | TopTpu) => number) | null {
  const unknown = Number.NEGATIVE_INFINITY;
  const ofJob = (read: (job: TopJob) => number | null) => (line: TopJob | TopTpu) =>
    line.kind === 'job' ? (read(line) ?? unknown) : unknown;
  switch (order) {
    case 'active':
      // A long queue would fill the screen, and only the others use or cost something.
      return (line) => (line.kind === 'job' && line.phase === 'queued' ? 0 : 1);
    case 'newest':
      return null;
    case 'cpu':
      return ofJob(({ cpuPercent }) => cpuPercent);
    case 'memory':
      return ofJob(({ memoryPercent }) => memoryPercent);
    case 'duty':
      return ofJob(({ dutyPercent }) => dutyPercent);
    case 'log':
      // The oldest first.
      return ofJob(({ logAt }) => (logAt === null ? null : -logAt));
    case 'idle':
      return ({ idleSinceAt }) => (idleSinceAt === null ? unknown : -idleSinceAt);
  }
}

/** The last column that a narrower terminal loses comes last. */
const zoneDropOrder = ['LIMIT', 'AGE', 'ENDED', 'IDLE FOR', 'HELD', 'WAIT'] as const;
/** The part of a line that the owners get at least. */
const ownersWidth = 10;

/** `[]` without zones. */
export function zoneLines(zones: readonly TopZone[], { columns, styler, now }: Layout): readonly string[] {
  if (zones.length === 0) return [];
  const most = columns === null ? null : columns < narrowTerminal ? columns : columns - ownersWidth - 2;
  const table = fittedTable(zoneColumns(zones, now), zones, zoneDropOrder, most);
  return withLastColumn(table, ['BY', ...zones.map(formatUsers)], columns).map((line, index) =>
    (zones[index - 1]?.idleChips ?? 0) > 0 ? styler('bold', line) : line,
  );
}

/** Adds a column that is cut where the terminal ends. */
function withLastColumn(table: readonly string[], texts: readonly string[], columns: number | null): readonly string[] {
  const size = Math.max(...table.map(width));
  return table.map((line, index) => {
    const whole = `${padEnd(line, size)}  ${escapeLine(texts[index] ?? '')}`.trimEnd();
    if (columns === null) return whole;
    // A column of a few characters is useless.
    return size + 6 > columns ? cutEnd(line, columns) : cutEnd(whole, columns);
  });
}

const zoneColumns = (rows: readonly TopZone[], now: Instant): readonly Column<TopZone>[] => [
  zoneColumn(rows),
  { title: 'GENERATION', text: ({ generation }) => generation ?? '?' },
  {
    title: 'LIMIT',
    side: 'right',
    text: ({ limitChips, limitReadAt }) =>
      limitChips === null ? '-' : `${limitChips}${limitReadAt === null ? '' : ` (${formatAge(now - limitReadAt)})`}`,
  },
  { title: 'HELD', side: 'right', text: ({ heldChips }) => formatChips(heldChips) },
  { title: 'BUSY', side: 'right', text: ({ busyChips }) => formatChips(busyChips) },
  { title: 'IDLE', side: 'right', text: ({ idleChips }) => formatChips(idleChips) },
  {
    title: 'IDLE FOR',
    side: 'right',
    text: ({ idleSinceAt }) => (idleSinceAt === null ? '-' : formatAge(now - idleSinceAt)),
  },
  { title: 'WAIT', side: 'right', text: ({ waitingChips }) => formatChips(waitingChips) },
  ...(rows.every(({ endedChips }) => endedChips === 0)
    ? []
    : [{ title: 'ENDED', side: 'right' as const, text: ({ endedChips }: TopZone) => formatChips(endedChips) }]),
  {
    title: 'AGE',
    side: 'right',
    text: ({ checkedAt }) => (checkedAt === null ? '-' : formatAge(now - checkedAt)),
  },
];

/** A zone that was not checked has only what jobman's own jobs hold there. */
function formatUsers(zone: TopZone): string {
  return [formatZoneUsers(zone), ...(zone.message === null ? [] : [`(${zone.message})`])].join(' ');
}

function formatChips(chips: number | null): string {
  return chips === null ? '?' : String(chips);
}

/** For an empty lower table. */
export function noJobsText({
  user,
  zone,
  tag,
}: { readonly [Key in 'user' | 'zone' | 'tag']?: string | null | undefined }): string {
  const filters = (
    [
      ['of', user],
      ['in', zone],
      ['with the tag', tag],
    ] as const
  )
    .map(([preposition, value]) =>
      value === undefined || value === null ? '' : ` ${preposition} ${escapeLine(value)}`,
    )
    .join('');
  // A location in a cluster (`context/namespace`) is not a zone.
  const near = zone === undefined || zone === null || zone.includes('/') ? undefined : suggestZone(zone);
  const hint = near === undefined || near === zone ? '' : ` Did you mean --zone ${near}?`;
  return `No active jobs${filters}.${filters === '' ? ' To create one: jobman create <manifest>' : hint}`;
}

const narrowTerminal = 60;
/** A name is cut to this width, so that one long name does not cost a column. */
function maxNameWidth(columns: number | null): number {
  const terminal = columns ?? Number.POSITIVE_INFINITY;
  return terminal < 100 ? 16 : terminal < 200 ? 24 : 40;
}

/** Rows of the screen that one line of `jobLines` takes. */
export function rowsPerLine(columns: number | null): 1 | 2 {
  return columns !== null && columns < narrowTerminal ? 2 : 1;
}

/** With a heading, unless the terminal is too narrow for a table. `all` decides the widths, so that scrolling changes none. */
export function jobLines(lines: readonly TopLine[], all: readonly TopLine[], layout: Layout): readonly string[] {
  const { columns, styler, now } = layout;
  if (rowsPerLine(columns) === 2)
    return lines.flatMap((line) => twoLines(line, layout).map((text) => styleLine(line, text, styler)));
  const details = lines.map((line) => detailOf(line, now));
  return withLastColumn(jobTable(lines, all, layout), ['DETAIL', ...details], columns).map((text, index) => {
    const line = lines[index - 1];
    return line === undefined ? text : styleLine(line, text, styler);
  });
}

/** The last column that a narrower terminal loses comes last. Columns without any value are lost before all others. */
const dropOrder = ['NET', 'DISK%', 'ZONE', 'USER', 'ACCELERATOR', 'STEP/S', 'STEP', 'MEM%', 'IDLE', 'DUTY'] as const;
/** The detail gets at least this part of a terminal, or this width. */
const detailShare = 0.25;
const detailWidth = 40;

function jobTable(lines: readonly TopLine[], all: readonly TopLine[], layout: Layout): readonly string[] {
  const { columns } = layout;
  const widths = {
    id: widest(all, (line) => (line.kind === 'job' ? line.id : ''), 20),
    name: widest(all, nameOf, maxNameWidth(columns)),
  };
  const cells = jobColumns(layout, widths);
  const hasValue = (title: string): boolean => {
    const column = cells.find((one) => one.title === title);
    return all.some((line) => !/^ *-?$/.test(column?.text(line) ?? ''));
  };
  const empty = dropOrder.filter((title) => columns !== null && !hasValue(title));
  const most = columns === null ? null : columns - Math.min(detailWidth, Math.ceil(columns * detailShare)) - 2;
  return fittedTable(cells, lines, [...empty, ...dropOrder], most);
}

function widest(lines: readonly TopLine[], text: (line: TopLine) => string, most: number): number {
  return Math.min(
    most,
    lines.reduce((size, line) => Math.max(size, width(escapeLine(text(line)))), 4),
  );
}

/** Numbers have the widths of their usual values: a column that becomes wider would change every line of the screen. */
function jobColumns(
  layout: Layout,
  widths: { readonly id: number; readonly name: number },
): readonly Column<TopLine>[] {
  const { columns, now } = layout;
  const number = (title: string, size: number, text: (line: TopLine) => string): Column<TopLine> => ({
    title,
    side: 'right',
    text: (line) => padStart(text(line), size),
  });
  const fit = (text: string, size: number): string =>
    columns === null ? escapeLine(text) : padEnd(cutMiddle(escapeLine(text), size), size);
  return [
    {
      title: 'JOB',
      text: (line) => fit(line.kind === 'job' ? line.id : line.kind === 'tpu' ? '-' : '', widths.id),
    },
    { title: 'NAME', text: (line) => fit(nameOf(line), widths.name) },
    {
      title: 'USER',
      text: (line) => (line.kind === 'job' ? (line.owner ?? '-') : line.kind === 'tpu' ? line.user : ''),
    },
    { title: 'ACCELERATOR', text: (line) => (line.kind === 'worker' ? '' : (line.accelerator ?? '-')) },
    { title: 'ZONE', text: (line) => (line.kind === 'worker' ? '' : (line.zone ?? '-')) },
    { title: 'STATUS', text: (line) => padEnd(formatState(line, layout), statusWidth) },
    number('LOG', 3, (line) => (line.kind === 'tpu' || line.logAt === null ? '-' : formatAge(now - line.logAt))),
    number('CPU%', 4, (line) => formatPercent(figuresOf(line).cpu)),
    number('MEM%', 4, (line) => formatPercent(figuresOf(line).memory)),
    number('DISK%', 5, (line) => formatPercent(figuresOf(line).disk)),
    number('NET', 6, (line) => formatRate(figuresOf(line).network)),
    number('DUTY', 4, (line) => formatPercent(figuresOf(line).duty)),
    number('STEP/S', 6, (line) => (line.kind === 'job' ? formatPace(line.stepsPerSecond) : '')),
    number('STEP', 6, (line) => (line.kind === 'job' ? (line.step === null ? '-' : formatCount(line.step)) : '')),
    number('IDLE', 4, (line) =>
      line.kind === 'worker' ? '' : line.idleSinceAt === null ? '-' : formatAge(now - line.idleSinceAt),
    ),
  ];
}

/** Of `▸ running 4/4`. */
const statusWidth = 13;

function nameOf(line: TopLine): string {
  if (line.kind !== 'worker') return line.name;
  return line.pod ?? (line.worker === 'controller' ? 'controller' : `worker ${line.worker}`);
}

function formatState(line: TopLine, { unicode, now }: Layout): string {
  if (line.kind === 'tpu') return line.state;
  if (line.kind === 'worker') {
    if (line.silentSinceAt !== null) return `? silent ${formatAge(now - line.silentSinceAt)}`;
    const restarts = line.restarts === null || line.restarts === 0 ? '' : `, ${line.restarts}x`;
    return `${line.state ?? '-'}${restarts}`;
  }
  const { phase, runningCount, workerCount } = line;
  const symbol = lacksWorkers(line) ? '?' : glyph({ unicode }, phase);
  if (phase !== 'running' || workerCount === 0) return `${symbol} ${phase}`;
  return `${symbol} ${phase} ${runningCount ?? '-'}/${workerCount}`;
}

/** In percent, and in bytes per second; null for a TPU without a job. */
function figuresOf(line: TopLine): Readonly<Record<'cpu' | 'memory' | 'disk' | 'network' | 'duty', number | null>> {
  if (line.kind === 'tpu') return { cpu: null, memory: null, disk: null, network: null, duty: null };
  const { receivedBytesPerSecond: received, sentBytesPerSecond: sent } = line;
  return {
    cpu: line.cpuPercent,
    memory: line.kind === 'job' ? line.memoryPercent : percentOf(line.memoryUsedBytes, line.memoryTotalBytes),
    disk: line.kind === 'job' ? line.diskPercent : percentOf(line.diskUsedBytes, line.diskTotalBytes),
    network: received === null && sent === null ? null : (received ?? 0) + (sent ?? 0),
    duty: line.dutyPercent,
  };
}

/** The facts that are not numbers: the newest line of output, why nothing runs, why a worker is silent. */
function detailOf(line: TopLine, now: Instant): string {
  if (line.kind === 'tpu') {
    const price = line.pricePerHourUsd === null ? '' : `, ${formatPricePerHour(line.pricePerHourUsd)}`;
    return `no job, ${line.accelerator ?? '?'}${price}`;
  }
  if (line.kind === 'job') {
    const isWell = line.phase === 'running' && !lacksWorkers(line);
    return isWell && line.lastLine !== null ? line.lastLine : line.message;
  }
  if (line.silentSinceAt !== null) {
    const age = line.measuredAt === null ? '' : `, figures of ${formatAge(now - line.measuredAt)} ago`;
    return `${line.message ?? 'no answer'}${age}`;
  }
  return line.message ?? line.lastLine ?? (line.pod === null ? '' : (line.host ?? 'no node'));
}

/** True if a worker does not answer, or its program neither runs nor has exited. */
function lacksWorkers({ phase, runningCount, exitedCount, workerCount }: TopJob): boolean {
  return phase === 'running' && runningCount !== null && runningCount + exitedCount < workerCount;
}

function styleLine(line: TopLine, text: string, styler: Styler): string {
  if (line.kind === 'tpu') return line.idleSinceAt === null ? text : styler('bold', text);
  if (line.kind === 'worker') return line.silentSinceAt === null ? text : styler('magenta', text);
  const { phase, idleSinceAt } = line;
  if (phase === 'recovering' || lacksWorkers(line)) return styler('magenta', text);
  if (phase === 'failed') return styler('red', text);
  return idleSinceAt === null ? text : styler('bold', text);
}

function twoLines(line: TopLine, layout: Layout): readonly [string, string] {
  const { columns, now } = layout;
  const most = columns ?? narrowTerminal;
  const id = line.kind === 'job' ? line.id : line.kind === 'tpu' ? '-' : ' ';
  const { cpu, memory, duty } = figuresOf(line);
  const figures = [
    line.kind === 'tpu' || line.logAt === null ? '' : `log ${formatAge(now - line.logAt)}`,
    named('cpu', cpu),
    named('mem', memory),
    named('duty', duty),
    line.kind === 'worker' || line.idleSinceAt === null ? '' : `idle ${formatAge(now - line.idleSinceAt)}`,
  ].filter((text) => text !== '');
  return [
    cutEnd(`${escapeLine(id)}  ${escapeLine(nameOf(line))}`, most),
    cutEnd(`  ${escapeLine(formatState(line, layout))}  ${figures.join(' ')}`.trimEnd(), most),
  ];
}

function named(name: string, percent: number | null): string {
  return percent === null ? '' : `${name} ${formatPercent(percent)}`;
}

function formatPercent(value: number | null): string {
  return value === null ? '-' : String(Math.round(value));
}

/** Bytes in a second in four characters: `0`, `850`, `1.2k`, `34M`. */
function formatRate(bytes: number | null): string {
  if (bytes === null) return '-';
  const units = ['', 'k', 'M', 'G', 'T'];
  let value = bytes;
  let unit = 0;
  for (; value >= 1_000 && unit < units.length - 1; unit += 1) value /= 1_000;
  return `${unit === 0 || value >= 10 ? Math.round(value) : value.toFixed(1)}${units[unit]}`;
}

function formatPace(perSecond: number | null): string {
  if (perSecond === null) return '-';
  return perSecond >= 100 ? String(Math.round(perSecond)) : perSecond.toPrecision(3);
}
