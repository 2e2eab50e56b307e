// The monitor: the rows of `tpu check` in place, drawn anew where they changed, with letters that show and hide columns. Where
// nothing can be drawn in place, each row that changed is a line.

import { exitCode, JobmanError } from '../../../app/errors.ts';
import { second, type Duration, type Instant } from '../../../core/time.ts';
import { isUnderWay, type CheckRow } from '../../../lab/check.ts';
import { nameOf } from '../../../lab/lineage.ts';
import type { Looker } from '../../../lab/looking.ts';
import type { LabUser } from '../../../lab/people.ts';
import { controllerEvery, controllerNote, wakerOf } from '../../controller.ts';
import { leaveOnSignal, pause } from '../../leave.ts';
import { createPainter } from '../../painter.ts';
import { cutEnd, width } from '../../render/cell.ts';
import { inertWord } from '../../render/inert.ts';
import { listen, nextKeys } from '../../watch/keyboard.ts';
import { openWindow } from '../../window.ts';
import type { TpuCli } from '../tpu-cli.ts';
import { clockFor, zoneText } from './clock.ts';
import { columnsFor, isColumn, toggled, type ColumnLetter } from './columns.ts';
import { rowJson } from './row-json.ts';
import { rowLines } from './rows.ts';

/** An answer to a key or to a resize comes within this. */
const wakeEvery: Duration = 250;
/** Terminals tell every step of a resize; drawing waits until it has come to rest. */
const resizeRest: Duration = 100;
/** A row that changed is bold for so long. */
const boldFor: Duration = 5 * second;

export interface Watched {
  readonly user: LabUser;
  /** As the line says them; empty: as the settings say. */
  readonly letters: string;
  readonly looker: Looker;
}

/** Goes on until the user leaves; the last frame stays. */
export async function watchWindows(desk: TpuCli, watched: Watched): Promise<number> {
  const { signal, release } = leaveOnSignal(desk);
  const unwatch = desk.io.stdout.watchReader();
  try {
    return desk.json || !desk.screen.live
      ? await watchLines(desk, watched, signal)
      : await watchScreen(desk, watched, signal);
  } finally {
    release();
    unwatch();
    watched.looker.keep();
  }
}

/** What makes a row another one. What it printed last is none of it: that changes all the time. */
function factsOf(row: CheckRow): string {
  return JSON.stringify({ ...row, message: '' });
}

// ------------------------------------------------------------------------------------------ on a terminal

async function watchScreen(desk: TpuCli, { user, letters, looker }: Watched, signal: AbortSignal): Promise<number> {
  const { io, screen } = desk;
  const every = user.settings.monitor_upd_time * second;
  const painter = createPainter(io.stdout);
  const window = await openWindow(desk, io.stdout, screen.live);
  const keyboard = io.stdin.isTerminal ? listen(io.stdin) : undefined;
  let columns = columnsFor(letters, user.settings);
  let rows: readonly CheckRow[] = [];
  let known: ReadonlyMap<string, string> | null = null;
  const changedAt = new Map<string, Instant>();
  let lookedAt: Instant = Number.NEGATIVE_INFINITY;
  let trouble: string | null = null;
  let restsAt: Instant | null = null;
  const stopListening = io.stdout.onResize(() => {
    restsAt = io.now() + resizeRest;
  });

  let controllerAt: Instant = Number.NEGATIVE_INFINITY;
  let controller: string | null = null;
  /** One that was killed, as by a reboot, is brought back; that none runs stands beside what was last seen. */
  async function controllerNow(now: Instant): Promise<string | null> {
    if (now - controllerAt < controllerEvery) return controller;
    controllerAt = now;
    controller = await controllerNote(desk, wakerOf(desk), rows.some(isUnderWay));
    return controller;
  }

  async function look(): Promise<void> {
    const now = io.now();
    lookedAt = now;
    try {
      rows = await looker.look(now);
      trouble = await controllerNow(now);
    } catch (error) {
      // Before there was anything to show, there is nothing to go on with.
      if (!(error instanceof JobmanError) || known === null) throw error;
      trouble = error.message.split('\n')[0] ?? '';
      return;
    }
    const before = known;
    known = new Map(rows.map((row) => [nameOf(row), factsOf(row)]));
    for (const [name, facts] of known) if (before !== null && before.get(name) !== facts) changedAt.set(name, now);
  }

  function draw(): void {
    const now = io.now();
    for (const [name, at] of changedAt) if (now - at >= boldFor) changedAt.delete(name);
    window.title(`${user.name}: ${countsText(rows)}`);
    painter.draw(
      frame(rows, {
        ...io.stdout.size(),
        letters: columns,
        ink: screen.out,
        clock: clockFor(user.settings.time_zone, lookedAt),
        bold: new Set(changedAt.keys()),
        user,
        lookedAt,
        trouble,
        hasKeys: keyboard !== undefined,
      }),
    );
  }

  try {
    while (!signal.aborted && !io.stdout.closed) {
      const isDue = io.now() - lookedAt >= every;
      if (isDue) await look();
      const hasComeToRest: boolean = restsAt !== null && io.now() >= restsAt;
      if (hasComeToRest) restsAt = null;
      if ((isDue || hasComeToRest) && restsAt === null) draw();
      const wait = Math.max(1, Math.min(wakeEvery, lookedAt + every - io.now()));
      const keys = await nextKeys(keyboard, wait, signal);
      for (const key of keys) {
        if (key === 'interrupt') return exitCode.interrupted;
        if (key === 'q' || key === 'leave' || key === 'escape') return exitCode.ok;
        // The shell has written below the block meanwhile.
        if (key === 'resumed') painter.leave();
        if (isColumn(key)) columns = toggled(columns, key);
      }
      if (keys.length > 0) draw();
    }
    return signal.aborted ? exitCode.interrupted : exitCode.ok;
  } finally {
    stopListening();
    keyboard?.close();
    painter.leave();
    window.close();
  }
}

