// Logs: what one container prints, whole lines, none lost and none twice, over connections that end. A cluster can go on
// from a moment only, and only from a whole second. So lines are asked for with their moments, and after a loss those of the
// last two seconds that were had already are passed over. The log of a pod that is over is told the same each time: there bytes
// are counted, and the moments, which are a third of a short line, stay where they are.

import { second, type Duration } from '../../core/time.ts';
import { LogLineTooLong, type ClusterLogQuery } from '../../app/cluster/cluster.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import type { Api } from './api.ts';
import { createLogCursor } from './log-cursor.ts';
import type { RawPod } from './objects.ts';
import { hasLeft, rest } from './watch.ts';
import { ClusterRefusal } from './status.ts';

/** Which container's. */
export interface LogSource {
  readonly namespace: string;
  readonly pod: string;
  readonly container: string;
}

/** Somebody who does not follow wants an answer; after so many losses in a row it is that it broke off. */
const lossesMost = 5;
/** The longest line of a log that is held in memory; a longer one ends the log with an error. */
const lineMost = 4 * 1024 * 1024;
const lookEvery: Duration = second;

/**
 * Bytes of whole lines, in pieces. Following, it goes on until the container has ended or its pod is gone, whatever becomes
 * of the line meanwhile. Rejects with JobmanError when the first try fails, and when not followed after several.
 */
export async function* readLog(api: Api, source: LogSource, query: ClusterLogQuery): AsyncIterable<Uint8Array> {
  try {
    yield* readThere(api, source, query);
  } catch (error) {
    if (!isPutAway(error)) throw error;
    query.onCut?.();
  }
}

async function* readThere(api: Api, source: LogSource, query: ClusterLogQuery): AsyncIterable<Uint8Array> {
  const { follow = false, signal, onLost, onCut, stamped, after } = query;
  const path = `/api/v1/namespaces/${source.namespace}/pods/${source.pod}`;
  const what = `read the log of ${source.pod}`;
  const state = await stateOf(api, path, source.container, signal).catch((): LogState => 'goes on');
  const isOver = state === 'is over' && stamped !== true && after === undefined;
  const cursor = isOver ? createByteCursor() : createLogCursor({ stamped });
  if (after !== undefined && after.length > 0) {
    cursor.take(Buffer.from(after.buffer, after.byteOffset, after.byteLength));
    cursor.again();
  }
  /** Whether the last reply came to its own end. */
  let isClean = false;
  let hasBegun = false;
  let isLost = false;
  /** Replies in a row that brought nothing new: the pause grows with them, however they ended. */
  let losses = 0;
  const pause = (): Promise<void> => rest(Math.min(api.retry.first * 2 ** losses, api.retry.most), signal);
  // A container that has ended prints no more: one reading has all of it, and its last seconds, which may be most of it, come once.
  let isLast = !follow || hasEnded(state);
  for (;;) {
    try {
      const body = await api.stream({
        path: `${path}/log`,
        query: {
          container: source.container,
          timestamps: !isOver,
          follow: !isLast,
          previous: query.previous,
          ...cursor.from(query),
        },
        signal,
        what,
      });
      try {
        if (isLost) onLost?.(null);
        hasBegun ||= !isOver;
        isLost = false;
        isClean = false;
        for await (const piece of body as AsyncIterable<Buffer>) {
          const before = cursor.held();
          const fresh = cursor.take(piece);
          if (cursor.held() > lineMost) throw tooLong(source);
          if (fresh.length > 0 || (isOver && cursor.held() > before)) {
            hasBegun = true;
            losses = 0;
          }
          if (fresh.length > 0) yield fresh;
        }
      } finally {
        body.destroy();
      }
      isClean = true;
      if (isLast) {
        const last = cursor.rest();
        if (last.length > 0) yield last;
        return;
      }
      // It was broken off cleanly, or all was said: the container knows. What it said in between is read once more.
      const now = await stateOf(api, path, source.container, signal);
      isLast = hasEnded(now);
      // Until it is restarted, its log is that of the run that has ended.
      if (now === 'restarts') await rest(lookEvery, signal);
      if (now === 'goes on') {
        losses += 1;
        await pause();
      }
      if (hasLeft(signal)) return;
      cursor.again();
    } catch (error) {
      if (hasLeft(signal)) return;
      if (error instanceof LogLineTooLong) throw error;
      if (isWaiting(error) && follow) {
        // If an init container has failed, the container never begins, and the cluster reports it as waiting for ever.
        const now = await stateOf(api, path, source.container, signal).catch(() => 'goes on');
        if (now === 'is over') return;
        await rest(lookEvery, signal);
        if (hasLeft(signal)) return;
        continue;
      }
      if (error instanceof ClusterRefusal) {
        // Its pod was removed while somebody looked on: then that was all.
        if (hasBegun && error.status.code === 404) {
          const last = cursor.rest();
          if (last.length > 0) yield last;
          if (!isClean) onCut?.();
          return;
        }
        if (error.status.code < 500) throw error;
      }
      losses += 1;
      if (!hasBegun || (!follow && losses >= lossesMost)) throw endOf(error, source);
      if (!isLost) onLost?.(reasonOf(error));
      isLost = true;
      cursor.again();
      await pause();
      if (hasLeft(signal)) return;
    }
  }
}

