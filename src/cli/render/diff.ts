import type { Difference, DiffSide, ValueDifference } from '../../app/diff.ts';
import { escapeForTerminal, escapeLine, formatDuration, formatUsd } from '../../app/format.ts';
import type { Styler } from '../screen.ts';
import { aligned } from './aligned.ts';
import { cutEnd, width } from './cell.ts';

interface DiffLayout {
  /** Null without a terminal: then nothing is cut. */
  readonly columns: number | null;
  readonly styleOut: Styler;
}

/** By section: a table of the fields, then the texts as unified diffs. */
export function diffLines(
  left: DiffSide,
  right: DiffSide,
  differences: readonly Difference[],
  layout: DiffLayout,
): readonly string[] {
  const { styleOut: styler } = layout;
  const sections = Map.groupBy(differences.filter(isVisible), ({ section }) => section);
  const head = [styler('red', `--- ${formatSide(left)}`), styler('green', `+++ ${formatSide(right)}`)];
  return [
    ...head,
    ...[...sections].flatMap(([section, all]) => [
      '',
      styler('bold', section),
      ...valueLines(
        all.filter((one) => one.kind === 'value'),
        layout,
      ),
      ...all.flatMap((one) => (one.kind === 'text' ? patchLines(one.patch, layout) : [])),
    ]),
  ];
}

/** `000042 vit, attempt 3`. */
export function formatSide({ job, name, attempt }: DiffSide): string {
  return escapeLine(`${job}${name === job ? '' : ` ${name}`}${attempt === null ? '' : `, attempt ${attempt}`}`);
}

/** On a terminal both values stay visible: the key and the first value are cut. */
function valueLines(differences: readonly ValueDifference[], { columns }: DiffLayout): readonly string[] {
  if (differences.length === 0) return [];
  const rows = differences.map(({ key, left, right }) => [
    escapeLine(key),
    formatValue(key, left),
    formatValue(key, right),
  ]);
  const keyWidth = Math.max(...rows.map(([key = '']) => width(key)));
  const most = columns === null ? null : Math.max(8, Math.floor((columns - Math.min(keyWidth, columns / 3) - 4) / 2));
  const cut = rows.map(([key = '', one = '', other = '']) =>
    columns === null || most === null
      ? [key, one, other]
      : [cutEnd(key, Math.floor(columns / 3)), cutEnd(one, most), cutEnd(other, most)],
  );
  return aligned(cut, ['left', 'left', 'left'], columns);
}

/** False for two durations or amounts of which people see the same. */
function isVisible(difference: Difference): boolean {
  if (difference.kind === 'text') return true;
  const { key, left, right } = difference;
  return formatValue(key, left) !== formatValue(key, right);
}

function formatValue(key: string, value: unknown): string {
  if (value === null) return '-';
  if (typeof value === 'number' && key.endsWith('Ms')) return formatDuration(value);
  if (typeof value === 'number' && key.endsWith('Usd')) return formatUsd(value);
  if (typeof value === 'number') return String(Number(value.toFixed(3)));
  return escapeLine(typeof value === 'string' ? value : JSON.stringify(value));
}

function patchLines(patch: string, { styleOut: styler }: DiffLayout): readonly string[] {
  return patch
    .trimEnd()
    .split('\n')
    .map((line) => {
      const shown = escapeForTerminal(line, false);
      return line.startsWith('+') ? styler('green', shown) : line.startsWith('-') ? styler('red', shown) : shown;
    });
}
