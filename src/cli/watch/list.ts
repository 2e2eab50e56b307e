import type { Client, JobList, JobRow, ListQuery } from '../../app/client.ts';
import { isNotFoundError, JobmanError } from '../../app/errors.ts';
import { escapeLine, formatLocalTimeOfDay } from '../../app/format.ts';
import { timesAsText } from '../../app/json.ts';
import type { ContextFlags, JobHandle } from '../jobs/handle.ts';
import { storedJob } from '../jobs/stored.ts';
import { joinLists } from '../cluster/join-sources.ts';
import type { PolledRows } from '../cluster/list.ts';
import type { Cli } from '../context.ts';
import { createControllerCheck } from '../controller.ts';
import { pollInterval } from '../follow/poll.ts';
import { pause } from '../../app/concurrency.ts';
import { listLines } from '../render/list.ts';
import { isFinishedPhase } from '../../core/decide/phase.ts';
import {
  formatCounts,
  type ScreenContext,
  jobsOnScreen,
  keyLines,
  listFrame,
  listKeyHints,
  leaveHint,
  statusLine,
  textFrame,
} from './frame.ts';
import {
  createRowTracker,
  type ScreenControls,
  type Key,
  type Keyboard,
  type LiveScreen,
  movesOf,
  watchUntilExit,
} from './live.ts';
import type { Duration, Instant } from '../../core/model/time.ts';

const ageInterval: Duration = 1_000;
const logTail = 20;

/** The last frame stays. Without a terminal: prints every row, then each that changes. */
export async function watchList(
  cli: Cli,
  client: Client,
  query: ListQuery,
  contextFlags: ContextFlags | null,
): Promise<number> {
  const cluster =
    contextFlags === null ? null : (await import('../cluster/list.ts')).pollClusterRows(cli, query, contextFlags);
  const source: ListSource = { client, query, cluster };
  try {
    return await watchUntilExit(cli, {
      screen: (controls) => tableScreen(cli, source, controls),
      lines: createRowPrinter(cli, source),
      linesInterval: pollInterval,
    });
  } finally {
    await cluster?.close();
  }
}

interface ListSource {
  readonly client: Client;
  readonly query: ListQuery;
  readonly cluster: PolledRows | null;
}

/** Undefined if neither source has changed since the last call and `maxAge` has not passed. */
function createLister(
  { io }: Cli,
  { client, query, cluster }: ListSource,
  maxAge: Duration,
): () => Promise<JobList | undefined> {
  let changes = -1;
  let revision = -1;
  let readAt: Instant = Number.NEGATIVE_INFINITY;
  return async () => {
    const seen = await client.changeCount();
    const now = io.now();
    const newRevision = cluster?.revision ?? revision;
    if (seen === changes && newRevision === revision && now - readAt < maxAge) return undefined;
    const own = await client.list(query);
    [changes, revision, readAt] = [seen, newRevision, now];
    return cluster === null ? own : joinLists(own, cluster.list());
  };
}

function tableScreen(cli: Cli, source: ListSource, controls: ScreenControls): LiveScreen {
  const { io, screen } = cli;
  const hasKeys = controls.keyboard !== undefined;
  const poller = createListPoller(cli, source);
  let state: ScreenState = initialState;
  return {
    async poll() {
      const isNew = await poller.poll();
      state = withRows(state, poller.jobs.rows);
      return isNew;
    },
    async render(size) {
      const now = io.now();
      const context: ScreenContext = {
        ...size,
        styler: screen.styleOut,
        colour: screen.colour,
        unicode: screen.unicode,
        now,
      };
      const title = formatCounts(poller.jobs);
      if (state.screen === 'list') {
        const lineOptions = { now, notes: poller.notes(), keys: hasKeys ? listKeyHints(screen.unicode) : leaveHint };
        const footer = statusLine(poller.jobs, lineOptions, context.columns);
        const selected = hasKeys ? state.selected : null;
        return {
          title,
          lines: listFrame({ ...context, jobs: poller.jobs, selected, changed: poller.changed(now), footer }),
        };
      }
      const { frame, scrolled } = textFrame(
        await selectedLines(cli, source, state, poller.jobs.rows, context.columns),
        state.scrolled,
        context,
      );
      state = { ...state, scrolled };
      return { title, lines: frame };
    },
    press(key) {
      const { columns, rows } = io.stdout.size();
      const page = state.screen === 'list' ? jobsOnScreen(rows, columns) : Math.max(1, rows - 3);
      const { state: next, action } = press(state, key, poller.jobs.rows, page);
      state = next;
      if (action !== 'logs') return action;
      if (controls.keyboard === undefined || state.selected === null) return null;
      controls.erase();
      return followSelectedLogs(cli, source, selectedRow(state, poller.jobs.rows), controls.keyboard, controls.signal);
    },
  };
}

