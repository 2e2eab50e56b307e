// Reads the log of one container as whole lines, without loss or repetition, over several connections. A cluster
// resumes a log only at a whole second, so jobman requests timestamps and skips known lines of the last two seconds.

import { second, type Duration } from '../../core/model/time.ts';
import { LogLineTooLong, type ClusterLogQuery } from '../../app/cluster/cluster.ts';
import { pause } from '../../app/concurrency.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import type { Api } from './api.ts';
import { createLogCursor } from './log-cursor.ts';
import type { RawPod } from './objects.ts';
import { isAborted } from './watch.ts';
import { ClusterRefusal } from './status.ts';

export interface LogSource {
  readonly namespace: string;
  readonly pod: string;
  readonly container: string;
}

/** Without `follow` the caller waits for an answer, so this many losses in a row end the log with an error. */
const maxLosses = 5;
const maxLineBytes = 4 * 1024 * 1024;
const checkInterval: Duration = second;

/**
 * With `follow` it survives lost connections until the container has ended. Rejects with JobmanError if the first try
 * fails, and without `follow` after several losses in a row.
 */
export async function* readLog(api: Api, source: LogSource, query: ClusterLogQuery): AsyncIterable<Uint8Array> {
  try {
    yield* readAvailableLog(api, source, query);
  } catch (error) {
    // `container "main" in pod "x" is terminated`: the node of an evicted pod has removed the container and its log.
    const isRefused = error instanceof ClusterRefusal && error.status.code === 400;
    if (!isRefused || !error.status.message.endsWith(' is terminated')) throw error;
    query.onTruncated?.();
  }
}

async function* readAvailableLog(api: Api, source: LogSource, query: ClusterLogQuery): AsyncIterable<Uint8Array> {
  const { follow = false, signal, onLost, onTruncated, timestamps, resumeAfter: after } = query;
  const path = `/api/v1/namespaces/${source.namespace}/pods/${source.pod}`;
  const purpose = `read the log of ${source.pod}`;
  const state = await logStateOf(api, path, source.container, signal).catch((): LogState => 'running');
  const cursor = createLogCursor({ timestamps });
  if (after !== undefined && after.length > 0) {
    cursor.take(Buffer.from(after.buffer, after.byteOffset, after.byteLength));
    cursor.beginReply();
  }
  let endedCleanly = false;
  let hasOutput = false;
  let isLost = false;
  /** Replies in a row without anything new, however they ended. The pause grows with them. */
  let losses = 0;
  const waitLonger = (): Promise<void> =>
    pause(Math.min(api.retry.initialDelay * 2 ** losses, api.retry.maxDelay), signal);
  // An ended container prints no more: a single request has the whole log.
  let isLast = !follow || hasEnded(state);
  for (;;) {
    try {
      const body = await api.stream({
        path: `${path}/log`,
        query: {
          container: source.container,
          timestamps: true,
          follow: !isLast,
          previous: query.previous,
          ...cursor.nextQuery(query),
        },
        signal,
        purpose,
      });
      try {
        if (isLost) onLost?.(null);
        hasOutput = true;
        isLost = false;
        endedCleanly = false;
        for await (const piece of body as AsyncIterable<Buffer>) {
          const fresh = cursor.take(piece);
          if (cursor.pendingBytes() > maxLineBytes) throw lineTooLongError(source);
          if (fresh.length === 0) continue;
          losses = 0;
          yield fresh;
        }
      } finally {
        body.destroy();
      }
      endedCleanly = true;
      if (isLast) {
        const last = cursor.unfinishedLine();
        if (last.length > 0) yield last;
        return;
      }
      // The connection or the log ended; the container's state decides. One more request gets the lines in between.
      const now = await logStateOf(api, path, source.container, signal);
      isLast = hasEnded(now);
      // Until the restart, the log is the one of the run that has ended.
      if (now === 'restarting') await pause(checkInterval, signal);
      if (now === 'running') {
        losses += 1;
        await waitLonger();
      }
      if (isAborted(signal)) return;
      cursor.beginReply();
    } catch (error) {
      if (isAborted(signal)) return;
      if (error instanceof LogLineTooLong) throw error;
      if (isWaiting(error) && follow) {
        // After a failed init container, the container never starts, and the cluster reports it as waiting forever.
        const now = await logStateOf(api, path, source.container, signal).catch(() => 'running');
        if (now === 'pod-ended') return;
        await pause(checkInterval, signal);
        if (isAborted(signal)) return;
        continue;
      }
      if (error instanceof ClusterRefusal) {
        // The pod was removed while its log was read: the log is complete.
        if (hasOutput && error.status.code === 404) {
          const last = cursor.unfinishedLine();
          if (last.length > 0) yield last;
          if (!endedCleanly) onTruncated?.();
          return;
        }
        if (error.status.code < 500) throw error;
      }
      losses += 1;
      if (!hasOutput || (!follow && losses >= maxLosses)) throw readError(error, source);
      if (!isLost)
        onLost?.(error instanceof JobmanError ? (error.lines[0] ?? error.message) : 'the connection was lost');
      isLost = true;
      cursor.beginReply();
      await waitLonger();
      if (isAborted(signal)) return;
    }
  }
}

