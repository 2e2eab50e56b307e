// The monitor: the rows of `tpu check`, drawn in place, with letters that show and hide columns. Without a terminal each changed
// row is a line.

import { JobmanError } from '../../../app/errors.ts';
import { second, type Instant } from '../../../core/time.ts';
import { type CheckRow, isUnderWay, type Looker } from '../../../lab/check.ts';
import { nameOf } from '../../../lab/lineage.ts';
import type { LabUser } from '../../../lab/people.ts';
import { controllerEvery, controllerNote, wakerOf } from '../../controller.ts';
import { cutEnd, width } from '../../render/cell.ts';
import { inertWord } from '../../../app/figures.ts';
import { createSeenRows, watchUntilLeft, type LiveScreen } from '../../watch/live.ts';
import type { TpuCli } from '../command.ts';
import { clockFor, zoneText } from '../../../lab/local-time.ts';
import { type ColumnLetter, columnsFor, isColumn, rowJson, rowLines, toggled } from './rows.ts';

export interface Watched {
  readonly user: LabUser;
  readonly letters: string;
  readonly looker: Looker;
}

/** Goes on until the user leaves; the last frame stays. */
export async function watchWindows(desk: TpuCli, watched: Watched): Promise<number> {
  try {
    return await watchUntilLeft(desk, {
      screen: ({ keyboard }) => windowScreen(desk, watched, keyboard !== undefined),
      lines: rowPrinter(desk, watched),
      linesEvery: watched.user.settings.monitor_upd_time * second,
    });
  } finally {
    watched.looker.keep();
  }
}

/** Equal for equal rows. The last output is left out, because it changes all the time. */
function factsOf(row: CheckRow): string {
  return JSON.stringify({ ...row, message: '' });
}

function windowScreen(desk: TpuCli, { user, letters, looker }: Watched, hasKeys: boolean): LiveScreen {
  const { io, screen } = desk;
  const every = user.settings.monitor_upd_time * second;
  const seen = createSeenRows(nameOf, factsOf);
  let columns = columnsFor(letters, user.settings);
  let rows: readonly CheckRow[] = [];
  let lookedAt: Instant = Number.NEGATIVE_INFINITY;
  let controllerAt: Instant = Number.NEGATIVE_INFINITY;
  let controller: string | null = null;
  let trouble: string | null = null;
  return {
    async look() {
      const now = io.now();
      if (now - lookedAt < every) return false;
      lookedAt = now;
      try {
        rows = await looker.look(now);
        // One that was killed, as by a reboot, is brought back; that none runs stands beside what was last seen.
        if (now - controllerAt >= controllerEvery) {
          controllerAt = now;
          controller = await controllerNote(desk, wakerOf(desk), rows.some(isUnderWay));
        }
        trouble = controller;
        seen.take(rows, now);
      } catch (error) {
        // Before there was anything to show, there is nothing to go on with.
        if (!(error instanceof JobmanError) || !seen.isBegun) throw error;
        trouble = error.message.split('\n')[0] ?? '';
      }
      return true;
    },
    picture: (size) => ({
      title: `${user.name}: ${countsText(rows)}`,
      lines: frame(rows, {
        ...size,
        letters: columns,
        ink: screen.out,
        clock: clockFor(user.settings.time_zone, lookedAt),
        bold: seen.recent(io.now()),
        user,
        lookedAt,
        trouble,
        hasKeys,
      }),
    }),
    press(key) {
      if (key === 'interrupt') return key;
      if (key === 'q' || key === 'leave' || key === 'escape') return 'leave';
      if (isColumn(key)) columns = toggled(columns, key);
      return null;
    },
  };
}

interface Frame {
  readonly columns: number;
  readonly rows: number;
  readonly letters: readonly ColumnLetter[];
  readonly ink: Parameters<typeof rowLines>[1]['ink'];
  readonly clock: (at: Instant) => string;
  readonly bold: ReadonlySet<string>;
  readonly user: LabUser;
  readonly lookedAt: Instant;
  /** The reason why older rows are shown; null while they are new. */
  readonly trouble: string | null;
  readonly hasKeys: boolean;
}

/** One picture, never wider than the terminal and never taller: where not all rows fit, the newest do. */
function frame(rows: readonly CheckRow[], picture: Frame): readonly string[] {
  const { columns, letters, ink, clock, bold } = picture;
  const lines = rowLines(rows, { letters, columns, ink, clock, bold });
  const head = [headLine(rows, picture), ...lines.heading];
  // One row is left for the cursor.
  const room = picture.rows - 1 - head.length;
  const all = lines.rows.reduce((sum, one) => sum + one.length, 0);
  if (all <= room) return [...head, ...lines.rows.flat()];
  const shown: string[] = [];
  let from = lines.rows.length;
  for (; from > 0; from -= 1) {
    const next = lines.rows[from - 1] ?? [];
    if (shown.length + next.length > room - 1) break;
    shown.unshift(...next);
  }
  return [...head, `${from} above`, ...shown].slice(0, Math.max(1, picture.rows - 1));
}

/** In fewer words where there is less room. */
function headLine(rows: readonly CheckRow[], picture: Frame): string {
  const { user, columns, trouble, hasKeys, clock, lookedAt } = picture;
  const what = `${inertWord(user.name)}  ${countsText(rows)}`;
  const when = `${clock(lookedAt)} ${zoneText(user.settings.time_zone)}`;
  const every = `every ${user.settings.monitor_upd_time} s`;
  const keys = hasKeys ? 'w d t s v show and hide, q leaves' : 'Ctrl-C leaves';
  const short = hasKeys ? 'wdtsv q' : 'Ctrl-C';
  const stale = trouble === null ? [] : [`as of then: ${inertWord(trouble)}`];
  const ways = [
    [what, when, every, ...stale, keys],
    [what, when, ...stale, keys],
    [what, when, ...stale, short],
    [what, clock(lookedAt), ...stale, short],
    [what, ...stale],
  ].map((parts) => parts.join('  '));
  return ways.find((way) => width(way) <= columns) ?? cutEnd(ways.at(-1) ?? '', columns);
}

function countsText(rows: readonly CheckRow[]): string {
  const running = rows.filter(({ status }) => status.kind === 'running').length;
  const windows = rows.length === 1 ? '1 window' : `${rows.length === 0 ? 'no' : rows.length} windows`;
  return running === 0 ? windows : `${windows}, ${running} running`;
}

function rowPrinter(desk: TpuCli, { user, letters, looker }: Watched): () => Promise<readonly string[]> {
  const { io, screen } = desk;
  const columns = columnsFor(letters, user.settings);
  const seen = createSeenRows(nameOf, factsOf);
  let hasHeading = false;
  return async () => {
    const now = io.now();
    const rows = await looker.look(now);
    if (rows.length === 0 && !seen.isBegun)
      desk.note(inertWord(`${user.name} has no windows yet; waiting for one. Ctrl-C leaves.`));
    const changed = seen.take(rows, now);
    if (desk.json) return changed.map((row) => JSON.stringify(rowJson(row)));
    if (changed.length === 0) return [];
    const clock = clockFor(user.settings.time_zone, now);
    const { heading, rows: lines } = rowLines(changed, { letters: columns, columns: null, ink: screen.out, clock });
    const all = [...(hasHeading ? [] : heading), ...lines.flat()];
    hasHeading = true;
    return all;
  };
}
