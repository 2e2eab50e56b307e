// The state of one list of lines: its window over some logs, whether it follows their end, and its search.

import { signal, type Signal } from '@preact/signals';
import type { Change, LogRef } from '../../app/client.ts';
import { errors, findLine, matcherOf, timeAt, type Matcher, type ReadPart, type Search } from '../../app/find-line.ts';
import { pluralize } from '../../app/format.ts';
import { inOrderOfTime, type LogLabel } from '../../app/log-text.ts';
import { formatWorker, type WorkerId } from '../../core/model/spec.ts';
import type { Duration } from '../../core/model/time.ts';
import { errorLines } from '../session.ts';
import { expressionOf, isValidExpression } from './find.ts';
import type { Row } from './rows.ts';
import { plainText } from './spans.ts';
import { createLogWindow, maxLines, type LogWindow, type Position } from './window.ts';

interface Task {
  readonly label: string;
  /** From 0 to 1. */
  readonly share: number;
}

interface View {
  readonly window: LogWindow;
  /** Counts changes of the rows. */
  readonly version: Signal<number>;
  readonly isFollowing: Signal<boolean>;
  /** The number of new lines below the view; null if it is not known. */
  readonly newLines: Signal<number | null>;
  readonly selected: Signal<Position | null>;
  /** Of the newest read, with its hints; null if it succeeded. */
  readonly failure: Signal<readonly string[] | null>;
  /** The line to scroll to. The view sets it to null. */
  readonly target: Signal<Position | null>;
}

export interface PaneState extends View {
  readonly refs: readonly LogRef[];
  /** The running search; null without one. */
  readonly task: Signal<Task | null>;
  /** The result of the last search, as a sentence. */
  readonly answer: Signal<string>;
  /** The row at the top of the view, as an index. The view keeps it. */
  topRow: number;
  lastRow: number;
  open(position: Position | null): void;
  openShare(share: number): void;
  openStart(): void;
  followEnd(): void;
  leaveEnd(): void;
  readUp(): void;
  readDown(): void;
  take(change: Change): void;
  update(refs: readonly LogRef[]): void;
  find(text: string, direction: 'next' | 'previous'): void;
  findError(direction: 'next' | 'previous'): void;
  findFirstError(evidence: WorkerId | undefined): void;
  stopTask(): void;
  visibleText(): string;
  close(): void;
}

/** Between two reads of what is new, of one log and more for each other one. */
const readInterval: Duration = 250;
const readIntervalOfLog: Duration = 8;
const maxInterval: Duration = 750;
/** After a failed read. */
const retryTime: Duration = 5000;

export interface FoundPosition extends Position {
  /** The time in the line, or in the nearest line before it with a time; null without one. */
  readonly time: string | null;
}

type SearchOptions = Pick<Search, 'direction' | 'from' | 'signal' | 'onProgress'>;

/**
 * Finds the nearest line with a text, as `findLine` does, or in each log with `inEach`. Null instead of a text: a line that
 * reports an error.
 */
export type FindInLogs = (
  text: string | null,
  options: SearchOptions & { readonly inEach?: true },
) => Promise<readonly FoundPosition[]>;

interface PaneSource {
  readonly readOf: (ref: LogRef) => ReadPart;
  /** Absent: the pane has one log, in which it searches by itself. */
  readonly findInLogs?: FindInLogs;
}

