// The monitor: the rows of `tpu check`, drawn in place. Letters show and hide columns. Without a terminal each changed
// row is a line.

import { JobmanError } from '../../../app/errors.ts';
import { second, type Instant } from '../../../core/model/time.ts';
import { type CheckRow, isUnderWay } from '../../../lab/check-rows.ts';
import { attemptKey } from '../../../lab/lineage.ts';
import type { LabUser } from '../../../lab/users.ts';
import { createControllerCheck, createWaker } from '../../controller.ts';
import { cutEnd, width } from '../../render/cell.ts';
import { escapeLine } from '../../../app/format.ts';
import { createRowTracker, watchUntilExit, type LiveScreen } from '../../watch/live.ts';
import type { TpuCli } from '../command.ts';
import { timeFormatter, formatTimeZone } from '../../../lab/local-time.ts';
import { timesAsText } from '../../../app/json.ts';
import { type ColumnLetter, columnsFor, isColumn, rowJson, rowLines, toggleColumn } from './rows.ts';

export interface MonitorOptions {
  readonly user: LabUser;
  readonly letters: string;
}

/** Runs until the user leaves. The last frame stays on the screen. */
export async function watchWindows(cli: TpuCli, watched: MonitorOptions): Promise<number> {
  return watchUntilExit(cli, {
    screen: ({ keyboard }) => windowScreen(cli, watched, keyboard !== undefined),
    lines: rowPrinter(cli, watched),
    linesInterval: watched.user.settings.monitor_upd_time * second,
  });
}

/** Equal for equal rows. The last output changes all the time, so it does not count. */
function comparableRow(row: CheckRow): string {
  return JSON.stringify({ ...row, message: '' });
}

function windowScreen(cli: TpuCli, { user, letters }: MonitorOptions, hasKeys: boolean): LiveScreen {
  const { io, screen } = cli;
  const every = user.settings.monitor_upd_time * second;
  const seen = createRowTracker(attemptKey, comparableRow);
  let columns = columnsFor(letters, user.settings);
  let rows: readonly CheckRow[] = [];
  let checkedAt: Instant = Number.NEGATIVE_INFINITY;
  const checkController = createControllerCheck(cli, createWaker(cli));
  let trouble: string | null = null;
  return {
    async poll() {
      const now = io.now();
      if (now - checkedAt < every) return false;
      checkedAt = now;
      try {
        rows = await cli.lab.checkRows(user, now);
        // Restarts a controller that was killed, as by a reboot. A missing controller is reported next to the rows.
        trouble = await checkController(rows.some(isUnderWay));
        seen.update(rows, now);
      } catch (error) {
        // Without any rows yet there is nothing to show, so the error ends the monitor.
        if (!(error instanceof JobmanError) || !seen.isBegun) throw error;
        trouble = error.message.split('\n')[0] ?? '';
      }
      return true;
    },
    render: (size) => ({
      title: `${user.name}: ${formatCounts(rows)}`,
      lines: renderFrame(rows, {
        ...size,
        letters: columns,
        style: screen.styleOut,
        clock: timeFormatter(user.settings.time_zone, checkedAt),
        bold: seen.recentlyChanged(io.now()),
        user,
        checkedAt,
        trouble,
        hasKeys,
      }),
    }),
    press(key) {
      if (key === 'interrupt') return key;
      if (key === 'q' || key === 'leave' || key === 'escape') return 'leave';
      if (isColumn(key)) columns = toggleColumn(columns, key);
      return null;
    },
  };
}

interface Frame {
  readonly columns: number;
  readonly rows: number;
  readonly letters: readonly ColumnLetter[];
  readonly style: Parameters<typeof rowLines>[1]['style'];
  readonly clock: (at: Instant) => string;
  readonly bold: ReadonlySet<string>;
  readonly user: LabUser;
  readonly checkedAt: Instant;
  readonly trouble: string | null;
  readonly hasKeys: boolean;
}

/** One frame that fits the terminal. If not all rows fit, it shows the newest. */
function renderFrame(rows: readonly CheckRow[], picture: Frame): readonly string[] {
  const { columns, letters, style, clock, bold } = picture;
  const lines = rowLines(rows, { letters, columns, style, clock, bold });
  const head = [headerLine(rows, picture), ...lines.heading];
  const footer = ['', footerLine(picture)];
  const body = lines.rows.flat();
  const room = picture.rows - 1 - head.length - footer.length;
  if (body.length <= room) return [...head, ...body, ...footer];
  const shown = body.slice(body.length - Math.max(0, room - 1));
  const frame = [...head, `${body.length - shown.length} more above`, ...shown, ...footer];
  return frame.slice(0, Math.max(1, picture.rows - 1));
}

function footerLine({ columns, hasKeys }: Frame): string {
  if (!hasKeys) return 'Ctrl-C quit';
  const long = 'show or hide: w window · d directory · t TPU · s status · v output     q quit';
  return width(long) <= columns ? long : cutEnd('q quit  w d t s v columns', columns);
}

function headerLine(rows: readonly CheckRow[], picture: Frame): string {
  const { user, columns, trouble, clock, checkedAt } = picture;
  const parts = [
    `${escapeLine(user.name)}  ${formatCounts(rows)}`,
    ...(trouble === null ? [] : [`not updated: ${escapeLine(trouble)}`]),
    `${clock(checkedAt)} ${formatTimeZone(user.settings.time_zone)}`,
    `every ${user.settings.monitor_upd_time} s`,
  ];
  return cutEnd(parts.join('  '), columns);
}

function formatCounts(rows: readonly CheckRow[]): string {
  const running = rows.filter(({ status }) => status.kind === 'running').length;
  const windows = rows.length === 1 ? '1 window' : `${rows.length === 0 ? 'no' : rows.length} windows`;
  return running === 0 ? windows : `${windows}, ${running} running`;
}

function rowPrinter(cli: TpuCli, { user, letters }: MonitorOptions): () => Promise<readonly string[]> {
  const { io, screen } = cli;
  const columns = columnsFor(letters, user.settings);
  const seen = createRowTracker(attemptKey, comparableRow);
  let hasHeading = false;
  return async () => {
    const now = io.now();
    const rows = await cli.lab.checkRows(user, now);
    if (rows.length === 0 && !seen.isBegun)
      cli.note(escapeLine(`${user.name} has no windows yet. Waiting for one; press Ctrl-C to quit.`));
    const changed = seen.update(rows, now);
    if (cli.json) return changed.map((row) => JSON.stringify(rowJson(row), timesAsText));
    if (changed.length === 0) return [];
    const clock = timeFormatter(user.settings.time_zone, now);
    const { heading, rows: lines } = rowLines(changed, {
      letters: columns,
      columns: null,
      style: screen.styleOut,
      clock,
    });
    const all = [...(hasHeading ? [] : heading), ...lines.flat()];
    hasHeading = true;
    return all;
  };
}
