// list --watch: the table in place, redrawn when something changes, and the keys that lead from it to one job and back.

import type { Client, JobList, JobRow, ListQuery } from '../../app/client.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { localClockText } from '../../app/figures.ts';
import { second, type Duration, type Instant } from '../../core/time.ts';
import type { PlaceFlags } from '../cluster/either.ts';
import type { WatchedRows } from '../cluster/watched.ts';
import { joined } from '../commands/list.ts';
import type { Cli } from '../context.ts';
import { controllerEvery, controllerNote } from '../controller.ts';
import { followLog } from '../follow/log.ts';
import { isGone } from '../follow/loop.ts';
import { leaveOnSignal, pause } from '../leave.ts';
import { rowJson } from '../../app/json.ts';
import { createPainter } from '../painter.ts';
import { listLines } from '../render/list.ts';
import { showLines } from '../render/show.ts';
import { whyLines } from '../render/why.ts';
import { isSettled } from '../settled.ts';
import { openWindow } from '../window.ts';
import {
  countsText,
  jobsOnScreen,
  keyLines,
  listFrame,
  listKeys,
  noKeys,
  stateLine,
  textFrame,
  type Glass,
} from './frame.ts';
import { listen, nextKeys, type Keyboard } from './keyboard.ts';
import { atFirst, press, withRows, type State } from './state.ts';

/** Looks at the record this often, and so draws no more than four times a second, save for an answer to a key. */
const lookEvery: Duration = 250;
/** Ages grow without any change of the record. */
const ageEvery: Duration = 1_000;
/** Terminals tell every step of a resize; drawing waits until it has come to rest. */
const resizeRest: Duration = 100;
/** A row that changed is bold for so long. */
const boldFor: Duration = 5 * second;
/** How much of its past a log shows to somebody who looks in. */
const logTail = 20;

/** Goes on until the user leaves; the last frame stays. Without a terminal: every row as it is, then each that changed. */
export async function watchList(cli: Cli, client: Client, query: ListQuery, place: PlaceFlags | null): Promise<number> {
  const { signal, release } = leaveOnSignal(cli);
  const unwatch = cli.io.stdout.watchReader();
  let cluster: WatchedRows | null = null;
  if (place !== null) {
    const { watchClusterRows } = await import('../cluster/watched.ts');
    cluster = watchClusterRows(cli, query, place);
  }
  const asked: Asked = { client, query, cluster };
  try {
    return cli.json || !cli.screen.live ? await watchRows(cli, asked, signal) : await watchTable(cli, asked, signal);
  } finally {
    release();
    unwatch();
    await cluster?.close();
  }
}

/** What is watched. */
interface Asked {
  readonly client: Client;
  readonly query: ListQuery;
  /** Null where no cluster is in use. */
  readonly cluster: WatchedRows | null;
}

/** One list of both. */
async function listOf({ client, query, cluster }: Asked, now: Instant): Promise<JobList> {
  const own = await client.list(query);
  return cluster === null ? own : joined(own, cluster.list(now));
}

// ------------------------------------------------------------------------------------------ on a terminal

