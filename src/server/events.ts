// Streams: the values of an operation as server-sent events, or its bytes, as fast as the reader takes them.

import { toProblem } from './problem.ts';
import { encodeEvent } from '../api/wire.ts';
import { exitCode, JobmanError } from '../app/errors.ts';
import type { Duration } from '../core/model/time.ts';
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';

export interface StreamOptions {
  /** A comment is sent after so long without a value, so that no program on the way closes the connection. */
  readonly heartbeatMs: Duration;
  /** The error as one for people; it reports a bug. */
  readonly expected: (error: unknown) => JobmanError;
}

/** The iterator, and its first result if that comes soon. Rejects if the operation is refused soon. */
export async function startReading<T>(values: AsyncIterable<T>): Promise<Reading<T>> {
  const iterator = values[Symbol.asyncIterator]();
  const first = iterator.next();
  // Its failure is an answer with a status, if it comes before the answer begins; else it is an event.
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

/** Changes, which all streams share: each is encoded once. */
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
 * One event for each value; those that are ready are one part. Without a reader only one value is read ahead: the next ones
 * are asked for when the reader has taken the last part. Ends with the event `end`, or `problem` with the error; without
 * either, the connection broke, or the server stops.
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
  /** Null if nothing comes for the time of a heartbeat, or once the reader has left. */
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
  /** Adds the value and those that are ready. True at the end. */
  async function take(result: IteratorResult<unknown>, parts: Uint8Array[]): Promise<boolean> {
    const turn = setImmediate().then(() => null);
    let size = 0;
    for (let next: IteratorResult<unknown> | null = result; next !== null;) {
      pending = undefined;
      if (next.done === true) parts.push(encoder.encode(encodeEvent(null, 'end')));
      else parts.push(encode(next.value));
      size += parts.at(-1)?.length ?? 0;
      if (next.done === true) return true;
      if (size >= partBytes || hasLeft) return false;
      pending = iterator.next();
      // Its failure is reported with the next part.
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

/** The bytes of the values. A failure after the first of them closes the connection, because the status is sent. */
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

/** The error for a stream that another request has to end. */
export const noSuchStream = (): JobmanError =>
  new JobmanError('There is no such stream on this server.', exitCode.notFound);
