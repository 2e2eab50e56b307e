// Following an output on this machine: woken by the file system when something is written, so that an idle job costs
// nothing and an exit is noticed at once.

import { closeSync, openSync, readSync, watch, type FSWatcher } from 'node:fs';
import { join } from 'node:path';
import { textOf } from '../../app/errors.ts';
import type { TailReceiver } from '../../app/ports.ts';
import { second, type Duration } from '../../core/time.ts';
import { codeOf } from '../../remote/ssh-keys.ts';

const chunkMost = 256 * 1024;

/** Polled as well, because a launcher that is killed writes nothing. */
const recheckEvery: Duration = 10 * second;
/** Where the file system gives no notice (its watches are used up). */
const pollEvery: Duration = 0.5 * second;

/** Calls back every now and then until the returned function is called. */
export type Rounds = (call: () => void) => () => void;

/** All tails go by the same rounds, so that a thousand of them wake the processor no more often than one. */
export function createTailHub(rounds: Rounds = tenSeconds) {
  const checks = new Set<() => void>();
  let endRounds: (() => void) | undefined;
  /** One for all tails: what was read is copied out of it before anything else happens. */
  const buffer = Buffer.allocUnsafe(chunkMost);

  function joinIn(check: () => void): () => void {
    checks.add(check);
    endRounds ??= rounds(() => {
      for (const each of checks) each();
    });
    return () => {
      checks.delete(check);
      if (checks.size > 0) return;
      endRounds?.();
      endRounds = undefined;
    };
  }

  /**
   * The bytes there, at most a buffer full; undefined at the end. A copy, which the receiver may keep. At
   * once, because handing a read of this machine's own file to another thread takes longer than the read.
   */
  function readAt(log: number, at: number): Uint8Array | undefined {
    const length = readSync(log, buffer, 0, chunkMost, at);
    return length === 0 ? undefined : Uint8Array.prototype.slice.call(buffer, 0, length);
  }

  return {
    /**
     * Follows the `log` of that run folder; as `MachinePort.tail`. `isOver` is asked before each reading to the end: nothing of
     * the run is alive, and nothing more will be written.
     */
    follow(path: string, isOver: () => boolean, from: number, receiver: TailReceiver): () => void {
      let isOff = false;
      let isPoked = false;
      let wake: (() => void) | undefined;
      const poke = (): void => {
        isPoked = true;
        wake?.();
      };
      let log: number | undefined;
      let at = from;
      // Every write wakes the reader; the rounds are for an end that writes nothing.
      const leave = joinIn(poke);
      let notice: { close(): void } | undefined;
      const finish = (): void => {
        isOff = true;
        leave();
        notice?.close();
        wake?.();
      };
      const run = async (): Promise<void> => {
        // Nobody is called back before he holds the way to call it off.
        await Promise.resolve();
        if (isOff) return;
        notice = noticeIn(path, poke);
        try {
          for (;;) {
            isPoked = false;
            // Asked first: what is over writes no more, so that the reading after it is the last one.
            const over = isOver();
            log ??= openIfThere(join(path, 'log'));
            for (;;) {
              if (isOff) return;
              const chunk = log === undefined ? undefined : readAt(log, at);
              if (chunk === undefined || isOff) break;
              at += chunk.length;
              await receiver.bytes(chunk);
              // A program that prints faster than we copy must not keep everybody else from their turn.
              await new Promise<void>((resolve) => {
                setImmediate(resolve);
              });
            }
            if (isOff) return;
            if (over) {
              finish();
              receiver.ended();
              return;
            }
            if (!isPoked) {
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
        if (isOff) return;
        finish();
        receiver.dropped(textOf(error));
      });
      return finish;
    },
  };
}

function tenSeconds(call: () => void): () => void {
  const timer = setInterval(call, recheckEvery);
  return () => clearInterval(timer);
}

function openIfThere(path: string): number | undefined {
  try {
    return openSync(path, 'r');
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

/** Calls back when something in that folder changes. Throws when there is no such folder. */
function noticeIn(path: string, call: () => void): { close(): void } {
  let watcher: FSWatcher;
  try {
    watcher = watch(path, call);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') throw new Error(`the attempt has left nothing in ${path}`, { cause: error });
    const timer = setInterval(call, pollEvery);
    return {
      close: () => {
        clearInterval(timer);
      },
    };
  }
  watcher.on('error', call);
  return watcher;
}
