import { mkdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Duration } from '../core/model/time.ts';
import { wallClock } from './clock.ts';
import type { Emulator, EmulatorOptions } from './contract.ts';
import { startEmulator } from './start.ts';

export interface ServeOptions extends EmulatorOptions {
  readonly pid: number;
  /** Receives `READY http://127.0.0.1:PORT` with a line end once the API answers. */
  readonly write: (text: string) => void;
  /** Called once when the state folder was removed (no client can find it) or after `idleExitMs` of idle time. */
  readonly onShouldClose?: () => void;
  /** The idle time before the emulator closes, in milliseconds; see `Emulator.idleSince`. When absent: never. */
  readonly idleExitMs?: Duration;
}

const checkInterval = 5_000;

/** Prints READY after `<stateDir>/endpoint.json` exists. A kill -9 leaves that file, and its pid no longer exists. */
export async function serveEmulator(
  options: ServeOptions,
  openFleet?: Parameters<typeof startEmulator>[1],
): Promise<Emulator> {
  const { pid, write, onShouldClose, idleExitMs, ...rest } = options;
  const emulator = await startEmulator(rest, openFleet);
  const path = join(options.stateDir, 'endpoint.json');
  const database = join(options.stateDir, 'cloud.db');
  // An inode number is not reused while the database holds the file open.
  const { ino } = statSync(database);
  const isStateRemoved = () => isReplaced(database, ino);
  const clock = options.clock ?? wallClock;
  const isIdle = (): boolean => {
    const since = emulator.idleSince();
    return idleExitMs !== undefined && since !== null && clock.now() - since >= idleExitMs;
  };
  const every = Math.min(checkInterval, idleExitMs ?? checkInterval);
  const check = (): void => {
    const removed = isStateRemoved();
    if (!removed && !isIdle()) {
      stopChecking = clock.after(every, check);
      return;
    }
    rest.log?.(
      removed
        ? `${options.stateDir} was removed: the emulator stops, and its hosts with it.`
        : 'The emulator has no resources and no requests, so it stops. It starts again when a command needs it.',
    );
    onShouldClose?.();
  };
  let stopChecking = clock.after(every, check);
  mkdirSync(options.stateDir, { recursive: true });
  writeFileSync(`${path}.new`, `${JSON.stringify({ url: emulator.url, sshPort: emulator.sshPort, pid })}\n`);
  renameSync(`${path}.new`, path);
  write(`READY ${emulator.url}\n`);
  return {
    ...emulator,
    async close() {
      stopChecking();
      // Another emulator may have written its own file there in the meantime.
      if (!isStateRemoved()) rmSync(path, { force: true });
      await emulator.close();
    },
  };
}

/** A failure other than a missing file proves nothing, so the result is then false. */
function isReplaced(path: string, ino: number): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false })?.ino !== ino;
  } catch {
    return false;
  }
}
