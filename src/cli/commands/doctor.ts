import type { CheckResult } from '../../app/doctor.ts';
import { exitCode } from '../../app/errors.ts';
import { escapeLine, formatList, pluralize } from '../../app/format.ts';
import type { Duration } from '../../core/model/time.ts';
import { drawStatusLine } from '../block.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { aligned } from '../render/aligned.ts';
import { columnsOf } from '../screen.ts';

const redrawInterval: Duration = 200;

export async function doctor(cli: Cli, _flags: GlobalFlags): Promise<number> {
  let running: readonly string[] = [];
  const status = drawStatusLine(cli, redrawInterval, () =>
    running.length === 0 ? null : `Checking ${formatList(running)} ...`,
  );
  let results: readonly CheckResult[];
  try {
    results = await cli.services.doctor((names) => {
      running = names;
    });
  } finally {
    status.end();
  }
  if (cli.json) cli.printJsonLines(results);
  else {
    const columns = columnsOf(cli.io.stdout);
    const rows = mergeUnknown(results);
    const width = Math.max(...rows.map(({ check }) => check.length));
    cli.printAll(rows.flatMap((row, index) => resultLines(row, rows[index - 1], width, columns)));
    cli.note(formatSummary(results));
  }
  return results.some(({ state }) => state === 'problem') ? exitCode.failed : exitCode.ok;
}

/** Checks that lack the same thing are one row, below the others. */
function mergeUnknown(results: readonly CheckResult[]): readonly CheckResult[] {
  const isPlain = ({ state, remedy }: CheckResult) => state === 'unknown' && remedy === null;
  const byMessage = Map.groupBy(results.filter(isPlain), ({ message }) => message);
  const merged = [...byMessage].filter(([, some]) => some.length > 1);
  const isMerged = (one: CheckResult) => merged.some(([, some]) => some.includes(one));
  return [
    ...results.filter((one) => !isMerged(one)),
    ...merged.map(([message, some]): CheckResult => {
      const names = formatList(some.map(({ check }) => check));
      return {
        check: pluralize(some.length, 'check'),
        state: 'unknown',
        message: `${names}: ${message}`,
        remedy: null,
      };
    }),
  ];
}

function resultLines(
  { check, state, message, remedy }: CheckResult,
  before: CheckResult | undefined,
  nameWidth: number,
  columns: number | null,
): readonly string[] {
  const name = before?.check === check ? '' : check;
  const row = (first: string, second: string, text: string) =>
    [first.padEnd(stateWidth), second.padEnd(nameWidth), escapeLine(text)] as const;
  const lines = aligned([row(state, name, message)], ['left', 'left', 'left'], columns, 'wrap');
  // A command is not broken into lines, so that it can be copied.
  return remedy === null ? lines : [...lines, `${' '.repeat(stateWidth + nameWidth + 4)}${escapeLine(remedy)}`];
}

const stateWidth = 'problem'.length;

function formatSummary(results: readonly CheckResult[]): string {
  const count = (state: CheckResult['state']) => results.filter((one) => one.state === state).length;
  const parts = [
    count('problem') === 0 ? 'No problem' : pluralize(count('problem'), 'problem'),
    ...(count('warning') === 0 ? [] : [pluralize(count('warning'), 'warning')]),
    ...(count('unknown') === 0 ? [] : [`${count('unknown')} unknown`]),
  ];
  return `${formatList(parts)}.`;
}
