// TPUs and conditions of the built-in cloud.

import { ageText } from '../../app/figures.ts';
import type { CloudTpu, CloudView } from '../../app/services.ts';
import type { Instant } from '../../core/time.ts';
import { inertWord } from './inert.ts';
import { aligned } from './aligned.ts';

const title = ['NAME', 'ZONE', 'TYPE', 'STATE', 'WORKERS', 'JOB', 'AGE'];

/** A row for each TPU and a line for each condition; `columns` is null where nothing is to be cut. */
export function cloudLines({ tpus, inForce }: CloudView, columns: number | null, now: Instant): readonly string[] {
  const rows = tpus.map((tpu) => [
    inertWord(tpu.name),
    inertWord(tpu.zone),
    inertWord(tpu.type),
    stateText(tpu),
    workersText(tpu),
    tpu.job === null ? '-' : inertWord(tpu.job),
    ageText(now - tpu.createdAt),
  ]);
  return [
    ...(rows.length === 0
      ? ['There is no TPU in it.']
      : aligned([title, ...rows], ['left', 'left', 'left', 'left', 'left', 'left', 'right'], columns)),
    ...inForce.map((condition) => `in force: ${inertWord(condition)}`),
  ];
}

/** One word where the node and the line it came through agree, else both: `PREEMPTED / SUSPENDED`. */
function stateText({ node, queued }: CloudTpu): string {
  if (node === null || queued === null) return node ?? queued ?? '-';
  return node === 'READY' && queued === 'ACTIVE' ? node : `${node} / ${queued}`;
}

/** `2`, or who is not well: `2, 1 is dead`. */
function workersText({ workers }: CloudTpu): string {
  if (workers.length === 0) return '-';
  const unwell = workers.flatMap((state, worker) => (state === 'runs' ? [] : [`${worker} ${state}`]));
  return [String(workers.length), ...unwell].join(', ');
}
