// Follows output on this machine by file system events: an idle job costs nothing, and an exit is noticed at once.

import { closeSync, openSync, readSync, watch, type FSWatcher } from 'node:fs';
import { join } from 'node:path';
import { messageOf } from '../../app/errors.ts';
import type { OutputFile, TailReceiver } from '../../app/ports.ts';
import { second, type Duration } from '../../core/model/time.ts';
import { errorCode } from '../../remote/ssh-keys.ts';

/** Checked regularly too, because a killed launcher writes nothing, and the file system's watches may be used up. */
const recheckInterval: Duration = 10 * second;

export type AddPeriodicCheck = (call: () => void) => () => void;

/** Shared by all tails: the bytes are copied out before anything else happens. */
const buffer = Buffer.allocUnsafe(256 * 1024);

/** A copy of the next bytes; undefined at the end. Synchronous: another thread would take longer than the read. */
function readAt(log: number, offset: number): Uint8Array | undefined {
  const length = readSync(log, buffer, 0, buffer.length, offset);
  return length === 0 ? undefined : Uint8Array.prototype.slice.call(buffer, 0, length);
}

/** Follows a file of a run folder like `MachinePort.tail`. After `hasEnded` returns true, no output follows. */
export function followFile(
  {
    folder,
    file,
    hasEnded,
    from,
    addPeriodicCheck = everyTenSeconds,
  }: {
    readonly folder: string;
    readonly file: OutputFile;
    readonly hasEnded: () => boolean | Promise<boolean>;
    readonly from: number;
    readonly addPeriodicCheck?: AddPeriodicCheck | undefined;
  },
  receiver: TailReceiver,
): () => void {
  let isCancelled = false;
  let isNotified = false;
  let wake: (() => void) | undefined;
  const notify = (): void => {
    isNotified = true;
    wake?.();
  };
  let log: number | undefined;
  let offset = from;
  const removeCheck = addPeriodicCheck(notify);
  let watcher: FSWatcher | undefined;
  const finish = (): void => {
    isCancelled = true;
    removeCheck();
    watcher?.close();
    wake?.();
  };
  const run = async (): Promise<void> => {
    // Call the receiver only after the caller has the function that cancels.
    await Promise.resolve();
    if (isCancelled) return;
    watcher = watchFolder(folder, notify);
    try {
      for (;;) {
        isNotified = false;
        // Check first: an ended run writes no more, so the read after the check is the last one.
        const ended = await hasEnded();
        log ??= openIfExists(join(folder, file));
        for (;;) {
          if (isCancelled) return;
          const chunk = log === undefined ? undefined : readAt(log, offset);
          if (chunk === undefined || isCancelled) break;
          offset += chunk.length;
          await receiver.bytes(chunk);
          // A program that prints faster than we copy must not block other work.
          await new Promise<void>((resolve) => setImmediate(resolve));
        }
        if (isCancelled) return;
        if (ended) {
          finish();
          receiver.ended();
          return;
        }
        if (!isNotified) {
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
          wake = undefined;
        }
      }
    } finally {
      if (log !== undefined) closeSync(log);
    }
  };
  run().catch((error: unknown) => {
    if (isCancelled) return;
    finish();
    receiver.dropped(messageOf(error));
  });
  return finish;
}

function everyTenSeconds(call: () => void): () => void {
  const timer = setInterval(call, recheckInterval);
  return () => clearInterval(timer);
}

function openIfExists(path: string): number | undefined {
  try {
    return openSync(path, 'r');
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}

/** Throws if the folder does not exist. */
function watchFolder(path: string, call: () => void): FSWatcher | undefined {
  try {
    return watch(path, call).on('error', call);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') throw new Error(`the attempt has no files in ${path}`, { cause: error });
    return undefined;
  }
}