/** `container "main" in pod "x" is waiting to start: ContainerCreating`. */
function isWaiting(error: unknown): boolean {
  return (
    error instanceof ClusterRefusal &&
    error.status.code === 400 &&
    /waiting to start|is not yet available|PodInitializing/.test(error.status.message)
  );
}

/**
 * A cursor for the log of a pod that is over. Nothing is written into its files any more, so bytes that were had are passed over by their
 * number.
 */
function createByteCursor(): ReturnType<typeof createLogCursor> {
  /** Bytes of all replies, and of this one. */
  let had = 0;
  let told = 0;
  let cut: Buffer = Buffer.alloc(0);
  return {
    from: ({ tail, since }) => ({
      tailLines: tail,
      sinceTime: since === undefined ? undefined : new Date(since).toISOString(),
    }),
    take(piece) {
      const fresh = piece.subarray(Math.max(0, Math.min(had - told, piece.length)));
      told += piece.length;
      had += fresh.length;
      const end = fresh.lastIndexOf(lineEnd) + 1;
      const begun = end === 0 ? fresh.subarray(0, 0) : cut;
      const lines = begun.length === 0 ? fresh.subarray(0, end) : Buffer.concat([begun, fresh.subarray(0, end)]);
      cut = end === 0 ? Buffer.concat([cut, fresh]) : fresh.subarray(end);
      return lines;
    },
    held: () => cut.length,
    rest: () => (had === cut.length && lostLog.test(cut.toString('latin1')) ? cut.subarray(0, 0) : cut),
    again() {
      told = 0;
    },
  };
}

function tooLong({ pod, container }: LogSource): LogLineTooLong {
  return new LogLineTooLong(
    `${pod} prints a line of more than ${lineMost / 1024 / 1024} MiB; its log is read only as far as that line.`,
    exitCode.failed,
    [`kubectl logs ${pod} -c ${container} shows all of it.`],
  );
}

/** The error for a reader that stops waiting: Node's own error of a connection is no sentence. */
function endOf(error: unknown, { pod }: LogSource): unknown {
  if (error instanceof JobmanError || !(error instanceof Error && 'code' in error)) return error;
  return new JobmanError(
    `Could not read the log of ${pod}: the cluster broke off.`,
    exitCode.unreachable,
    [error.message],
    { cause: error },
  );
}

function reasonOf(error: unknown): string {
  return error instanceof JobmanError ? (error.lines[0] ?? error.message) : 'the line broke off';
}

const lineEnd = 0x0a;
/** `container "main" in pod "x" is terminated`: the node of an evicted pod has removed the container and its log. */
function isPutAway(error: unknown): boolean {
  return (
    error instanceof ClusterRefusal && error.status.code === 400 && error.status.message.endsWith(' is terminated')
  );
}

/**
 * All that a node answers, as if the program had said it, when it has the container no more
 * (https://github.com/kubernetes/kubernetes/issues/142258). Where lines have moments it is told by having none.
 */
const lostLog = /^unable to retrieve container logs for [\w.-]+:\/\/[\da-f]{8,}$/;

/** The future of a container's log. `restarts`: more in another run. `is over`: its pod has ended, so none of its containers prints again. */
type LogState = 'goes on' | 'restarts' | 'has ended' | 'is over';

function hasEnded(state: LogState): boolean {
  return state === 'has ended' || state === 'is over';
}

async function stateOf(api: Api, path: string, name: string, signal: AbortSignal | undefined): Promise<LogState> {
  const pod = await api.find<RawPod>({ path, what: 'read its pod', signal });
  if (pod === null) return 'has ended';
  const { metadata, spec, status } = pod;
  if (status?.phase === 'Succeeded' || status?.phase === 'Failed') return 'is over';
  const isMeant = (one: { readonly name?: string }): boolean => one.name === name;
  const seen = [...(status?.containerStatuses ?? []), ...(status?.initContainerStatuses ?? [])].find(isMeant)?.state;
  const container = [...(spec?.containers ?? []), ...(spec?.initContainers ?? [])].find(isMeant);
  const policy = container?.restartPolicy ?? spec?.restartPolicy;
  if (seen?.terminated !== undefined) {
    const isRestarted = policy === 'Always' || (policy === 'OnFailure' && seen.terminated.exitCode !== 0);
    return isRestarted && metadata?.deletionTimestamp === undefined ? 'restarts' : 'has ended';
  }
  return seen?.waiting?.reason === 'CrashLoopBackOff' ? 'restarts' : 'goes on';
}
