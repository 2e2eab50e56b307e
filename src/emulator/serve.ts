// The emulator as a program of its own: it says READY when it answers, and leaves a note where others find it.

import { mkdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Duration } from '../core/time.ts';
import { wallClock } from './clock.ts';
import type { Emulator, EmulatorOptions } from './contract.ts';
import { startEmulator } from './start.ts';

export interface ServeOptions extends EmulatorOptions {
  /** The id of this process, for `endpoint.json`. */
  readonly pid: number;
  /** Told `READY http://127.0.0.1:PORT`, with a line end, once the API answers. */
  readonly write: (text: string) => void;
  /**
   * Called once when this cloud is to be closed because nobody would miss it: its state folder was removed, so that nobody
   * can find it any more, or it has been empty and unasked for `idleExitMs`.
   */
  readonly gone?: () => void;
  /** How long it stays while it is empty and nobody asks for a change, in milliseconds. Without it: for ever. */
  readonly idleExitMs?: Duration;
}

/** How often it is looked whether it is to go on, in milliseconds. */
const lookEvery = 5_000;

/**
 * Starts the emulator, writes `<stateDir>/endpoint.json` as `{ url, sshPort, pid }`, then says READY.
 * The file is removed on close; after a kill -9 it stays, and its pid tells that nobody is there.
 */
export async function serveEmulator(options: ServeOptions): Promise<Emulator> {
  const { pid, write, gone, idleExitMs, ...rest } = options;
  const emulator = await startEmulator(rest);
  const path = join(options.stateDir, 'endpoint.json');
  const database = join(options.stateDir, 'cloud.db');
  // The number of a file is given to no other while this one is held open.
  const { ino } = statSync(database);
  const isGone = () => isAnother(database, ino);
  const clock = options.clock ?? wallClock;
  const isForgotten = (): boolean => {
    const since = emulator.restingSince();
    return idleExitMs !== undefined && since !== null && clock.now() - since >= idleExitMs;
  };
  const every = Math.min(lookEvery, idleExitMs ?? lookEvery);
  const look = (): void => {
    const removed = isGone();
    if (!removed && !isForgotten()) {
      stopLooking = clock.after(every, look);
      return;
    }
    rest.log?.(
      removed
        ? `${options.stateDir} was removed: the cloud ends, and its machines with it.`
        : 'Nothing is here and nobody asks for anything: the cloud leaves. Whoever needs it starts it again.',
    );
    gone?.();
  };
  let stopLooking = clock.after(every, look);
  mkdirSync(options.stateDir, { recursive: true });
  writeFileSync(`${path}.new`, `${JSON.stringify({ url: emulator.url, sshPort: emulator.sshPort, pid })}\n`);
  renameSync(`${path}.new`, path);
  write(`READY ${emulator.url}\n`);
  return {
    ...emulator,
    async close() {
      stopLooking();
      // Another cloud may have left its note there since.
      if (!isGone()) rmSync(path, { force: true });
      await emulator.close();
    },
  };
}

/** True when nothing has that name, or another file. A look that fails in any other way says nothing. */
function isAnother(path: string, ino: number): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false })?.ino !== ino;
  } catch {
    return false;
  }
}