/** Matches `container "main" in pod "x" is waiting to start: ContainerCreating`. */
function isWaiting(error: unknown): boolean {
  return (
    error instanceof ClusterRefusal &&
    error.status.code === 400 &&
    /waiting to start|is not yet available|PodInitializing/.test(error.status.message)
  );
}

function lineTooLongError({ pod, container }: LogSource): LogLineTooLong {
  return new LogLineTooLong(
    `${pod} printed a line longer than ${maxLineBytes / 1024 / 1024} MiB; jobman reads its log up to that line.`,
    exitCode.failed,
    [`Show the whole log: kubectl logs ${pod} -c ${container}`],
  );
}

/** The error when the reader stops retrying. Node's connection errors are not sentences. */
function readError(error: unknown, { pod }: LogSource): unknown {
  if (error instanceof JobmanError || !(error instanceof Error && 'code' in error)) return error;
  return new JobmanError(
    `Could not read the log of ${pod}: the cluster closed the connection.`,
    exitCode.unreachable,
    [error.message],
    { cause: error },
  );
}

/** `restarting`: another run of the container follows. `pod-ended`: none of the pod's containers prints again. */
type LogState = 'running' | 'restarting' | 'ended' | 'pod-ended';

function hasEnded(state: LogState): boolean {
  return state === 'ended' || state === 'pod-ended';
}

async function logStateOf(api: Api, path: string, name: string, signal: AbortSignal | undefined): Promise<LogState> {
  const pod = await api.findObject<RawPod>({ path, purpose: 'read its pod', signal });
  if (pod === null) return 'ended';
  const { metadata, spec, status } = pod;
  if (status?.phase === 'Succeeded' || status?.phase === 'Failed') return 'pod-ended';
  const isTarget = (one: { readonly name?: string }): boolean => one.name === name;
  const containerState = [...(status?.containerStatuses ?? []), ...(status?.initContainerStatuses ?? [])].find(
    isTarget,
  )?.state;
  const container = [...(spec?.containers ?? []), ...(spec?.initContainers ?? [])].find(isTarget);
  const policy = container?.restartPolicy ?? spec?.restartPolicy;
  if (containerState?.terminated !== undefined) {
    const isRestarted = policy === 'Always' || (policy === 'OnFailure' && containerState.terminated.exitCode !== 0);
    return isRestarted && metadata?.deletionTimestamp === undefined ? 'restarting' : 'ended';
  }
  return containerState?.waiting?.reason === 'CrashLoopBackOff' ? 'restarting' : 'running';
}