export interface Frame {
  readonly columns: number;
  readonly rows: number;
  readonly letters: readonly ColumnLetter[];
  readonly ink: Parameters<typeof rowLines>[1]['ink'];
  readonly clock: (at: Instant) => string;
  readonly bold: ReadonlySet<string>;
  readonly user: LabUser;
  readonly lookedAt: Instant;
  /** Why what is shown is what was known before; null while it is not. */
  readonly trouble: string | null;
  readonly hasKeys: boolean;
}

/** One picture, never wider than the terminal and never taller: where not all rows fit, the newest do. */
export function frame(rows: readonly CheckRow[], picture: Frame): readonly string[] {
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

/** `ada  3 windows, 2 running  08:20:14 us (UTC-4)  every 5 s  wdtsv show and hide, q leaves`, in fewer words where there is less room. */
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

/** `3 windows, 2 running`. */
function countsText(rows: readonly CheckRow[]): string {
  const running = rows.filter(({ status }) => status.kind === 'running').length;
  const windows = rows.length === 1 ? '1 window' : `${rows.length === 0 ? 'no' : rows.length} windows`;
  return running === 0 ? windows : `${windows}, ${running} running`;
}

// ------------------------------------------------------------------------------------------ elsewhere

async function watchLines(desk: TpuCli, { user, letters, looker }: Watched, signal: AbortSignal): Promise<number> {
  const { io, screen } = desk;
  const columns = columnsFor(letters, user.settings);
  const known = new Map<string, string>();
  let isFirst = true;
  let hasSaid = false;
  while (!signal.aborted && !io.stdout.closed) {
    const now = io.now();
    const rows = await looker.look(now);
    const changed = rows.filter((row) => known.get(nameOf(row)) !== factsOf(row));
    for (const row of changed) known.set(nameOf(row), factsOf(row));
    if (rows.length === 0 && !hasSaid)
      desk.note(inertWord(`${user.name} has no windows yet; waiting for one. Ctrl-C leaves.`));
    hasSaid = true;
    if (changed.length > 0) {
      const layout = {
        letters: columns,
        columns: null,
        ink: screen.out,
        clock: clockFor(user.settings.time_zone, now),
      };
      const { heading, rows: lines } = rowLines(changed, layout);
      const text = desk.json
        ? changed.map((row) => JSON.stringify(rowJson(row)))
        : [...(isFirst ? heading : []), ...lines.flat()];
      io.stdout.write(text.map((line) => `${line}\n`).join(''));
      await io.stdout.flush();
      isFirst = false;
    }
    await pause(user.settings.monitor_upd_time * second, signal);
  }
  return signal.aborted ? exitCode.interrupted : exitCode.ok;
}
