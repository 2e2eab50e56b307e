// Streams: the values of an operation as server-sent events, or its bytes, no faster than the client reads.

import { toProblem } from './problem.ts';
import { encodeEvent } from '../api/wire.ts';
import { exitCode, JobmanError } from '../app/errors.ts';
import type { Duration } from '../core/model/time.ts';
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';

export interface StreamOptions {
  /** After this time without a value, the server sends a comment, so that no proxy closes the connection. */
  readonly heartbeatMs: Duration;
  /** Turns a bug into an error with the id of an incident. */
  readonly expected: (error: unknown) => JobmanError;
}

/** Starts an operation, and waits shortly for its first result. Rejects if the operation fails in this time. */
export async function startReading<T>(values: AsyncIterable<T>): Promise<Reading<T>> {
  const iterator = values[Symbol.asyncIterator]();
  const first = iterator.next();
  // An early failure becomes a response with an error status; a later one becomes an event.
  const [soon, stop] = [new AbortController(), () => soon.abort()];
  await Promise.race([
    first.finally(stop),
    sleep(refusalMs, undefined, { signal: soon.signal }).catch(() => undefined),
  ]);
  return { iterator, first };
}

const refusalMs: Duration = 1_000;

export interface Reading<T> {
  readonly iterator: AsyncIterator<T>;
  readonly first: Promise<IteratorResult<T>>;
}

const encoder = new TextEncoder();

/** The encodings of changes. All streams share a change, so it is encoded once. */
const encodedChanges = new WeakMap<object, Uint8Array>();

function encode(value: unknown): Uint8Array {
  if (typeof value !== 'object' || value === null || !('cursor' in value)) return encoder.encode(encodeEvent(value));
  const bytes = encodedChanges.get(value) ?? encoder.encode(encodeEvent(value));
  encodedChanges.set(value, bytes);
  return bytes;
}

/** Maximum size of a part of a stream, unless one value is longer. */
const partBytes = 64 * 1024;

/**
 * Sends one event for each value, and sends values that are ready together. Reads at most one value ahead of the client. The
 * last event is `end`, or `problem` with the error; without either, the connection broke, or the server stopped.
 */
export function eventStream({ iterator, first }: Reading<unknown>, { heartbeatMs, expected }: StreamOptions) {
  let pending: Promise<IteratorResult<unknown>> | undefined = first;
  let hasLeft = false;
  let interrupt: (() => void) | undefined;
  const leave = async (): Promise<void> => {
    hasLeft = true;
    interrupt?.();
    await iterator.return?.();
  };
  /** The next result; null if there is none within a heartbeat interval, or once the client has left. */
  function nextOrNull(): Promise<IteratorResult<unknown> | null> {
    pending ??= iterator.next();
    const next = pending;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => interrupt?.(), heartbeatMs);
      interrupt = () => {
        clearTimeout(timer);
        resolve(null);
      };
      void next.then(resolve, reject).finally(() => clearTimeout(timer));
    });
  }
  /** Adds the value, and further values that are ready. Returns true at the end of the stream. */
  async function take(result: IteratorResult<unknown>, parts: Uint8Array[]): Promise<boolean> {
    const turn = setImmediate().then(() => null);
    let size = 0;
    for (let next: IteratorResult<unknown> | null = result; next !== null;) {
      pending = undefined;
      if (next.done === true) parts.push(encoder.encode(encodeEvent(null, 'end')));
      else parts.push(encode(next.value));
      size += parts.at(-1)?.length ?? 0;
      if (next.done === true) return true;
      if (size >= partBytes || hasLeft) {
        // A log is always ready, and a client on the same machine takes it at once.
        await turn;
        return false;
      }
      pending = iterator.next();
      // The next part reports its failure.
      pending.catch(() => undefined);
      next = await Promise.race([pending, turn]);
    }
    return false;
  }
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const parts: Uint8Array[] = [];
        let isOver = false;
        try {
          const result = hasLeft ? null : await nextOrNull();
          if (result === null) parts.push(encoder.encode(': \n\n'));
          else isOver = await take(result, parts);
        } catch (error) {
          isOver = true;
          parts.push(encoder.encode(encodeEvent(toProblem(expected(error)), 'problem')));
        }
        if (!hasLeft) controller.enqueue(Buffer.concat(parts));
        if (isOver || hasLeft) controller.close();
      },
      cancel: leave,
    },
    { highWaterMark: 0 },
  );
  return { body, leave };
}

/** Sends the bytes of the values. A failure closes the connection, because the status is already sent. */
export function byteStream(
  { iterator, first }: Reading<Uint8Array>,
  { broken, expected }: Pick<StreamOptions, 'expected'> & { readonly broken: () => void },
): ReadableStream<Uint8Array> {
  let pending: Promise<IteratorResult<Uint8Array>> | undefined = first;
  let hasLeft = false;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const result = await (pending ?? iterator.next());
          pending = undefined;
          if (hasLeft) return;
          if (result.done === true) controller.close();
          else controller.enqueue(result.value);
        } catch (error) {
          if (hasLeft) return;
          expected(error);
          broken();
          controller.close();
        }
      },
      async cancel() {
        hasLeft = true;
        await iterator.return?.();
      },
    },
    { highWaterMark: 0 },
  );
}

/** The error of `DELETE /v1/streams/{id}` for an unknown id. */
export const noSuchStream = (): JobmanError =>
  new JobmanError('There is no such stream on this server.', exitCode.notFound);