async function watchTable(cli: Cli, asked: Asked, signal: AbortSignal): Promise<number> {
  const { io, screen } = cli;
  const hasKeys = io.stdin.isTerminal;
  const painter = createPainter(io.stdout);
  const window = await openWindow(cli, io.stdout, screen.live);
  const keyboard = hasKeys ? listen(cli.io.stdin) : undefined;
  const record = createRecord(cli, asked);
  let state: State = atFirst;
  let restsAt: Instant = 0;
  const stopListening = io.stdout.onResize(() => {
    restsAt = io.now() + resizeRest;
  });

  const draw = async (): Promise<void> => {
    const now = io.now();
    if (now < restsAt) return;
    const glass: Glass = {
      ...io.stdout.size(),
      ink: screen.out,
      colour: screen.colour,
      unicode: screen.unicode,
      now,
    };
    window.title(countsText(record.jobs));
    if (state.screen === 'list') {
      const words = { now, notes: record.notes(), keys: hasKeys ? listKeys : noKeys };
      const last = stateLine(record.jobs, words, glass.columns);
      const selected = hasKeys ? state.selected : null;
      painter.draw(listFrame({ ...glass, jobs: record.jobs, selected, changed: record.changed(now), last }));
      return;
    }
    const { frame, scrolled } = textFrame(await textOf(cli, asked, state, glass), state.scrolled, glass);
    state = { ...state, scrolled };
    painter.draw(frame);
  };

  /** True when the user wants to leave. */
  const answer = async (key: string): Promise<'leave' | 'interrupt' | null> => {
    // The shell has written below the block meanwhile.
    if (key === 'resumed') painter.leave();
    const { columns, rows } = io.stdout.size();
    const page = state.screen === 'list' ? jobsOnScreen(rows, columns) : Math.max(1, rows - 3);
    const { state: next, wish } = press(state, key, record.jobs.rows, page);
    state = next;
    if (wish !== 'logs' || keyboard === undefined || state.selected === null) return wish === 'logs' ? null : wish;
    painter.erase();
    return lookIntoLogs(cli, asked, state.selected, keyboard, signal);
  };

  try {
    while (!signal.aborted && !io.stdout.closed) {
      const isNew = await record.look();
      state = withRows(state, record.jobs.rows);
      if (isNew || io.now() >= restsAt) await draw();
      const keys = await nextKeys(keyboard, lookEvery, signal);
      for (const key of keys) {
        const wish = await answer(key);
        if (wish !== null) return wish === 'leave' ? exitCode.ok : exitCode.interrupted;
      }
      // An answer to a key is drawn at once, from what is known.
      if (keys.length > 0) await draw();
    }
    return signal.aborted ? exitCode.interrupted : exitCode.ok;
  } finally {
    stopListening();
    keyboard?.close();
    painter.leave();
    window.close();
  }
}

/** What is known of the jobs, and of how well it is known. */
interface Record {
  readonly jobs: JobList;
  /** Reads the record where it may have changed; true when there is something else to draw. */
  look(): Promise<boolean>;
  notes(): readonly string[];
  /** The jobs whose rows changed a moment ago. */
  changed(now: Instant): ReadonlySet<string>;
}

function createRecord(cli: Cli, asked: Asked): Record {
  const { io } = cli;
  const { client, cluster } = asked;
  let jobs: JobList = { rows: [], more: 0, notes: [] };
  let facts: ReadonlyMap<string, string> | undefined;
  const changedAt = new Map<string, Instant>();
  let changes = -1;
  let turn = -1;
  let readAt: Instant = Number.NEGATIVE_INFINITY;
  let askedAt: Instant = Number.NEGATIVE_INFINITY;
  let controller: string | null = null;
  let trouble: string | null = null;

  function take(next: JobList): void {
    const known = facts;
    const now = io.now();
    for (const row of next.rows)
      if (known !== undefined && known.get(row.id) !== factsOf(row)) changedAt.set(row.id, now);
    facts = new Map(next.rows.map((row) => [row.id, factsOf(row)]));
    jobs = next;
  }

  async function read(): Promise<void> {
    const seen = await client.changes();
    const now = io.now();
    const turned = cluster?.turn ?? turn;
    if (seen === changes && turned === turn && now - readAt < ageEvery) return;
    take(await listOf(asked, now));
    changes = seen;
    turn = turned;
    readAt = now;
    trouble = null;
  }

  return {
    get jobs() {
      return jobs;
    },
    async look() {
      const before = readAt;
      try {
        await read();
        if (io.now() - askedAt >= controllerEvery) {
          askedAt = io.now();
          controller = await controllerNote(
            cli,
            client,
            jobs.rows.some((row) => row.backend !== 'kubernetes' && !isSettled(row)),
          );
        }
      } catch (error) {
        // Before there was anything to show, there is nothing to go on with.
        if (!(error instanceof JobmanError) || facts === undefined) throw error;
        // A look that failed leaves the rows as they were last seen.
        trouble = `as of ${localClockText(readAt)}: ${error.message.split('\n')[0] ?? ''}`;
        return true;
      }
      return readAt !== before;
    },
    notes: () => [trouble, controller, ...jobs.notes].filter((note) => note !== null),
    changed(now) {
      for (const [id, at] of changedAt) if (now - at >= boldFor) changedAt.delete(id);
      return new Set(changedAt.keys());
    },
  };
}

