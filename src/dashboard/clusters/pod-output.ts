// The output of a container, kept in memory as a log that a pane reads by offset.

import { exitCode, JobmanError } from '../../app/errors.ts';
import type { ReadPart } from '../../app/find-line.ts';
import type { LogRef } from '../../app/client.ts';
import { serverNow } from '../live.ts';

/** The lines of the newest output with which a page begins. */
export const tailLines = 20_000;
/** In bytes. */
const maxSize = 64 * 1024 * 1024;

export interface PodOutput {
  /** With its size now. */
  ref(): LogRef;
  readonly read: ReadPart;
  bytes(): Uint8Array<ArrayBuffer>;
  close(): void;
}

interface Source {
  readonly job: string;
  /** Names the log within its job. */
  readonly id: string;
  readonly open: (signal: AbortSignal) => Promise<AsyncIterable<Uint8Array>>;
  readonly onGrown: () => void;
  /** Nothing more is read after a failure. */
  readonly onFailure: (error: unknown) => void;
}

/** Reads until the end of the output, a failure, or `close`. */
export function openPodOutput({ job, id, open, onGrown, onFailure }: Source): PodOutput {
  const over = new AbortController();
  let buffer = new Uint8Array(256 * 1024);
  let size = 0;
  let isComplete = false;

  function add(chunk: Uint8Array): void {
    const needed = size + chunk.length;
    if (needed > maxSize)
      throw new JobmanError(
        'The output is longer than a page can keep. The page reads its newest lines again.',
        exitCode.failed,
      );
    if (needed > buffer.length) {
      const larger = new Uint8Array(Math.max(needed, 2 * buffer.length));
      larger.set(buffer.subarray(0, size));
      buffer = larger;
    }
    buffer.set(chunk, size);
    size = needed;
  }

  async function readAll(): Promise<void> {
    try {
      for await (const chunk of await open(over.signal)) {
        if (over.signal.aborted) return;
        add(chunk);
        onGrown();
      }
      isComplete = true;
      onGrown();
    } catch (error) {
      if (!over.signal.aborted) onFailure(error);
    } finally {
      over.abort();
    }
  }

  void readAll();
  return {
    ref: () => ({ job, id, worker: null, attempt: null, step: null, size, changedAt: serverNow(), isComplete }),
    async read(from, maxBytes) {
      const bytes = buffer.slice(from, Math.min(size, from + maxBytes));
      return { bytes, from, end: Math.max(size, from), isComplete: isComplete && from + bytes.length >= size };
    },
    bytes: () => buffer.slice(0, size),
    close: () => over.abort(),
  };
}
