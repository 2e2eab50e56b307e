// The texts of a queue.

import { ownHost, formatHosts } from '../core/model/spec.ts';
import type { PoolQueue } from '../core/policy/admission.ts';
import { formatDuration, formatTimeOfDay, pluralize } from './format.ts';
import type { BlockedBy, QueuedRow, QueuedPosition, TypicalWaitView } from './queue.ts';

/** A cloud has its own order, and no interface for it: https://cloud.google.com/tpu/docs/queued-resources. */
export const noCloudPosition =
  'Google does not publish the position of a request in its queue, so only past waits say how long a request may wait.';

/** `a slot of gpu-box`, `quota`, `backoff until 08:24 UTC`. */
export function formatBlockedBy({ kind, object, untilAt }: BlockedBy): string {
  switch (kind) {
    case 'slot':
      return `a slot of ${formatHosts([object ?? ownHost])}`;
    case 'tpu':
      return `the TPU ${object ?? ''}`;
    case 'job':
      return `job ${object ?? ''}`;
    case 'host':
      return `the unknown host ${object ?? ''}`;
    case 'backoff':
      return `backoff until ${formatTimeOfDay(untilAt ?? 0)} UTC`;
    case 'release':
      return 'the deletion of the old TPU';
    case 'creation':
      return 'the creation of the TPU';
    case 'answer':
      return 'an answer of the cloud';
    case 'controller':
      return 'the controller';
    case 'quota':
    case 'capacity':
      return kind;
  }
}

/** `2 of 3 on gpu-box`, or the cloud. */
export function formatOrder({ queuePosition, hosts }: Pick<QueuedRow, 'queuePosition' | 'hosts'>): string {
  if (queuePosition === null) return hosts.length === 0 ? 'Google Cloud' : '-';
  const { position, queueLength, pool } = queuePosition;
  return `${position} of ${queueLength} ${hosts.length === 0 ? 'for' : 'on'} ${formatHosts([pool])}`;
}

/** `2 jobs, 8 GPUs`; `-` if the order is not known. */
export function formatAhead(queuePosition: QueuedPosition | null): string {
  if (queuePosition === null) return '-';
  const { position, gpusAhead } = queuePosition;
  if (position === 1) return 'none';
  const gpus = gpusAhead === null ? [] : [pluralize(gpusAhead, 'GPU')];
  return [pluralize(position - 1, 'job'), ...gpus].join(', ');
}

/** `41m, 90% within 2h10m (12)`; empty without enough waits. */
export function formatBriefWait(usual: TypicalWaitView | null): string {
  if (usual === null) return '';
  return `${formatDuration(usual.medianMs)}, 90% within ${formatDuration(usual.percentile90Ms)} (${usual.samples})`;
}

/** `This machine: 1 of 4 slots used, 2 jobs waiting.` */
export function formatHostUse({ pool, slots, slotsUsed, waiting }: PoolQueue): string {
  const host = pool === ownHost ? 'This machine' : pool;
  return `${host}: ${slotsUsed} of ${pluralize(slots, 'slot')} used, ${pluralize(waiting.length, 'job')} waiting.`;
}
