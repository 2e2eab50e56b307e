// list --watch: the table in place, redrawn when something changes, and the keys that lead from it to one job and back.

import type { Client, JobList, JobRow, ListQuery } from '../../app/client.ts';
import { JobmanError } from '../../app/errors.ts';
import { localClockText } from '../../app/figures.ts';
import { rowJson } from '../../app/json.ts';
import type { PlaceFlags } from '../cluster/either.ts';
import { joined } from '../cluster/record-and-cluster.ts';
import type { WatchedRows } from '../cluster/watched.ts';
import type { Cli } from '../context.ts';
import { controllerEvery, controllerNote } from '../controller.ts';
import { followLog, isGone } from '../follow/follow.ts';
import { pause } from '../leave.ts';
import { listLines } from '../render/list.ts';
import { showLines, whyLines } from '../render/show.ts';
import { isSettledPhase } from '../../core/phase.ts';
import {
  countsText,
  type Glass,
  jobsOnScreen,
  keyLines,
  listFrame,
  listKeys,
  noKeys,
  stateLine,
  textFrame,
} from './frame.ts';
import { createSeenRows, type Hands, type Key, type Keyboard, type LiveScreen, watchUntilLeft } from './live.ts';
import type { Duration, Instant } from '../../core/time.ts';

const lookEvery: Duration = 250;
/** Ages grow without any change of the record. */
const ageEvery: Duration = 1_000;
const logTail = 20;

/** Goes on until the user leaves; the last frame stays. Without a terminal: every row as it is, then each that changed. */
export async function watchList(cli: Cli, client: Client, query: ListQuery, place: PlaceFlags | null): Promise<number> {
  let cluster: WatchedRows | null = null;
  if (place !== null) {
    const { watchClusterRows } = await import('../cluster/watched.ts');
    cluster = watchClusterRows(cli, query, place);
  }
  const asked: Asked = { client, query, cluster };
  try {
    return await watchUntilLeft(cli, {
      screen: (hands) => tableScreen(cli, asked, hands),
      lines: rowPrinter(cli, asked),
      linesEvery: lookEvery,
    });
  } finally {
    await cluster?.close();
  }
}

interface Asked {
  readonly client: Client;
  readonly query: ListQuery;
  readonly cluster: WatchedRows | null;
}

/** One list of both, where one of them has changed since the last call, or `mostAge` has gone by; undefined where nothing has. */
function createLister(
  { io }: Cli,
  { client, query, cluster }: Asked,
  mostAge: Duration,
): () => Promise<JobList | undefined> {
  let changes = -1;
  let turn = -1;
  let readAt: Instant = Number.NEGATIVE_INFINITY;
  return async () => {
    const seen = await client.changes();
    const now = io.now();
    const turned = cluster?.turn ?? turn;
    if (seen === changes && turned === turn && now - readAt < mostAge) return undefined;
    const own = await client.list(query);
    [changes, turn, readAt] = [seen, turned, now];
    return cluster === null ? own : joined(own, cluster.list(now));
  };
}

function tableScreen(cli: Cli, asked: Asked, hands: Hands): LiveScreen {
  const { io, screen } = cli;
  const hasKeys = hands.keyboard !== undefined;
  const record = createRecord(cli, asked);
  let state: State = atFirst;
  return {
    async look() {
      const isNew = await record.look();
      state = withRows(state, record.jobs.rows);
      return isNew;
    },
    async picture(size) {
      const now = io.now();
      const glass: Glass = { ...size, ink: screen.out, colour: screen.colour, unicode: screen.unicode, now };
      const title = countsText(record.jobs);
      if (state.screen === 'list') {
        const words = { now, notes: record.notes(), keys: hasKeys ? listKeys : noKeys };
        const last = stateLine(record.jobs, words, glass.columns);
        const selected = hasKeys ? state.selected : null;
        return {
          title,
          lines: listFrame({ ...glass, jobs: record.jobs, selected, changed: record.changed(now), last }),
        };
      }
      const { frame, scrolled } = textFrame(await textOf(cli, asked, state, glass), state.scrolled, glass);
      state = { ...state, scrolled };
      return { title, lines: frame };
    },
    press(key) {
      const { columns, rows } = io.stdout.size();
      const page = state.screen === 'list' ? jobsOnScreen(rows, columns) : Math.max(1, rows - 3);
      const { state: next, wish } = press(state, key, record.jobs.rows, page);
      state = next;
      if (wish !== 'logs') return wish;
      if (hands.keyboard === undefined || state.selected === null) return null;
      hands.erase();
      return lookIntoLogs(cli, asked, state.selected, hands.keyboard, hands.signal);
    },
  };
}

