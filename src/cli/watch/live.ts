// Watching until the user leaves: on a terminal a screen that is drawn in place and answers keys, elsewhere lines.

import { exitCode } from '../../app/errors.ts';
import { second, type Duration, type Instant } from '../../core/time.ts';
import { createBlock } from '../block.ts';
import type { Cli } from '../context.ts';
import { leaveOnSignal, pause } from '../leave.ts';
import { openWindow } from '../window.ts';
import { listen, nextKeys, type Keyboard } from './keyboard.ts';

/** The screen looks, and so draws, no more than four times a second, save for an answer to a key. */
const lookEvery: Duration = 250;
/** A row that changed is bold for so long. */
const boldFor: Duration = 5 * second;

export interface Watching {
  /** Called once, where the output can be redrawn in place. */
  screen(hands: Hands): LiveScreen;
  /** Elsewhere: the lines that are new. Called again and again. */
  lines(): Promise<readonly string[]>;
  readonly linesEvery: Duration;
}

/** Access to the terminal, in addition to pictures. */
export interface Hands {
  /** Undefined where nobody can type. */
  readonly keyboard: Keyboard | undefined;
  /** Aborted when the user leaves by a signal. */
  readonly signal: AbortSignal;
  /** Takes the picture away, so that other text can be written where it stood. */
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

/** Rows as they were last seen, and which of them have changed since. */
export interface SeenRows<Row> {
  /** False before any were seen. */
  readonly isBegun: boolean;
  /** Takes rows as they are now; answers those that are new or not as they were. */
  take(rows: readonly Row[], now: Instant): readonly Row[];
  /** The names of rows that changed a moment ago. Those of the first time are none. */
  recent(now: Instant): ReadonlySet<string>;
}

/** `factsOf` a row is equal text as long as the row counts as unchanged. */
export function createSeenRows<Row>(nameOf: (row: Row) => string, factsOf: (row: Row) => string): SeenRows<Row> {
  const known = new Map<string, string>();
  const changedAt = new Map<string, Instant>();
  let isBegun = false;
  return {
    get isBegun() {
      return isBegun;
    },
    take(rows, now) {
      const changed = rows.filter((row) => known.get(nameOf(row)) !== factsOf(row));
      for (const row of changed) {
        known.set(nameOf(row), factsOf(row));
        if (isBegun) changedAt.set(nameOf(row), now);
      }
      isBegun = true;
      return changed;
    },
    recent(now) {
      for (const [name, at] of changedAt) if (now - at >= boldFor) changedAt.delete(name);
      return new Set(changedAt.keys());
    },
  };
}
