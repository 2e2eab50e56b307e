import type { JobList, JobRow, ListQuery } from '../../app/client.ts';
import { isNotFoundError, JobmanError } from '../../app/errors.ts';
import { escapeLine, formatLocalTimeOfDay } from '../../app/format.ts';
import { timesAsText } from '../../app/json.ts';
import { awaitsController, foundJob, type Jobs } from '../../app/jobs.ts';
import type { Cli } from '../context.ts';
import { createControllerCheck, createWaker } from '../controller.ts';
import { pause } from '../../app/concurrency.ts';
import { listLines } from '../render/list.ts';
import { layoutOf } from '../screen.ts';
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
const pollInterval: Duration = 250;
const logTail = 20;

/** The last frame stays. Without a terminal: prints every row, then each that changes. */
export async function watchList(cli: Cli, jobs: Jobs, query: ListQuery): Promise<number> {
  const lists = await jobs.follow(query);
  try {
    return await watchUntilExit(cli, {
      screen: (controls) => tableScreen(cli, { jobs, lists }, controls),
      lines: createRowPrinter(cli, lists),
      linesInterval: pollInterval,
    });
  } finally {
    await lists.close();
  }
}

type Lists = Awaited<ReturnType<Jobs['follow']>>;

interface ListSource {
  readonly jobs: Jobs;
  readonly lists: Lists;
}

function tableScreen(cli: Cli, source: ListSource, controls: ScreenControls): LiveScreen {
  const { io, screen } = cli;
  const hasKeys = controls.keyboard !== undefined;
  const poller = createListPoller(cli, source.lists);
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
        await selectedLines(cli, source.jobs, state, poller.jobs.rows, context.columns),
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
      return followSelectedLogs(
        cli,
        source.jobs,
        selectedRow(state, poller.jobs.rows),
        controls.keyboard,
        controls.signal,
      );
    },
  };
}

function createListPoller(cli: Cli, lists: Lists) {
  const { io } = cli;
  const seen = createRowTracker<JobRow>(({ id }) => id, fingerprintOf);
  let jobs: JobList = { rows: [], more: 0, notes: [] };
  let readAt: Instant = Number.NEGATIVE_INFINITY;
  const checkController = createControllerCheck(cli, createWaker(cli));
  let controller: string | null = null;
  let problem: string | null = null;
  return {
    get jobs(): JobList {
      return jobs;
    },
    async poll(): Promise<boolean> {
      try {
        const list = await lists.next(ageInterval);
        if (list !== null) {
          jobs = list;
          readAt = io.now();
          problem = null;
          seen.update(list.rows, readAt);
        }
        controller = await checkController(awaitsController(jobs.rows));
        return list !== null;
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

async function selectedLines(
  cli: Cli,
  jobs: Jobs,
  state: ScreenState,
  rows: readonly JobRow[],
  columns: number,
): Promise<readonly string[]> {
  if (state.screen === 'keys' || state.selected === null) return keyLines(columns);
  const row = selectedRow(state, rows);
  if (row === undefined) return [`${state.selected} was deleted meanwhile.`];
  const layout = { ...layoutOf(cli), columns };
  try {
    const job = foundJob(row);
    const { showLines, whyLines } = await import('../render/show.ts');
    return state.screen === 'why' ? whyLines(await jobs.why(job), layout) : showLines(await jobs.show(job), layout);
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    return [error.message];
  }
}

async function followSelectedLogs(
  cli: Cli,
  jobs: Jobs,
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
    if (row === undefined) return action;
    const { printJobLogs } = await import('../logs/print.ts');
    if (row.backend === 'kubernetes') cli.note(`-- log of ${row.id}; q returns to the list`);
    const end = await printJobLogs(cli, jobs, foundJob(row), {
      query: { follow: true, tail: logTail },
      rules: { form: 'terminal', fold: true, colour: cli.screen.colour },
      leave,
      exitHints: ['q returns to the list', 'q returns'],
    });
    if (end.kind === 'left' || end.kind === 'output_closed') return action;
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

function createRowPrinter(cli: Cli, lists: Lists): () => Promise<readonly string[]> {
  const seen = createRowTracker<JobRow>(({ id }) => id, fingerprintOf);
  let lastNote = '';
  let hasHeading = false;
  return async () => {
    const list = await lists.next(Number.POSITIVE_INFINITY);
    if (list === null) return [];
    const note = list.notes.join('\n');
    if (note !== lastNote && note !== '') cli.note(escapeLine(`note: ${note}`));
    lastNote = note;
    const changed = seen.update(list.rows, cli.io.now());
    if (cli.json) return changed.map((row) => JSON.stringify(row, timesAsText));
    const lines = listLines(changed, { ...layoutOf(cli), columns: null });
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
