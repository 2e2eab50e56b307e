// Facts about a job in a cluster, the same in `show`, in a report and on its page.

import type { V1Job } from '@kubernetes/client-node';
import { quote } from '../../catalogue/shell.ts';
import { isFinishedPhase } from '../../core/decide/phase.ts';
import { formatCostSplit } from '../cost-table.ts';
import { formatWhen, type ReadingTime } from '../format.ts';
import type { Fact } from '../job-facts.ts';
import { withoutClusterKeys } from './job-object.ts';
import { replacedResourcesAnnotation, type ClusterJobView } from './job-view.ts';
import { formatAmounts } from './missing-resources.ts';
import type { ClusterContainer, ClusterEvent, ClusterJob, ClusterPod } from './objects.ts';

/** The reason for its phase, its location, its object, its pods and its cost, in order. */
export function clusterFacts(
  { job, pods, why, phase, zone, object, goneAt, cost }: ClusterJobView,
  reading: ReadingTime,
): readonly Fact[] {
  const split = cost === null ? null : formatCostSplit(cost, isFinishedPhase(phase));
  return [
    ['why', why.message],
    ...(why.evidence === null ? [] : [['because', why.evidence] as const]),
    ['where', `${zone}, created ${formatWhen(job.createdAt, reading)}`],
    ['image', [...new Set(job.images)].join(', ')],
    ['requests', `${formatAmounts(job.requests) || 'nothing'}${job.flavor === null ? '' : ` (flavor ${job.flavor})`}`],
    ...replacedRows(job, pods, object),
    ...objectRows(object),
    ['pods', formatPodCounts(job, goneAt !== null)],
    ...(split === null ? [] : [['cost', split] as const]),
  ];
}

function replacedRows(job: ClusterJob, pods: readonly ClusterPod[], object: V1Job | null): readonly Fact[] {
  const text = object?.metadata?.annotations?.[replacedResourcesAnnotation];
  const pod = pods.at(-1);
  const names = [...new Set([...Object.keys(job.requests), ...Object.keys(pod?.requests ?? {})])];
  const isOther = pod !== undefined && names.some((name) => job.requests[name] !== pod.requests[name]);
  return [
    ...(text === undefined ? [] : [['replaced', text] as const]),
    ...(isOther ? [['replaced', `${pod.name} requests ${formatAmounts(pod.requests) || 'nothing'}`] as const] : []),
  ];
}

function objectRows(object: V1Job | null): readonly Fact[] {
  const containers = object?.spec?.template.spec?.containers ?? [];
  const named = (name: string, text: string): string => (containers.length > 1 ? `${name}: ${text}` : text);
  const rows = containers.flatMap(({ name, command, args, resources }): readonly Fact[] => {
    const limits = formatAmounts(resources?.limits ?? {});
    return [
      ...(command === undefined ? [] : [['command', named(name, command.map(quote).join(' '))] as const]),
      ...(args === undefined ? [] : [['args', named(name, args.map(quote).join(' '))] as const]),
      ...(limits === '' ? [] : [['limits', named(name, limits)] as const]),
    ];
  });
  const all = Object.entries(withoutClusterKeys(object?.metadata?.annotations));
  const notes = all.filter(([key]) => key !== replacedResourcesAnnotation).map(([key, value]) => `${key}=${value}`);
  return [...rows, ...(notes.length === 0 ? [] : [['notes', notes.join(', ')] as const])];
}

/** `4 at once, 16 in all: 3 ready, 5 succeeded`. */
function formatPodCounts(job: ClusterJob, isGone: boolean): string {
  const { parallelism, completions, active, ready, succeeded, failed } = job;
  const wanted =
    parallelism === 1 && (completions ?? 1) === 1
      ? '1'
      : `${parallelism} at once, ${completions ?? parallelism} in all`;
  const parts = [
    [isGone ? 0 : ready, 'ready'],
    [isGone ? 0 : active - ready, 'not ready'],
    [isGone ? active : 0, 'deleted before they ended'],
    [succeeded, 'succeeded'],
    [failed, 'failed'],
  ] as const;
  const seen = parts.filter(([count]) => count > 0).map(([count, state]) => `${count} ${state}`);
  return `${wanted}: ${seen.join(', ') || 'none yet'}`;
}

/** `running`, `exit 1`, `terminating`; `isGone`: the cluster has deleted the job. */
export function formatContainerState(
  { deleting }: ClusterPod,
  { state, exitCode: code }: ClusterContainer,
  isGone: boolean,
): string {
  if (state === 'terminated') return `exit ${code ?? '?'}`;
  if (isGone) return 'gone';
  return deleting ? 'terminating' : state;
}

/** The message in one line, with the number of its repetitions. */
export function formatClusterEvent({ message, count }: ClusterEvent): string {
  return `${message.replaceAll('\n', ' ')}${count > 1 ? ` (${count} times)` : ''}`;
}