async function textOf(cli: Cli, { client, cluster }: Asked, state: State, glass: Glass): Promise<readonly string[]> {
  if (state.screen === 'keys' || state.selected === null) return keyLines(glass.columns);
  try {
    const job = cluster?.job(state.selected);
    if (job !== undefined && cluster !== null && cluster.cluster !== null) {
      const { sightLines } = await import('../cluster/details.ts');
      return await sightLines(cli, cluster.cluster, job, state.screen, glass.columns);
    }
    const view = await client.show(state.selected);
    return state.screen === 'why' ? whyLines(view.why, glass.columns, glass.now) : showLines(view, glass);
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    return [error.message];
  }
}

/** The log of that job until it has ended or a key goes back; answers what the key asked for. */
async function lookIntoLogs(
  cli: Cli,
  { client, cluster }: Asked,
  id: string,
  keyboard: Keyboard,
  signal: AbortSignal,
): Promise<'interrupt' | null> {
  const back = new AbortController();
  let wish: 'interrupt' | null = null;
  const release = keyboard.divert((key) => {
    if (key === 'interrupt') wish = 'interrupt';
    if (key === 'interrupt' || key === 'q' || key === 'escape' || key === 'leave') back.abort();
  });
  const leave = AbortSignal.any([signal, back.signal]);
  const rules = {
    form: 'terminal',
    numbered: true,
    fold: true,
    colour: cli.screen.colour,
    grep: undefined,
    tail: logTail,
    follow: true,
  } as const;
  try {
    const ways = ['q goes back to the list', 'q goes back'] as const;
    const job = cluster?.job(id);
    let hasEnded: boolean;
    if (job !== undefined && cluster !== null && cluster.cluster !== null) {
      const [{ followClusterLogs }, { noFlags }] = await Promise.all([
        import('../cluster/logs.ts'),
        import('../logs/no-flags.ts'),
      ]);
      cli.note(`-- the log of ${id}; ${ways[0]}`);
      const flags = { ...noFlags, follow: true, tail: logTail };
      hasEnded = (await followClusterLogs(cli, cluster.cluster, job, flags, leave)) === 'ended';
    } else hasEnded = (await followLog(cli, client, id, { query: {}, rules, leave, ways })).kind === 'settled';
    if (hasEnded) cli.note('-- q goes back to the list');
    while (hasEnded && !leave.aborted) await pause(lookEvery, leave);
  } catch (error) {
    if (!isGone(error)) throw error;
  } finally {
    release();
  }
  return wish;
}

// ------------------------------------------------------------------------------------------ elsewhere

async function watchRows(cli: Cli, asked: Asked, signal: AbortSignal): Promise<number> {
  const { io, screen } = cli;
  const { client, cluster } = asked;
  let turn = -1;
  let said = '';
  const known = new Map<string, string>();
  let changes = -1;
  while (!signal.aborted && !io.stdout.closed) {
    const seen = await client.changes();
    const turned = cluster?.turn ?? turn;
    if (seen !== changes || turned !== turn) {
      changes = seen;
      turn = turned;
      const { rows, notes } = await listOf(asked, io.now());
      const note = notes.join('\n');
      if (note !== said && note !== '') cli.note(`note: ${note}`);
      said = note;
      const changed = rows.filter((row) => known.get(row.id) !== factsOf(row));
      // The heading stands above the first rows, and once.
      const from = known.size === 0 ? 0 : 1;
      for (const row of changed) known.set(row.id, factsOf(row));
      const lines = cli.json
        ? changed.map((row) => JSON.stringify(rowJson(row)))
        : listLines(changed, { columns: null, ink: screen.out, unicode: screen.unicode, now: io.now() }).slice(from);
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
