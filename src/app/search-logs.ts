// Search logs: finds a text in whole logs where their files are, at the speed of the memory. docs/decisions/log-search.md has
// the reason why it finds no regular expressions.

import { setImmediate as turn } from 'node:timers/promises';
import type { Job } from '../core/model/job.ts';
import { second, type Duration } from '../core/model/time.ts';
import type { LogSearch, LogSearchStep } from './client.ts';
import { pause } from './concurrency.ts';
import { usageError } from './errors.ts';
import { findLine, matcherOf, type ReadPart } from './find-line.ts';
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
  { text, direction, logs }: LogSearch,
  left: AbortSignal,
): AsyncGenerator<LogSearchStep, void> {
  if (text === '' || text.length > maxTextLength)
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
    return { read: readerOf(id), size, from: Math.min(from, size) };
  });
  const over = new AbortController();
  const signal = AbortSignal.any([left, over.signal]);
  let step: LogSearchStep = { kind: 'read', bytes: 0, of: 0 };
  const search = findLine({
    logs: searched,
    matcher: matcherOf(text),
    direction,
    from: searched.map(({ from }) => from),
    signal,
    maxBlock,
    onProgress: (bytes, of) => (step = { kind: 'read', bytes, of }),
  });
  try {
    let isDone = false;
    const done = search.then(
      () => (isDone = true),
      () => (isDone = true),
    );
    while (!isDone) {
      await Promise.race([done, pause(stepTime, signal)]);
      if (!isDone) yield step;
    }
    const found = await search;
    const id = found === null ? undefined : logs[found.log]?.id;
    yield { kind: 'result', line: found === null || id === undefined ? null : { id, offset: found.offset } };
  } finally {
    over.abort();
  }
}
