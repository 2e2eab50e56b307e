// Following an output on this machine: woken by the file system when something is written, so that an idle job costs
// nothing and an exit is noticed at once.

import { watch } from 'node:fs';
import type { FSWatcher } from 'node:fs';
import { open } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import type { TailReceiver } from '../../app/ports.ts';
import { second } from '../../core/time.ts';
import type { Duration } from '../../core/time.ts';
import { codeOf } from '../../remote/host-keys.ts';
import { textOf } from '../../remote/process.ts';

const chunkMost = 256 * 1024;

/** What is asked again without being woken: a launcher that is killed writes nothing. */
const recheckUsual: Duration = 10 * second;
/** Where the file system gives no notice (its watches are used up). */
const pollEvery: Duration = 0.5 * second;

export interface TailHub {
  /** Follows the `log` of that run folder; as `MachinePort.tail`. `isOver` is asked before each reading to the end. */
  follow(path: string, isOver: () => boolean, from: number, receiver: TailReceiver): () => void;
}

/** All tails share one timer, so that a thousand of them wake the processor no more often than one. */
export function createTailHub(recheckEvery: Duration = recheckUsual): TailHub {
  const pokes = new Set<() => void>();
  let timer: NodeJS.Timeout | undefined;

  function joinIn(poke: () => void): () => void {
    pokes.add(poke);
    timer ??= setInterval(() => {
      for (const each of pokes) each();
    }, recheckEvery);
    return () => {
      pokes.delete(poke);
      if (pokes.size > 0) return;
      clearInterval(timer);
      timer = undefined;
    };
  }

  return {
    follow(path, isOver, from, receiver) {
      let isOff = false;
      let isPoked = false;
      let wake: (() => void) | undefined;
      const poke = (): void => {
        isPoked = true;
        wake?.();
      };
      const leave = joinIn(poke);
      let notice: { close(): void } | undefined;
      const finish = (): void => {
        isOff = true;
        leave();
        notice?.close();
        wake?.();
      };
      const run = async (): Promise<void> => {
        notice = noticeIn(path, poke);
        let log: FileHandle | undefined;
        try {
          let at = from;
          const buffer = Buffer.allocUnsafe(chunkMost);
          for (;;) {
            isPoked = false;
            // Asked first: what is over writes no more, so that the reading after it is the last one.
            const over = isOver();
            log ??= await openIfThere(join(path, 'log'));
            for (;;) {
              if (isOff) return;
              const { bytesRead } = (await log?.read(buffer, 0, chunkMost, at)) ?? { bytesRead: 0 };
              if (bytesRead === 0 || isOff) break;
              at += bytesRead;
              // A copy: the receiver may keep what it is given.
              await receiver.bytes(Uint8Array.prototype.slice.call(buffer, 0, bytesRead));
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
          await log?.close();
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

async function openIfThere(path: string): Promise<FileHandle | undefined> {
  try {
    return await open(path, 'r');
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
