// Search logs: finds a text or an error in whole logs where their files are, at the speed of the memory.
// docs/decisions/log-search.md has the reason why it finds no regular expressions.

import { setImmediate as turn } from 'node:timers/promises';
import type { Job } from '../core/model/job.ts';
import { second, type Duration } from '../core/model/time.ts';
import type { FoundLogLine, LogSearch, LogSearchStep } from './client.ts';
import { pause } from './concurrency.ts';
import { usageError } from './errors.ts';
import { errors, findLine, matcherOf, timeAt, type ReadPart, type Search } from './find-line.ts';
import { maxParts, readLog } from './logs.ts';
import type { JobFiles } from './ports.ts';

const maxTextLength = 200;
/** In bytes: it fits into the cache of a processor, and other requests wait for less than a millisecond. */
const maxBlock = 128 * 1024;
const stepTime: Duration = second / 4;

/** Implements `Client.searchLogs`. Other requests are answered between two blocks. */
export async function* searchLogs(
  files: JobFiles,
  job: Job,
  { text, direction, logs, inEach }: LogSearch,
  left: AbortSignal,
): AsyncGenerator<LogSearchStep, void> {
  if (text === '' || (text !== null && text.length > maxTextLength))
    throw usageError(`A search in logs is for 1 to ${maxTextLength} characters.`);
  if (logs.length > maxParts) throw usageError(`At most ${maxParts} logs at once.`);
  const readerOf =
    (id: string): ReadPart =>
    async (from, maxBytes) => {
      await turn();
      return readLog(files, job, { id, from, maxBytes }, 0);
    };
  const searched = logs.map(({ id, from }) => {
    const { end: size } = readLog(files, job, { id, from: 0, maxBytes: 0 }, 0);
    // Checks the offset.
    readLog(files, job, { id, from, maxBytes: 0 }, 0);
    return { id, read: readerOf(id), size, from: Math.min(from, size) };
  });
  const over = new AbortController();
  const signal = AbortSignal.any([left, over.signal]);
  const matcher = text === null ? errors : matcherOf(text);
  const groups = inEach === true ? searched.map((log) => [log]) : [searched];
  const of = searched.reduce((sum, { size, from }) => sum + (direction === 'next' ? size - from : from), 0);
  let before = 0;
  try {
    for (const group of groups) {
      let read = 0;
      const search = findIn(group, { matcher, direction, signal, maxBlock, onProgress: (bytes) => (read = bytes) });
      for await (const line of withSteps(search, signal)) {
        if (line === undefined) yield { kind: 'read', bytes: before + read, of };
        else if (line !== null || inEach !== true) yield { kind: 'result', line };
      }
      before += read;
    }
  } finally {
    over.abort();
  }
}

interface SearchedLog {
  readonly id: string;
  readonly read: ReadPart;
  readonly size: number;
  readonly from: number;
}

async function findIn(logs: readonly SearchedLog[], how: Omit<Search, 'logs' | 'from'>): Promise<FoundLogLine | null> {
  const found = await findLine({ ...how, logs, from: logs.map(({ from }) => from) });
  const log = found === null ? undefined : logs[found.log];
  if (found === null || log === undefined) return null;
  return { id: log.id, offset: found.offset, time: await timeAt(log.read, found.offset) };
}

/** Undefined after each step without a value, then the value. */
async function* withSteps<T>(value: Promise<T>, signal: AbortSignal): AsyncGenerator<T | undefined, void> {
  let isDone = false;
  const done = value.then(
    () => (isDone = true),
    () => (isDone = true),
  );
  while (!isDone) {
    await Promise.race([done, pause(stepTime, signal)]);
    if (!isDone) yield undefined;
  }
  yield await value;
}