function createListPoller(cli: Cli, source: ListSource) {
  const { io } = cli;
  const next = createLister(cli, source, ageInterval);
  const seen = createRowTracker<JobRow>(({ id }) => id, fingerprintOf);
  let jobs: JobList = { rows: [], more: 0, notes: [] };
  let readAt: Instant = Number.NEGATIVE_INFINITY;
  const checkController = createControllerCheck(cli, source.client);
  let controller: string | null = null;
  let problem: string | null = null;
  return {
    get jobs(): JobList {
      return jobs;
    },
    async poll(): Promise<boolean> {
      try {
        const list = await next();
        if (list !== undefined) {
          jobs = list;
          readAt = io.now();
          problem = null;
          seen.update(list.rows, readAt);
        }
        controller = await checkController(
          jobs.rows.some((row) => row.backend !== 'kubernetes' && !isFinishedPhase(row.phase)),
        );
        return list !== undefined;
      } catch (error) {
        // Before the first rows there is nothing to show, so fail.
        if (!(error instanceof JobmanError) || !seen.isBegun) throw error;
        // A failed read keeps the last rows.
        problem = `not updated since ${formatLocalTimeOfDay(readAt)}: ${error.message.split('\n')[0] ?? ''}`;
        return true;
      }
    },
    notes: (): readonly string[] => [problem, controller, ...jobs.notes].filter((note) => note !== null),
    changed: (now: Instant) => seen.recentlyChanged(now),
  };
}

function selectedRow({ selected }: ScreenState, rows: readonly JobRow[]): JobRow | undefined {
  return rows.find(({ id }) => id === selected);
}

/** Null if the job was deleted meanwhile. */
async function handleOf(cli: Cli, { client, cluster }: ListSource, row: JobRow | undefined): Promise<JobHandle | null> {
  if (row === undefined) return null;
  if (row.backend !== 'kubernetes' || cluster === null) return storedJob(cli, client, row.id);
  const opened = await cluster.cluster();
  const job = await opened.job(row.id);
  if (job === null) return null;
  const { clusterJob } = await import('../cluster/cluster-job.ts');
  return clusterJob(cli, await cli.services.clusterArchive(), opened, job);
}

async function selectedLines(
  cli: Cli,
  source: ListSource,
  state: ScreenState,
  rows: readonly JobRow[],
  columns: number,
): Promise<readonly string[]> {
  if (state.screen === 'keys' || state.selected === null) return keyLines(columns);
  try {
    const job = await handleOf(cli, source, selectedRow(state, rows));
    if (job === null) return [`${state.selected} was deleted meanwhile.`];
    return (await (state.screen === 'why' ? job.why(false) : job.show())).lines();
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    return [error.message];
  }
}

async function followSelectedLogs(
  cli: Cli,
  source: ListSource,
  row: JobRow | undefined,
  keyboard: Keyboard,
  signal: AbortSignal,
): Promise<'interrupt' | null> {
  const back = new AbortController();
  let action: 'interrupt' | null = null;
  const release = keyboard.divert((key) => {
    if (key === 'interrupt') action = 'interrupt';
    if (key === 'interrupt' || key === 'q' || key === 'escape' || key === 'leave') back.abort();
  });
  const leave = AbortSignal.any([signal, back.signal]);
  try {
    const job = await handleOf(cli, source, row);
    if ((await job?.followLast(logTail, leave)) !== true) return action;
    cli.note('-- q returns to the list');
    while (!leave.aborted) await pause(pollInterval, leave);
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    if (!isNotFoundError(error)) cli.note(error.message);
  } finally {
    release();
  }
  return action;
}