/** Starts to read. `begin`: null for the end, which is then followed. */
export function createPane(
  refs: readonly LogRef[],
  { readOf, findInLogs }: PaneSource,
  fold: boolean,
  begin: Position | null,
): PaneState {
  const logs = refs.map((ref) => ({ ref, read: readOf(ref) }));
  const window = createLogWindow(logs, fold, () => performance.now());
  const view = createView(window, begin);
  const reader = createReader(view, logs);
  const { isFollowing, newLines, selected, target, version } = view;
  const open = (position: Position | null): void => reader.open(position);
  const searched = (): Search['logs'] => logs.map(({ read }, log) => ({ read, size: window.sizeOf(log) }));
  const find: FindInLogs =
    findInLogs ?? ((text, options) => findWith(text === null ? errors : matcherOf(text), searched(), options));
  const finder = createFinder();

  /** The first line that the direction may find, of each log. */
  function searchFrom(direction: Search['direction']): readonly number[] {
    const current = selected.peek();
    const row = current === null ? -1 : window.rowOf(current);
    const isInView = row >= pane.topRow && row <= pane.lastRow;
    if (isInView) return window.offsetsOf(direction === 'next' ? row + 1 : row);
    return window.offsetsOf(direction === 'next' ? pane.topRow : pane.lastRow + 1);
  }

  /** `text`: null for errors. */
  function search(label: string, text: string | null, direction: Search['direction']): void {
    void finder.run(label, async (over, onProgress) => {
      const options = { direction, from: searchFrom(direction), signal: over, onProgress };
      const expression = text === null ? null : expressionOf(text);
      const [found] = await (expression === null
        ? find(text, options)
        : import('./expression.ts').then(({ expressionMatcher }) =>
            findWith(expressionMatcher(expression), searched(), options),
          ));
      if (found === undefined) return direction === 'next' ? 'No further match below.' : 'No further match above.';
      open(found);
      return '';
    });
  }

  const pane: PaneState = {
    refs,
    ...view,
    task: finder.task,
    answer: finder.answer,
    topRow: 0,
    lastRow: 0,
    open,
    openShare(share) {
      const sizes = logs.map((_, log) => window.sizeOf(log));
      const log = sizes.indexOf(Math.max(...sizes));
      open(share >= 1 ? null : { log, offset: Math.floor(share * (sizes[log] ?? 0)) });
      selected.value = null;
    },
    openStart() {
      selected.value = null;
      isFollowing.value = false;
      reader.openBy(async () => {
        await window.openStart();
        target.value = { log: window.rows()[0]?.entries[0]?.log ?? 0, offset: 0 };
      });
    },
    followEnd() {
      selected.value = null;
      finder.answer.value = '';
      if (!window.isAtEnd()) return open(null);
      isFollowing.value = true;
      newLines.value = 0;
      version.value += 1;
    },
    leaveEnd: () => (isFollowing.value = false),
    readUp: () => reader.readUp(),
    readDown: () => reader.readDown(),
    take(change) {
      if (change.kind !== 'log') return;
      const log = refs.findIndex(({ job, id }) => job === change.log.job && id === change.log.id);
      if (log >= 0) reader.noteSize(log, change.log.size);
    },
    update(newer) {
      for (const { id, size } of newer) {
        const log = refs.findIndex((ref) => ref.id === id);
        if (log >= 0 && size !== window.sizeOf(log)) reader.noteSize(log, size);
      }
    },
    find(text, direction) {
      const expression = expressionOf(text);
      if (text === '') finder.answer.value = 'Enter a search text.';
      else if (expression !== null && !isValidExpression(expression))
        finder.answer.value = `${text} is not a valid regular expression.`;
      else search(`Searching for ${text}`, text, direction);
    },
    findError: (direction) => search('Searching for errors', null, direction),
    findFirstError(evidence) {
      void finder.run('Searching for the first error of all workers', async (over, onProgress) => {
        const from = logs.map(() => 0);
        const found = await find(null, { direction: 'next', from, signal: over, onProgress, inEach: true });
        const ofWorkers = found.map((one) => ({ ...one, worker: refs[one.log]?.worker ?? null }));
        const [first, ...others] = inOrderOfTime(ofWorkers, evidence);
        if (first === undefined) return `No error in ${pluralize(refs.length, 'log')}.`;
        open(first);
        return formatFirstErrors([first, ...others].map(({ worker }) => worker));
      });
    },
    stopTask: finder.stop,
    visibleText: () => textOf(window.rows().slice(pane.topRow, pane.lastRow + 1)),
    close() {
      reader.close();
      finder.stop();
    },
  };
  open(begin);
  return pane;
}

function createView(window: LogWindow, begin: Position | null): View {
  return {
    window,
    version: signal(0),
    isFollowing: signal(begin === null),
    newLines: signal<number | null>(0),
    selected: signal<Position | null>(begin),
    failure: signal<readonly string[] | null>(null),
    target: signal<Position | null>(null),
  };
}

/** The nearest line, found by the page itself. */
async function findWith(
  matcher: Matcher,
  logs: Search['logs'],
  options: SearchOptions,
): Promise<readonly FoundPosition[]> {
  const found = await findLine({ ...options, logs, matcher });
  const read = logs[found?.log ?? -1]?.read;
  return found === null || read === undefined ? [] : [{ ...found, time: await timeAt(read, found.offset) }];
}

/** The workers with an error, the first ones by name. */
function formatFirstErrors(workers: readonly (WorkerId | null)[]): string {
  const names = workers.slice(0, 4).map((worker) => (worker === null ? 'the job' : formatWorker(worker)));
  return `First error: ${names.join(', then ')}${workers.length > 4 ? ` and ${workers.length - 4} more` : ''}.`;
}

