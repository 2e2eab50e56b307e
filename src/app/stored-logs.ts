// The logs of a stored job, as its source gives them to a reader.

import { isFinishedPhase } from '../core/decide/phase.ts';
import { parseInstant, type Duration, type Instant } from '../core/model/time.ts';
import type { Client, LogQuery, LogRef } from './client.ts';
import { usageError } from './errors.ts';
import { logBytes, requireSupported, type JobLog, type LogsQuery, type LogStep } from './job-source.ts';
import { jobUpdates } from './job-updates.ts';
import type { Io } from './services.ts';

/** See `JobSource.logs`. */
export async function* storedLogs(
  client: Client,
  io: Pick<Io, 'now'>,
  id: string,
  query: LogsQuery,
  signal: AbortSignal,
): AsyncGenerator<LogStep> {
  requireSupported(query, 'store');
  if (query.since !== undefined && query.step !== 'job' && query.step !== 'tpu') {
    throw usageError('--since needs times, which the output of programs does not have.', [
      'The last lines: --tail 100. With times: --step job, --step tpu, and jobs of a Kubernetes cluster.',
    ]);
  }
  if (query.follow === true) return yield* followedLogs(client, io, id, query, signal);
  const all = await client.logs(id, logQueryOf(query));
  const logs = await Promise.all(all.map((log) => wantedLog(client, log, query)));
  yield { kind: 'logs', logs, isNext: false };
  if (all.some(({ size }) => size > 0)) return;
  const view = await client.show(id);
  yield {
    kind: 'note',
    message: `${formatSilence(isFinishedPhase(view.phase), all.length > 0)} ${view.why.message}`,
  };
}

function logQueryOf({ worker, step, attempt }: LogsQuery): LogQuery {
  return {
    ...(worker === undefined ? {} : { worker }),
    ...(step === undefined ? {} : { step }),
    ...(attempt === undefined ? {} : { attempt }),
  };
}

function formatSilence(isOver: boolean, hasLog: boolean): string {
  if (!isOver) return hasLog ? 'No output yet.' : 'No log yet.';
  return hasLog
    ? 'The program printed nothing.'
    : 'There is no log: the program printed nothing, or `jobman clean` removed the files.';
}

/** The end of a log may arrive shortly after the end of the job. */
const quietAfterEnd: Duration = 600;
/** A job that finished this long ago has no log data in transit. */
const longFinished: Duration = 5_000;

async function* followedLogs(
  client: Client,
  io: Pick<Io, 'now'>,
  id: string,
  query: LogsQuery,
  signal: AbortSignal,
): AsyncGenerator<LogStep> {
  const { after } = query;
  const known = new Set<string>();
  let view = await client.show(id);
  let attempt: number | null = null;
  let listedUpTo = after ?? 0;
  let size = 0;
  let grownAt = io.now();
  // The clock of the server, which has the time of the end, may be ahead or behind.
  let endedAt: Instant | null = null;
  let wasUnfinished = !isFinishedPhase(view.phase);

  async function listLogs(): Promise<readonly LogRef[]> {
    const newest = await client.logs(view.id, logQueryOf(query));
    const from = attempt ?? after;
    if (from === undefined || query.attempt !== undefined || query.step !== undefined) return newest;
    const last = newest[0]?.attempt ?? view.attempts.findLast(({ startedAt }) => startedAt !== null)?.attempt ?? from;
    const earlier: LogRef[] = [];
    // Attempts that have started and ended between two listings.
    for (let missed = Math.max(from, listedUpTo) + 1; missed < last; missed += 1) {
      earlier.push(...(await client.logs(view.id, { ...logQueryOf(query), attempt: missed })));
      listedUpTo = missed;
    }
    return [...earlier, ...newest];
  }

  for await (const [update] of jobUpdates(client, new Set([view.id]), io, signal)) {
    if (update !== undefined) {
      // Throws for a deleted job.
      view = update.view ?? (await client.show(view.id));
      yield { kind: 'job', view, news: update.news, isFirst: update.isFirst };
    }
    const all = await listLogs();
    const fresh = all.filter(
      (log) => !known.has(log.id) && (after === undefined || log.attempt === null || log.attempt > after),
    );
    for (const [ordinal, logs] of Map.groupBy(fresh, (log) => log.attempt)) {
      const isNext = attempt !== null && ordinal !== null && ordinal > attempt;
      const isNew = isNext || (attempt !== null && known.size > 0 && ordinal !== attempt);
      attempt = ordinal ?? attempt;
      const wanted = await Promise.all(logs.map((log) => wantedLog(client, log, isNew ? {} : query)));
      for (const log of logs) known.add(log.id);
      yield { kind: 'logs', logs: wanted.map((log) => ({ ...log, isNew })), isNext };
    }
    yield { kind: 'grown' };
    const sizeNow = all.reduce((sum, log) => sum + log.size, 0);
    if (sizeNow !== size) grownAt = io.now();
    size = sizeNow;
    const { phase, phaseStartedAt } = view;
    if (!isFinishedPhase(phase)) {
      wasUnfinished = true;
      endedAt = null;
      continue;
    }
    if (view.spec.command.isSetupOnly === true) return yield { kind: 'finished', phase };
    endedAt ??= io.now();
    const isLongFinished = !wasUnfinished && io.now() - phaseStartedAt > longFinished;
    if (isLongFinished || io.now() - Math.max(grownAt, endedAt) > quietAfterEnd)
      return yield { kind: 'finished', phase };
  }
}

async function wantedLog(client: Client, log: LogRef, { tail, since, worker: named }: LogsQuery): Promise<JobLog> {
  const { job, id, worker, attempt } = log;
  const from = Math.max(
    tail === undefined ? 0 : await offsetOfLast(client, log, tail),
    since === undefined ? 0 : await offsetSince(client, log, since),
  );
  const label = named === undefined ? worker : null;
  return { job, id, worker, attempt, label, pod: null, from, isNew: false, isSequential: false };
}

const tailBlockSize = 64 * 1024;

/** The log's end for 0 lines. Reads backwards, no more than needed. */
async function offsetOfLast(client: Client, { job, id, size }: LogRef, lines: number): Promise<number> {
  if (lines === 0) return size;
  let found = 0;
  for (let end = size; end > 0;) {
    const begin = Math.max(0, end - tailBlockSize);
    const { bytes, from } = await client.readLog(job, id, begin, Math.min(end, tailBlockSize));
    for (let at = bytes.length - 1; at >= 0; at -= 1) {
      // The newline at the end of the log ends the last line and begins none.
      if (bytes[at] !== 10 || from + at === size - 1) continue;
      found += 1;
      if (found === lines) return from + at + 1;
    }
    end = from;
  }
  return 0;
}

/** Of the first line that begins with a time from then on; the log's end without one. Only for a log with times. */
async function offsetSince(client: Client, log: LogRef, since: Instant): Promise<number> {
  let offset = 0;
  let rest: Buffer = Buffer.alloc(0);
  for await (const block of logBytes((...part) => client.readLog(log.job, ...part), { id: log.id, from: 0 })) {
    const bytes = Buffer.concat([rest, block]);
    let begin = 0;
    for (let end = bytes.indexOf(10); end >= 0; end = bytes.indexOf(10, begin)) {
      const text = bytes.subarray(begin, Math.min(end, begin + 40)).toString('latin1');
      const at = parseInstant(text.split(' ', 1)[0]);
      if (at !== null && at >= since) return offset + begin;
      begin = end + 1;
    }
    offset += begin;
    rest = bytes.subarray(begin);
  }
  return offset + rest.length;
}
