// list --watch: the table in place, redrawn when something changes.

import type { Client, JobList, JobRow, ListQuery } from '../app/client.ts';
import { exitCode } from '../app/errors.ts';
import { localClockText } from '../app/figures.ts';
import type { Duration, Instant } from '../core/time.ts';
import type { Cli } from './context.ts';
import { leaveOnSignal, pause } from './follow/loop.ts';
import { rowJson } from './json.ts';
import { createPainter } from './painter.ts';
import { cutEnd, width } from './render/cell.ts';
import { linesPerJob, listLines } from './render/list.ts';

/** Looks at the record this often; it draws only when something on the screen is different. */
const lookEvery: Duration = 250;
/** Ages grow without any change of the record. */
const ageEvery: Duration = 1_000;
/** Terminals tell every step of a resize; drawing waits until it has come to rest. */
const resizeRest: Duration = 100;

/** Goes on until the user leaves; the last frame stays. Without a terminal: every row as it is, then each that changed. */
export async function watchList(cli: Cli, client: Client, query: ListQuery): Promise<number> {
  const { signal, release } = leaveOnSignal(cli);
  try {
    return cli.json || !cli.io.stdout.isTerminal
      ? await watchRows(cli, client, query, signal)
      : await watchTable(cli, client, query, signal);
  } finally {
    release();
  }
}

async function watchTable(cli: Cli, client: Client, query: ListQuery, signal: AbortSignal): Promise<number> {
  const { io, screen } = cli;
  const painter = createPainter(io.stdout);
  let changes = -1;
  let jobs: JobList = { rows: [], more: 0, notes: [] };
  let readAt: Instant = 0;
  let restsAt: Instant = 0;
  const stopListening = io.stdout.onResize(() => {
    restsAt = io.now() + resizeRest;
  });
  try {
    while (!signal.aborted && !io.stdout.closed) {
      const now = io.now();
      const seen = await client.changes();
      if (seen !== changes || now - readAt >= ageEvery) {
        jobs = await client.list(query);
        changes = seen;
        readAt = now;
      }
      if (now >= restsAt) {
        const { columns, rows } = io.stdout.size();
        const lines = listLines(jobs.rows, { columns, ink: screen.out, unicode: screen.unicode, now });
        painter.draw(withinScreen(lines, stateLine(jobs, now, columns), rows, linesPerJob(columns)));
      }
      await pause(lookEvery, signal);
    }
  } finally {
    stopListening();
    painter.leave();
  }
  return signal.aborted ? exitCode.interrupted : exitCode.ok;
}

/** As many whole jobs as fit above the last line, and how many do not. One row is left for the cursor. */
export function withinScreen(lines: readonly string[], last: string, rows: number, perJob: number): readonly string[] {
  const room = Math.max(1, rows - 2);
  if (lines.length <= room) return [...lines, last];
  // The heading is of one line, and there is none above two-line rows.
  const heading = perJob === 1 ? 1 : 0;
  const jobs = Math.floor((Math.max(1, room - 1) - heading) / perJob);
  const shown = lines.slice(0, heading + jobs * perJob);
  return [...shown, `${(lines.length - shown.length) / perJob} more`, last];
}

/** `08:20:14  2 running, 1 queued   Ctrl-C leaves`: the state of our knowledge. What does not fit is said in fewer words. */
export function stateLine(jobs: JobList, now: Instant, columns: number): string {
  const counts = new Map<string, number>();
  for (const { phase } of jobs.rows) counts.set(phase, (counts.get(phase) ?? 0) + 1);
  const phases = [...counts].map(([phase, count]) => `${count} ${phase}`);
  const what = phases.length === 0 ? 'no jobs' : phases.join(', ');
  const notes = jobs.notes.length === 0 ? '' : `   ${jobs.notes.join('; ')}`;
  const more = jobs.more === 0 ? '' : `, ${jobs.more} settled before (--all)`;
  const leave = '   Ctrl-C leaves';
  const ways = [`${what}${more}${notes}${leave}`, `${what}${notes}${leave}`, `${what}${leave}`, what];
  const line = ways.map((way) => `${localClockText(now)}  ${way}`);
  return line.find((way) => width(way) <= columns) ?? cutEnd(line.at(-1) ?? '', columns);
}

async function watchRows(cli: Cli, client: Client, query: ListQuery, signal: AbortSignal): Promise<number> {
  const { io, screen } = cli;
  const known = new Map<string, string>();
  let changes = -1;
  while (!signal.aborted && !io.stdout.closed) {
    const seen = await client.changes();
    if (seen !== changes) {
      changes = seen;
      const { rows } = await client.list(query);
      const changed = rows.filter((row) => known.get(row.id) !== factsOf(row));
      for (const row of changed) known.set(row.id, factsOf(row));
      const lines = cli.json
        ? changed.map((row) => JSON.stringify(rowJson(row)))
        : listLines(changed, { columns: null, ink: screen.out, unicode: screen.unicode, now: io.now() });
      io.stdout.write(lines.map((line) => `${line}\n`).join(''));
      await io.stdout.flush();
    }
    await pause(lookEvery, signal);
  }
  return signal.aborted ? exitCode.interrupted : exitCode.ok;
}

/** What makes a row another one: everything but the phrase that holds an age. */
function factsOf(row: JobRow): string {
  return JSON.stringify({ ...row, reason: '' });
}
