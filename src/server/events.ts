// Streams: the values of an operation as server-sent events, or its bytes, as fast as the reader takes them.

import { toProblem } from '../api/problem.ts';
import { encodeEvent } from '../api/wire.ts';
import { exitCode, JobmanError } from '../app/errors.ts';
import type { Duration } from '../core/model/time.ts';
import { setTimeout as sleep } from 'node:timers/promises';

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

/**
 * One event for each value. Nothing is read ahead: the next value is asked for when the reader has taken the last one.
 * Ends with the event `end`, or `problem` with the error; without either, the connection broke, or the server stops.
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
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        let text: string;
        let isOver = false;
        try {
          const result = hasLeft ? null : await nextOrNull();
          if (result !== null) pending = undefined;
          isOver = hasLeft || result?.done === true;
          text = result === null ? ': \n\n' : isOver ? encodeEvent(null, 'end') : encodeEvent(result.value);
        } catch (error) {
          isOver = true;
          text = encodeEvent(toProblem(expected(error)), 'problem');
        }
        if (!hasLeft) controller.enqueue(encoder.encode(text));
        if (isOver) controller.close();
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
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const result = await (pending ?? iterator.next());
          pending = undefined;
          if (result.done === true) controller.close();
          else controller.enqueue(result.value);
        } catch (error) {
          expected(error);
          broken();
          controller.close();
        }
      },
      cancel: async () => void (await iterator.return?.()),
    },
    { highWaterMark: 0 },
  );
}

/** The error for a stream that another request has to end. */
export const noSuchStream = (): JobmanError =>
  new JobmanError('There is no such stream on this server.', exitCode.notFound);
