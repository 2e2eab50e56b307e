// Watching until the user leaves: on a terminal a screen that is drawn in place and answers keys, elsewhere lines.

import { exitCode } from '../../app/errors.ts';
import type { Input } from '../../app/services.ts';
import { createBlock, openWindow } from '../block.ts';
import type { Cli } from '../context.ts';
import { leaveOnSignal, pause } from '../leave.ts';
import { type Duration, type Instant, second } from '../../core/time.ts';

/** The screen looks, and so draws, no more than four times a second, save for an answer to a key. */
const lookEvery: Duration = 250;
const boldFor: Duration = 5 * second;

interface Watching {
  screen(hands: Hands): LiveScreen;
  lines(): Promise<readonly string[]>;
  readonly linesEvery: Duration;
}

export interface Hands {
  readonly keyboard: Keyboard | undefined;
  readonly signal: AbortSignal;
  readonly erase: () => void;
}

export interface LiveScreen {
  /** Observes where the time for it has come; true when there is something else to draw. */
  look(): Promise<boolean>;
  /** The title of the window, and lines that are no wider than this and leave one row. */
  picture(size: { readonly columns: number; readonly rows: number }): Promise<Picture> | Picture;
  press(key: string): Promise<Wish> | Wish;
}

interface Picture {
  readonly title: string;
  readonly lines: readonly string[];
}

type Wish = 'leave' | 'interrupt' | null;

/** Goes on until the user leaves; the last picture stays. Resolves with the exit code. */
export async function watchUntilLeft(cli: Cli, watching: Watching): Promise<number> {
  const { io } = cli;
  const { signal, release } = leaveOnSignal(cli);
  const unwatch = io.stdout.watchReader();
  try {
    if (!cli.json && cli.screen.live) return await watchScreen(cli, watching, signal);
    while (!signal.aborted && !io.stdout.closed) {
      const lines = await watching.lines();
      cli.printAll(lines);
      await io.stdout.flush();
      await pause(watching.linesEvery, signal);
    }
    return signal.aborted ? exitCode.interrupted : exitCode.ok;
  } finally {
    release();
    unwatch();
  }
}

async function watchScreen(cli: Cli, watching: Watching, signal: AbortSignal): Promise<number> {
  const { io } = cli;
  const block = createBlock(io, io.stdout, await openWindow(cli, io.stdout, cli.screen.live));
  const keyboard = io.stdin.isTerminal ? listen(io.stdin) : undefined;
  const screen = watching.screen({ keyboard, signal, erase: block.clear });
  const draw = async (): Promise<void> => {
    if (!block.isDue()) return;
    const { title, lines } = await screen.picture(io.stdout.size());
    block.draw(title, lines);
  };
  try {
    while (!signal.aborted && !io.stdout.closed) {
      if (await screen.look()) block.stale();
      await draw();
      const keys = await nextKeys(keyboard, lookEvery, signal);
      for (const key of keys) {
        // The shell has written below the block meanwhile.
        if (key === 'resumed') block.leave();
        const wish = await screen.press(key);
        if (wish !== null) return wish === 'leave' ? exitCode.ok : exitCode.interrupted;
      }
      // An answer to a key is drawn at once, from what is known.
      if (keys.length > 0) block.stale();
      await draw();
    }
    return signal.aborted ? exitCode.interrupted : exitCode.ok;
  } finally {
    keyboard?.close();
    block.close();
  }
}

/** Rows as they were last seen, and which of them have changed since. `factsOf` a row is equal text as long as it counts as unchanged. */
export function createSeenRows<Row>(nameOf: (row: Row) => string, factsOf: (row: Row) => string) {
  const known = new Map<string, string>();
  const changedAt = new Map<string, Instant>();
  let isBegun = false;
  return {
    get isBegun(): boolean {
      return isBegun;
    },
    /** Takes rows as they are now; answers those that are new or not as they were. */
    take(rows: readonly Row[], now: Instant): readonly Row[] {
      const changed = rows.filter((row) => known.get(nameOf(row)) !== factsOf(row));
      for (const row of changed) {
        known.set(nameOf(row), factsOf(row));
        if (isBegun) changedAt.set(nameOf(row), now);
      }
      isBegun = true;
      return changed;
    },
    /** The names of rows that changed a moment ago. Those of the first time are none. */
    recent(now: Instant): ReadonlySet<string> {
      for (const [name, at] of changedAt) if (now - at >= boldFor) changedAt.delete(name);
      return new Set(changedAt.keys());
    },
  };
}

/** Takes every key, unseen, until it is closed. */
function listen(input: Pick<Input, 'keys'>) {
  let waiting: string[] = [];
  let tell: (() => void) | undefined;
  let elsewhere: ((key: string) => void) | undefined;
  const close = input.keys((typed) => {
    for (const key of keysOf(typed)) {
      if (elsewhere === undefined) waiting.push(key);
      else elsewhere(key);
    }
    tell?.();
  });
  return {
    /** The keys since the last call. */
    take(): readonly string[] {
      const taken = waiting;
      waiting = [];
      return taken;
    },
    pressed: (): Promise<void> =>
      new Promise((resolve) => {
        if (waiting.length > 0) resolve();
        else tell = resolve;
      }),
    /** Keys go elsewhere until the returned function is called. */
    divert(to: (key: string) => void): () => void {
      elsewhere = to;
      return () => {
        elsewhere = undefined;
      };
    },
    close,
  };
}

export type Keyboard = ReturnType<typeof listen>;

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

/** Keys that send a sequence (xterm's ctlseqs, with and without application mode), and control characters that act. */
const named: readonly (readonly [sequence: string, key: Key])[] = [
  ['\u001b[A', 'up'],
  ['\u001bOA', 'up'],
  ['\u001b[B', 'down'],
  ['\u001bOB', 'down'],
  ['\u001b[5~', 'page up'],
  ['\u001b[6~', 'page down'],
  ['\u001b[H', 'first'],
  ['\u001bOH', 'first'],
  ['\u001b[F', 'last'],
  ['\u001bOF', 'last'],
  ['\r', 'enter'],
  ['\n', 'enter'],
  ['\u0003', 'interrupt'],
  ['\u0004', 'leave'],
];

const escape = '\u001b';

/** In the order in which they were pressed. A sequence that is not known is passed over as a whole. */
export function keysOf(typed: string): readonly Key[] {
  // So the terminal tells that the program rested and was brought back (Input.keys).
  if (typed === '') return ['resumed'];
  const keys: Key[] = [];
  for (let at = 0; at < typed.length;) {
    const rest = typed.slice(at);
    const found = named.find(([sequence]) => rest.startsWith(sequence));
    const unknown = rest.startsWith(escape) ? /^.(?:\[[0-9;?]*[ -/]*[@-~]|O.)/.exec(rest)?.[0] : undefined;
    if (found !== undefined) keys.push(found[1]);
    else if (unknown === undefined) keys.push(rest[0] === escape ? 'escape' : (rest[0] ?? ''));
    at += (found?.[0] ?? unknown ?? ' ').length;
  }
  return keys;
}
