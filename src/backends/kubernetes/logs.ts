// Logs: what one container prints, whole lines, none lost and none twice, over connections that end. A cluster can go on
// from a moment only, and only from a whole second. So lines are asked for with their moments, and after a loss those of the
// last two seconds that were had already are passed over.

import { second, type Duration } from '../../core/time.ts';
import type { ClusterLogQuery } from '../../app/cluster/cluster.ts';
import { JobmanError } from '../../app/errors.ts';
import type { Api } from './api.ts';
import { createLogCursor } from './log-cursor.ts';
import type { RawPod } from './objects.ts';
import { hasLeft, rest } from './rest.ts';
import { ClusterRefusal } from './status.ts';

/** Which container's. */
export interface LogSource {
  readonly namespace: string;
  readonly pod: string;
  readonly container: string;
}

/** Somebody who does not follow wants an answer; after so many losses in a row it is that it broke off. */
const lossesMost = 5;
/** How often a container that has not begun is looked at. */
const lookEvery: Duration = second;

/**
 * Bytes of whole lines, in pieces. Following, it goes on until the container has ended or its pod is gone, whatever becomes
 * of the line meanwhile. Rejects with JobmanError when the first try fails, and when not followed after several.
 */
export async function* readLog(api: Api, source: LogSource, query: ClusterLogQuery): AsyncIterable<Uint8Array> {
  const { follow = false, signal, onLost, onCut, stamped, after } = query;
  const path = `/api/v1/namespaces/${source.namespace}/pods/${source.pod}`;
  const what = `read the log of ${source.pod}`;
  const cursor = createLogCursor({ stamped });
  if (after !== undefined && after.length > 0) {
    cursor.take(Buffer.from(after.buffer, after.byteOffset, after.byteLength));
    cursor.again();
  }
  /** Whether the last reply came to its own end. */
  let isClean = false;
  let hasBegun = false;
  let losses = 0;
  // What has ended prints no more: one reading is all of it, and its last seconds, which may be most of it, come once.
  let isLast = !follow || (await hasEnded(api, path, source.container, signal).catch(() => false));
  for (;;) {
    try {
      const body = await api.stream({
        path: `${path}/log`,
        query: {
          container: source.container,
          timestamps: true,
          follow: !isLast,
          previous: query.previous,
          ...cursor.from(query),
        },
        signal,
        what,
      });
      try {
        if (losses > 0) onLost?.(null);
        hasBegun = true;
        losses = 0;
        isClean = false;
        for await (const piece of body) {
          const fresh = cursor.take(piece as Buffer);
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
      isLast = await hasEnded(api, path, source.container, signal);
      cursor.again();
    } catch (error) {
      if (hasLeft(signal)) return;
      if (isWaiting(error) && follow) {
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
      if (!hasBegun || (!follow && losses >= lossesMost)) throw error;
      if (losses === 1)
        onLost?.(error instanceof JobmanError ? (error.lines[0] ?? error.message) : 'the line broke off');
      cursor.again();
      await rest(Math.min(api.patience.first * 2 ** losses, api.patience.most), signal);
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

/** Whether that container will not print any more. */
async function hasEnded(api: Api, path: string, container: string, signal: AbortSignal | undefined): Promise<boolean> {
  const pod = await api.find<RawPod>({ path, what: 'look at its pod', signal });
  if (pod === null) return true;
  if (pod.status?.phase === 'Succeeded' || pod.status?.phase === 'Failed') return true;
  const all = [...(pod.status?.containerStatuses ?? []), ...(pod.status?.initContainerStatuses ?? [])];
  return all.find(({ name }) => name === container)?.state?.terminated !== undefined;
}
