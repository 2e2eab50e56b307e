import { exitCode } from '../../app/errors.ts';
import type { Input } from '../../app/services.ts';
import { createBlock, createFullScreen, openWindow } from '../block.ts';
import type { Cli } from '../context.ts';
import { pause } from '../../app/concurrency.ts';
import { abortOnSignal } from '../interrupt.ts';
import { type Duration, type Instant, second } from '../../core/model/time.ts';

/** The screen draws at most this often, except after a key. */
const pollInterval: Duration = 250;
const highlightDuration: Duration = 5 * second;

interface WatchOptions {
  screen(controls: ScreenControls): LiveScreen;
  lines(): Promise<readonly string[]>;
  readonly linesInterval: Duration;
  /** True for a screen that hides the text above it until it is left. */
  readonly usesAlternateScreen?: boolean;
}

export interface ScreenControls {
  readonly keyboard: Keyboard | undefined;
  readonly signal: AbortSignal;
  readonly erase: () => void;
}

export interface LiveScreen {
  poll(): Promise<boolean>;
  /** The lines fit this width and leave one row free. */
  render(size: { readonly columns: number; readonly rows: number }): Promise<RenderedScreen> | RenderedScreen;
  press(key: string): Promise<KeyAction> | KeyAction;
}

interface RenderedScreen {
  readonly title: string;
  readonly lines: readonly string[];
}

type KeyAction = 'leave' | 'interrupt' | null;

/** The last picture stays. Resolves with the exit code. */
export async function watchUntilExit(cli: Cli, options: WatchOptions): Promise<number> {
  const { io } = cli;
  const { signal, release } = abortOnSignal(cli);
  const unwatch = io.stdout.watchReader();
  try {
    if (!cli.json && cli.screen.live) return await watchScreen(cli, options, signal);
    while (!signal.aborted && !io.stdout.closed) {
      const lines = await options.lines();
      cli.printAll(lines);
      await io.stdout.flush();
      await pause(options.linesInterval, signal);
    }
    return signal.aborted ? exitCode.interrupted : exitCode.ok;
  } finally {
    release();
    unwatch();
  }
}

async function watchScreen(cli: Cli, options: WatchOptions, signal: AbortSignal): Promise<number> {
  const { io } = cli;
  const window = await openWindow(cli, io.stdout, cli.screen.live);
  const block = (options.usesAlternateScreen === true ? createFullScreen : createBlock)(io, io.stdout, window);
  const keyboard = io.stdin.isTerminal ? openKeyboard(io.stdin, () => block.leave()) : undefined;
  const screen = options.screen({ keyboard, signal, erase: block.clear });
  const draw = async (): Promise<void> => {
    if (!block.isDue()) return;
    const { title, lines } = await screen.render(io.stdout.size());
    block.draw(title, lines);
  };
  try {
    while (!signal.aborted && !io.stdout.closed) {
      if (await screen.poll()) block.stale();
      await draw();
      const keys = await nextKeys(keyboard, pollInterval, signal);
      for (const key of keys) {
        // The shell has written below the block meanwhile.
        if (key === 'resumed') block.leave();
        const action = await screen.press(key);
        if (action !== null) return action === 'leave' ? exitCode.ok : exitCode.interrupted;
      }
      if (keys.length > 0) block.stale();
      await draw();
    }
    return signal.aborted ? exitCode.interrupted : exitCode.ok;
  } finally {
    keyboard?.close();
    block.close();
  }
}

/** A row counts as unchanged as long as its `fingerprintOf` is equal. */
export function createRowTracker<Row>(nameOf: (row: Row) => string, fingerprintOf: (row: Row) => string) {
  const known = new Map<string, string>();
  const changedAt = new Map<string, Instant>();
  let isBegun = false;
  return {
    get isBegun(): boolean {
      return isBegun;
    },
    /** Returns the new and the changed rows. */
    update(rows: readonly Row[], now: Instant): readonly Row[] {
      const changed = rows.filter((row) => known.get(nameOf(row)) !== fingerprintOf(row));
      for (const row of changed) {
        known.set(nameOf(row), fingerprintOf(row));
        if (isBegun) changedAt.set(nameOf(row), now);
      }
      isBegun = true;
      return changed;
    },
    /** None for rows of the first update. */
    recentlyChanged(now: Instant): ReadonlySet<string> {
      for (const [name, at] of changedAt) if (now - at >= highlightDuration) changedAt.delete(name);
      return new Set(changedAt.keys());
    },
  };
}

/** Reads every key, without echo. `onSuspend` is called before Ctrl-Z suspends the program. */
function openKeyboard(input: Pick<Input, 'keys'>, onSuspend: () => void) {
  let waiting: string[] = [];
  let notify: (() => void) | undefined;
  let divertedTo: ((key: string) => void) | undefined;
  const close = input.keys((typed) => {
    if (typed === suspendKey) return onSuspend();
    for (const key of parseKeys(typed)) {
      if (divertedTo === undefined) waiting.push(key);
      else divertedTo(key);
    }
    notify?.();
  });
  return {
    take(): readonly string[] {
      const taken = waiting;
      waiting = [];
      return taken;
    },
    pressed: (): Promise<void> =>
      new Promise((resolve) => {
        if (waiting.length > 0) resolve();
        else notify = resolve;
      }),
    /** Sends keys to `to` until the returned function is called. */
    divert(to: (key: string) => void): () => void {
      divertedTo = to;
      return () => {
        divertedTo = undefined;
      };
    },
    close,
  };
}

export type Keyboard = ReturnType<typeof openKeyboard>;

async function nextKeys(
  keyboard: Keyboard | undefined,
  length: Duration,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const enough = new AbortController();
  const rest = pause(length, AbortSignal.any([signal, enough.signal]));
  await (keyboard === undefined ? rest : Promise.race([rest, keyboard.pressed()]));
  enough.abort();
  return keyboard?.take() ?? [];
}

export type Key = string;

const suspendKey = '\u001a';
const escape = '\u001b';
/** The rest of a sequence after `ESC [`, or after `ESC O` in application mode (xterm's ctlseqs). */
const sequenceKeys: Readonly<Record<string, Key>> = {
  A: 'up',
  B: 'down',
  H: 'first',
  F: 'last',
  '5~': 'page up',
  '6~': 'page down',
};
const controlKeys: Readonly<Record<string, Key>> = {
  '\r': 'enter',
  '\n': 'enter',
  '\u0003': 'interrupt',
  '\u0004': 'leave',
  [escape]: 'escape',
};
const keyPattern = new RegExp(`${escape}(?:\\[|O)([0-9;?]*[ -/]*[@-~])|[^]`, 'g');

/** An unknown sequence is skipped as a whole. */
export function parseKeys(typed: string): readonly Key[] {
  // An empty text reports that the program was suspended and resumed (Input.keys).
  if (typed === '') return ['resumed'];
  return [...typed.matchAll(keyPattern)].flatMap(([text, sequence]) =>
    sequence === undefined ? (controlKeys[text] ?? text) : (sequenceKeys[sequence] ?? []),
  );
}

/** The rows that each key moves by. */
export function movesOf(page: number): Readonly<Record<Key, number>> {
  const [first, last] = [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY];
  return {
    j: 1,
    down: 1,
    k: -1,
    up: -1,
    ' ': page,
    'page down': page,
    'page up': -page,
    g: first,
    first,
    G: last,
    last,
  };
}