/** The reads of a window, one after the other, because each begins where the one before ended. */
function createReader(
  { window, version, isFollowing, newLines, selected, failure, target }: View,
  logs: readonly { readonly read: ReadPart }[],
) {
  let isOver = false;
  let pending = 0;
  let chain: Promise<void> = Promise.resolve();
  let timer: ReturnType<typeof setTimeout> | null = null;
  /** The newest opening until it has succeeded: without it, the other reads have nothing to continue. */
  let opening: (() => Promise<void>) | null = null;

  function inTurn(work: () => Promise<void>): Promise<void> {
    pending += 1;
    chain = chain.then(() => attempt(work)).finally(() => (pending -= 1));
    return chain;
  }

  async function attempt(work: () => Promise<void>): Promise<void> {
    if (isOver) return;
    try {
      await work();
      failure.value = null;
      version.value += 1;
    } catch (error) {
      failure.value = errorLines(error);
      setTimeout(() => {
        if (opening !== null) void inTurn(openNewest);
        else if (failure.peek() !== null) whenFree(work);
      }, retryTime);
    }
  }

  async function openNewest(): Promise<void> {
    const own = opening;
    await own?.();
    if (own === opening) opening = null;
  }

  function openBy(work: () => Promise<void>): void {
    opening = work;
    void inTurn(openNewest);
  }

  function whenFree(work: () => Promise<void>): void {
    if (pending === 0 && !isOver) void inTurn(work);
  }

  function schedule(): void {
    const read = (): void => {
      timer = null;
      if (document.visibilityState === 'hidden' || pending > 0) schedule();
      else whenFree(readNew);
    };
    const interval = Math.min(readInterval + readIntervalOfLog * (logs.length - 1), maxInterval);
    if (!isOver) timer ??= setTimeout(read, interval);
  }

  async function readNew(): Promise<void> {
    if (opening !== null) return openNewest();
    if (isFollowing.peek()) {
      await window.grow();
      window.trimFollowed();
      newLines.value = 0;
      return;
    }
    const before = lineCount(window.rows());
    const isKept = before < maxLines && newLines.peek() !== null;
    if (isKept && (await window.down())) newLines.value = (newLines.peek() ?? 0) + lineCount(window.rows()) - before;
    else if (!window.isAtEnd()) newLines.value = null;
    if (newLines.peek() !== null && !window.isAtEnd()) schedule();
  }

  function open(position: Position | null): void {
    selected.value = position;
    isFollowing.value = position === null;
    openBy(async () => {
      if (position === null) await window.openEnd();
      else if (window.rowOf(position) < 0) await window.openAt(position);
      target.value = position;
      newLines.value = window.isAtEnd() ? 0 : null;
    });
  }

  return {
    openBy,
    open,
    noteSize(log: number, size: number): void {
      if (size >= window.sizeOf(log)) {
        window.setSize(log, size);
        schedule();
        return;
      }
      // The size was measured before the newest read, or the files of the job were removed and written again.
      void inTurn(async () => {
        const part = await logs[log]?.read(0, 1);
        if (part !== undefined && window.setSize(log, part.end)) open(null);
      });
    },
    readUp(): void {
      if (window.isAtStart()) return;
      whenFree(async () => {
        await window.up();
        if (window.trim('bottom') > 0) newLines.value = null;
      });
    },
    readDown(): void {
      if (window.isAtEnd()) return;
      whenFree(async () => {
        await window.down();
        window.trim('top');
        if (window.isAtEnd()) newLines.value = 0;
      });
    },
    close(): void {
      isOver = true;
      if (timer !== null) clearTimeout(timer);
    },
  };
}

/** One search at a time. A new search stops the previous one. */
function createFinder() {
  const task = signal<Task | null>(null);
  const answer = signal('');
  let current: AbortController | null = null;
  const stop = (): void => current?.abort();

  const onProgress = (read: number, of: number): void => {
    const before = task.peek();
    const share = of === 0 ? 1 : read / of;
    if (before !== null && Math.floor(share * 100) !== Math.floor(before.share * 100))
      task.value = { ...before, share };
  };

  async function run(
    label: string,
    work: (signal: AbortSignal, onProgress: Search['onProgress']) => Promise<string>,
  ): Promise<void> {
    stop();
    const own = new AbortController();
    current = own;
    task.value = { label, share: 0 };
    answer.value = '';
    let text: string;
    try {
      text = await work(own.signal, onProgress);
    } catch (error) {
      text = own.signal.aborted ? 'The search was stopped.' : errorLines(error).join(' ');
    }
    if (current !== own) return;
    answer.value = text;
    task.value = null;
  }

  return { task, answer, run, stop };
}

/** Each line of the rows, without colours. */
function textOf(rows: readonly Row[]): string {
  return rows.flatMap(({ entries }) => entries.map(({ line }) => `${plainText(line.text)}\n`)).join('');
}

function lineCount(rows: readonly Row[]): number {
  return rows.reduce((sum, { entries }) => sum + entries.length, 0);
}

/** As in the output of `jobman logs`. */
export function labelOf({ worker, step }: LogRef): LogLabel {
  return worker ?? step ?? 'log';
}