function createRowPrinter(cli: Cli, source: ListSource): () => Promise<readonly string[]> {
  const { io, screen } = cli;
  const next = createLister(cli, source, Number.POSITIVE_INFINITY);
  const seen = createRowTracker<JobRow>(({ id }) => id, fingerprintOf);
  let lastNote = '';
  let hasHeading = false;
  return async () => {
    const list = await next();
    if (list === undefined) return [];
    const note = list.notes.join('\n');
    if (note !== lastNote && note !== '') cli.note(escapeLine(`note: ${note}`));
    lastNote = note;
    const changed = seen.update(list.rows, io.now());
    if (cli.json) return changed.map((row) => JSON.stringify(row, timesAsText));
    const lines = listLines(changed, {
      columns: null,
      styler: screen.styleOut,
      unicode: screen.unicode,
      now: io.now(),
    });
    const from = hasHeading ? 1 : 0;
    hasHeading ||= changed.length > 0;
    return lines.slice(from);
  };
}

/** The reason is left out, because it has an age. */
function fingerprintOf(row: JobRow): string {
  return JSON.stringify({ ...row, message: '' });
}

interface ScreenState {
  /** The table; one job in full; the reason for its phase; the keys. */
  readonly screen: 'list' | 'show' | 'why' | 'keys';
  readonly selected: string | null;
  readonly scrolled: number;
}

type KeyAction = 'leave' | 'interrupt' | 'logs' | null;

const initialState: ScreenState = { screen: 'list', selected: null, scrolled: 0 };

/** Selects the first job if the selected one has left the list. */
function withRows(state: ScreenState, rows: readonly Pick<JobRow, 'id'>[]): ScreenState {
  const isThere = rows.some(({ id }) => id === state.selected);
  return isThere || state.screen !== 'list' ? state : { ...state, selected: rows[0]?.id ?? null };
}

interface Pressed {
  readonly state: ScreenState;
  readonly action: KeyAction;
}

/** `page`: jobs, or lines of a text, that fit on the screen. */
function press(state: ScreenState, key: Key, rows: readonly Pick<JobRow, 'id'>[], page: number): Pressed {
  if (key === 'interrupt') return { state, action: 'interrupt' };
  if (key === 'leave' || (key === 'q' && state.screen === 'list')) return { state, action: 'leave' };
  const by = movesOf(page)[key];
  if (by !== undefined)
    return { state: state.screen === 'list' ? select(state, rows, by) : scroll(state, by), action: null };
  if (key === '?' || key === 'h') return toggleScreen(state, 'keys');
  if (key === 'escape' || key === 'q') return { state: { ...state, screen: 'list', scrolled: 0 }, action: null };
  if (state.selected !== null) {
    if (key === 'w') return toggleScreen(state, 'why');
    if (key === 'enter') return toggleScreen(state, 'show');
    if (key === 'l') return { state: { ...state, screen: 'list' }, action: 'logs' };
  }
  return { state, action: null };
}

function toggleScreen(state: ScreenState, screen: ScreenState['screen']): Pressed {
  return { state: { ...state, screen: state.screen === screen ? 'list' : screen, scrolled: 0 }, action: null };
}

function select(state: ScreenState, rows: readonly Pick<JobRow, 'id'>[], by: number): ScreenState {
  const at = rows.findIndex(({ id }) => id === state.selected);
  const next = Math.min(rows.length - 1, Math.max(0, at + by));
  return { ...state, selected: rows[next]?.id ?? null };
}

/** Drawing limits the position: only there the length is known. */
function scroll(state: ScreenState, by: number): ScreenState {
  return { ...state, scrolled: Math.max(0, state.scrolled + by) };
}