/** The jobs, and the age of that information. */
function createRecord(cli: Cli, asked: Asked) {
  const { io } = cli;
  const next = createLister(cli, asked, ageEvery);
  const seen = createSeenRows<JobRow>(({ id }) => id, factsOf);
  let jobs: JobList = { rows: [], more: 0, notes: [] };
  let readAt: Instant = Number.NEGATIVE_INFINITY;
  let askedAt: Instant = Number.NEGATIVE_INFINITY;
  let controller: string | null = null;
  let trouble: string | null = null;
  return {
    get jobs(): JobList {
      return jobs;
    },
    /** Reads the record where it may have changed; true when there is something else to draw. */
    async look(): Promise<boolean> {
      try {
        const list = await next();
        if (list !== undefined) {
          jobs = list;
          readAt = io.now();
          trouble = null;
          seen.take(list.rows, readAt);
        }
        if (io.now() - askedAt >= controllerEvery) {
          askedAt = io.now();
          const isNeeded = jobs.rows.some((row) => row.backend !== 'kubernetes' && !isSettledPhase(row.phase));
          controller = await controllerNote(cli, asked.client, isNeeded);
        }
        return list !== undefined;
      } catch (error) {
        // Before there was anything to show, there is nothing to go on with.
        if (!(error instanceof JobmanError) || !seen.isBegun) throw error;
        // A look that failed leaves the rows as they were last seen.
        trouble = `as of ${localClockText(readAt)}: ${error.message.split('\n')[0] ?? ''}`;
        return true;
      }
    },
    notes: (): readonly string[] => [trouble, controller, ...jobs.notes].filter((note) => note !== null),
    changed: (now: Instant) => seen.recent(now),
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
    tail: logTail,
    follow: true,
  } as const;
  try {
    const ways = ['q goes back to the list', 'q goes back'] as const;
    const job = cluster?.job(id);
    let hasEnded: boolean;
    if (job !== undefined && cluster !== null && cluster.cluster !== null) {
      const { followClusterLogs } = await import('../cluster/logs.ts');
      cli.note(`-- the log of ${id}; ${ways[0]}`);
      const flags = { follow: true, tail: logTail };
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

function rowPrinter(cli: Cli, asked: Asked): () => Promise<readonly string[]> {
  const { io, screen } = cli;
  const next = createLister(cli, asked, Number.POSITIVE_INFINITY);
  const seen = createSeenRows<JobRow>(({ id }) => id, factsOf);
  let said = '';
  let hasHeading = false;
  return async () => {
    const list = await next();
    if (list === undefined) return [];
    const note = list.notes.join('\n');
    if (note !== said && note !== '') cli.note(`note: ${note}`);
    said = note;
    const changed = seen.take(list.rows, io.now());
    if (cli.json) return changed.map((row) => JSON.stringify(rowJson(row)));
    const lines = listLines(changed, { columns: null, ink: screen.out, unicode: screen.unicode, now: io.now() });
    // The heading stands above the first rows, and once.
    const from = hasHeading ? 1 : 0;
    hasHeading ||= changed.length > 0;
    return lines.slice(from);
  };
}

/** Equal for equal rows. The reason is left out, because it holds an age. */
function factsOf(row: JobRow): string {
  return JSON.stringify({ ...row, reason: '' });
}

interface State {
  /** The table; one job in full; why it is in its phase; which keys there are. */
  readonly screen: 'list' | 'show' | 'why' | 'keys';
  readonly selected: string | null;
  readonly scrolled: number;
}

type Wish = 'leave' | 'interrupt' | 'logs' | null;

const atFirst: State = { screen: 'list', selected: null, scrolled: 0 };

/** The selected job is one of the list: the one that was, or where it has left the list, the first. */
function withRows(state: State, rows: readonly Pick<JobRow, 'id'>[]): State {
  const isThere = rows.some(({ id }) => id === state.selected);
  return isThere || state.screen !== 'list' ? state : { ...state, selected: rows[0]?.id ?? null };
}

/** `page` is how many jobs, or lines of a text, fit on the screen. */
function press(
  state: State,
  key: Key,
  rows: readonly Pick<JobRow, 'id'>[],
  page: number,
): { readonly state: State; readonly wish: Wish } {
  if (key === 'interrupt') return { state, wish: 'interrupt' };
  if (key === 'q' || key === 'leave') return { state, wish: 'leave' };
  const by = step(key, page);
  if (by !== undefined)
    return { state: state.screen === 'list' ? select(state, rows, by) : scroll(state, by), wish: null };
  const hasJob = state.selected !== null;
  switch (key) {
    case '?':
    case 'h':
      return go(state, 'keys');
    case 'w':
      return hasJob ? go(state, 'why') : stay(state);
    case 'enter':
      return hasJob ? go(state, 'show') : stay(state);
    case 'l':
      return hasJob ? { state: { ...state, screen: 'list' }, wish: 'logs' } : stay(state);
    case 'escape':
      return { state: { ...state, screen: 'list', scrolled: 0 }, wish: null };
    default:
      return stay(state);
  }
}

function go(state: State, screen: State['screen']): { readonly state: State; readonly wish: Wish } {
  return { state: { ...state, screen: state.screen === screen ? 'list' : screen, scrolled: 0 }, wish: null };
}

function stay(state: State): { readonly state: State; readonly wish: Wish } {
  return { state, wish: null };
}

function step(key: Key, page: number): number | undefined {
  switch (key) {
    case 'j':
    case 'down':
      return 1;
    case 'k':
    case 'up':
      return -1;
    case ' ':
    case 'page down':
      return page;
    case 'page up':
      return -page;
    case 'g':
    case 'first':
      return Number.NEGATIVE_INFINITY;
    case 'G':
    case 'last':
      return Number.POSITIVE_INFINITY;
    default:
      return undefined;
  }
}

function select(state: State, rows: readonly Pick<JobRow, 'id'>[], by: number): State {
  const at = rows.findIndex(({ id }) => id === state.selected);
  const next = Math.min(rows.length - 1, Math.max(0, at + by));
  return { ...state, selected: rows[next]?.id ?? null };
}

/** Its end is found when it is drawn, where its length is known. */
function scroll(state: State, by: number): State {
  return { ...state, scrolled: Math.max(0, state.scrolled + by) };
}
