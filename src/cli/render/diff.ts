import type { Difference, DiffSide, ValueDifference } from '../../app/diff.ts';
import {
  escapeForTerminal,
  escapeLine,
  formatBytes,
  formatDuration,
  formatHours,
  formatPricePerHour,
  formatUsd,
  reasonPhrases,
} from '../../app/format.ts';
import { formatExit } from '../../app/phrases.ts';
import type { Styler } from '../screen.ts';
import type { Exit } from '../../core/model/job.ts';
import { formatWorker } from '../../core/model/spec.ts';
import { aligned } from './aligned.ts';
import { cutEnd, width } from './cell.ts';

interface DiffLayout {
  /** Null without a terminal: then nothing is cut. */
  readonly columns: number | null;
  readonly styleOut: Styler;
}

/** By section: a table of the fields, then the texts as unified diffs. Empty if people see no difference. */
export function diffLines(
  left: DiffSide,
  right: DiffSide,
  differences: readonly Difference[],
  layout: DiffLayout,
): readonly string[] {
  const { styleOut: styler } = layout;
  const hasManifests = differences.some(({ section }) => section === 'manifest');
  const shown = differences.filter((one) => isVisible(one) && !(hasManifests && isWrittenInManifest(one)));
  if (shown.length === 0) return [];
  const sections = Map.groupBy(shown, ({ section }) => section);
  const head = [styler('red', `--- ${formatSide(left)}`), styler('green', `+++ ${formatSide(right)}`)];
  return [
    ...head,
    ...[...sections].flatMap(([section, all]) => [
      '',
      styler('bold', headingOf(section, left, right)),
      ...valueLines(
        all.filter((one) => one.kind === 'value'),
        layout,
      ),
      ...all.flatMap((one) => (one.kind === 'text' ? patchLines(one.patch, layout) : [])),
    ]),
  ];
}

/** A field is that of the job or that of the attempts in the first two lines. */
function headingOf(section: string, left: DiffSide, right: DiffSide): string {
  if ((left.attempt ?? right.attempt) === null) return section;
  if (section === 'job') return 'job, all attempts';
  if (section !== 'result') return section;
  return left.attempt === right.attempt ? `result of attempt ${left.attempt}` : 'result of the attempts';
}

/** `000042 vit, attempt 3`. */
export function formatSide({ job, name, attempt }: DiffSide): string {
  return escapeLine(`${job}${name === job ? '' : ` ${name}`}${attempt === null ? '' : `, attempt ${attempt}`}`);
}

/** On a terminal both values stay visible: the key and the first value are cut. */
function valueLines(differences: readonly ValueDifference[], { columns }: DiffLayout): readonly string[] {
  if (differences.length === 0) return [];
  const rows = differences.map(({ section, key, left, right }) => {
    const field = `${section}.${key}`;
    const format = (value: unknown) => (value === null ? '-' : escapeLine(formatValue(field, value)));
    const title = escapeLine(titles.get(field) ?? key.replace(/^metrics\.last\./, 'last '));
    return [title, format(left), format(right)] as const;
  });
  const sides = ['left', 'left', 'left'] as const;
  if (columns === null) return aligned(rows, sides, null);
  const keyWidth = Math.min(columns / 3, Math.max(...rows.map(([key]) => width(key))));
  const most = Math.max(8, Math.floor((columns - keyWidth - 4) / 2));
  const cut = rows.map(([key, one, other]) => [
    cutEnd(key, Math.floor(columns / 3)),
    cutEnd(one, most),
    cutEnd(other, most),
  ]);
  return aligned(cut, sides, columns);
}

/** False for two durations or amounts of which people see the same. */
function isVisible(difference: Difference): boolean {
  if (difference.kind === 'text') return true;
  const { section, key, left, right } = difference;
  const field = `${section}.${key}`;
  return formatValue(field, left) !== formatValue(field, right);
}

/** The resolved manifest, which follows from the manifest as written. */
function isWrittenInManifest({ section }: Difference): boolean {
  return section === 'spec';
}

/** Of the cost of a job or of an attempt. */
const costTitles = [
  ['estimateUsd', 'estimate'],
  ['chipMs', 'chip-hours'],
  ['usefulMs', 'useful'],
  ['lostMs', 'lost'],
  ['setupMs', 'setup'],
  ['idleMs', 'idle'],
  ['keptMs', 'kept'],
  ['waitingMs', 'waiting'],
] as const;

/** The names that `show` and `cost` give to these fields. All other fields have their path in the JSON. */
const titles: ReadonlyMap<string, string> = new Map([
  ...costTitles.flatMap(([key, title]) => [
    [`job.cost.${key}`, title] as const,
    [`result.cost.${key}`, title] as const,
  ]),
  ['result.startMode', 'start mode'],
  ['result.startedBy', 'started by'],
  ['result.evidence', 'because'],
  ['result.podsSucceeded', 'pods succeeded'],
  ['result.podsFailed', 'pods failed'],
  ['result.ranMs', 'ran'],
  ['result.metrics.lastStep', 'last step'],
  ['result.metrics.stepsPerSecond', 'steps/s'],
  ['hosts.nodeCount', 'nodes'],
  ['hosts.runtimeVersion', 'runtime version'],
  ['hosts.pricePerHourUsd', 'price'],
  ['workdir.changed', 'with changes'],
  ['workdir.bytes', 'size'],
]);

/** `field`: the section and the key. */
function formatValue(field: string, value: unknown): string {
  if (typeof value === 'number') return formatNumber(field, value);
  if (typeof value === 'string') return field === 'result.reason' ? (reasons.get(value) ?? value) : value;
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (!Array.isArray(value)) return JSON.stringify(value);
  if (field === 'result.exits') return (value as readonly DiffExit[]).map(formatExitOf).join('; ') || '-';
  return value.every((one) => typeof one === 'string') ? value.join(', ') || '-' : JSON.stringify(value);
}

const reasons: ReadonlyMap<string, string> = new Map(Object.entries(reasonPhrases));

function formatNumber(field: string, value: number): string {
  if (field.endsWith('chipMs')) return formatHours(value);
  if (field.endsWith('Ms')) return formatDuration(value);
  if (field === 'hosts.pricePerHourUsd') return formatPricePerHour(value);
  if (field.endsWith('Usd')) return formatUsd(value);
  if (field === 'workdir.bytes') return formatBytes(value);
  return String(field.startsWith('result.') && !Number.isInteger(value) ? Number(value.toPrecision(4)) : value);
}

interface DiffExit extends Pick<Exit, 'workers'> {
  readonly code: number;
  readonly signal: string | null;
}

function formatExitOf({ code: exitCode, signal, workers }: DiffExit): string {
  const exit = formatExit(signal === null ? { exitCode } : { exitCode, signal });
  return `${exit} on ${workers.map(formatWorker).join(', ')}`;
}

/** Of one text; `--json` has all. */
const maxPatchLines = 40;

function patchLines(patch: string, { styleOut: styler }: DiffLayout): readonly string[] {
  const lines = patch.trimEnd().split('\n');
  const rest = lines.length - maxPatchLines;
  return [
    ...lines.slice(0, rest > 1 ? maxPatchLines : undefined).map((line) => {
      const shown = escapeForTerminal(line, false);
      return line.startsWith('+') ? styler('green', shown) : line.startsWith('-') ? styler('red', shown) : shown;
    }),
    ...(rest > 1 ? [`... ${rest} more lines of this difference: --json`] : []),
  ];
}
