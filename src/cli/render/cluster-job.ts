// A job in a cluster, for `show` and `report`.

import { replacedResourcesAnnotation, type ClusterJobView } from '../../app/cluster/job-view.ts';
import { withoutClusterKeys } from '../../app/cluster/job-object.ts';
import type { V1Job } from '@kubernetes/client-node';
import type { ClusterContainer, ClusterEvent, ClusterJob, ClusterPod } from '../../app/cluster/objects.ts';
import { formatAmounts } from '../../app/cluster/missing-resources.ts';
import { formatAge, formatTimeOfDay, formatWhen, pluralize, type ReadingTime } from '../../app/format.ts';
import { quote } from '../../catalogue/shell.ts';
import { isFinishedPhase } from '../../core/decide/phase.ts';
import type { Instant } from '../../core/model/time.ts';
import { glyph, stylePhase, type Layout } from '../screen.ts';
import { fittedTable, labelled, type Column } from './aligned.ts';
import { formatCostSplit } from '../../app/cost-table.ts';
import { formatJobName } from './job-phrases.ts';

/** Pods and events before this many are counted, not listed; `--json` has all. */
const maxRows = 20;

export function clusterJobLines(details: ClusterJobView, layout: Layout & ReadingTime): readonly string[] {
  const { phase, pods, events, goneAt } = details;
  const { columns, styler, now } = layout;
  return [
    `${styler('bold', formatJobName(details))}  ${stylePhase(styler, phase, `${glyph(layout, phase)} ${phase}`)}`,
    ...labelled(clusterFactRows(details, layout), columns),
    ...podLines(pods, columns, now, goneAt !== null),
    ...eventLines(events, columns),
  ];
}

export function clusterFactRows(
  { job, pods, why, phase, zone, object, goneAt, cost }: ClusterJobView,
  reading: ReadingTime,
): readonly (readonly [label: string, text: string])[] {
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

function replacedRows(
  job: ClusterJob,
  pods: readonly ClusterPod[],
  object: V1Job | null,
): readonly (readonly [string, string])[] {
  const text = object?.metadata?.annotations?.[replacedResourcesAnnotation];
  const pod = pods.at(-1);
  const names = [...new Set([...Object.keys(job.requests), ...Object.keys(pod?.requests ?? {})])];
  const isOther = pod !== undefined && names.some((name) => job.requests[name] !== pod.requests[name]);
  return [
    ...(text === undefined ? [] : [['replaced', text] as const]),
    ...(isOther ? [['replaced', `${pod.name} requests ${formatAmounts(pod.requests) || 'nothing'}`] as const] : []),
  ];
}

function objectRows(object: V1Job | null): readonly (readonly [string, string])[] {
  const containers = object?.spec?.template.spec?.containers ?? [];
  const named = (name: string, text: string): string => (containers.length > 1 ? `${name}: ${text}` : text);
  const rows = containers.flatMap(({ name, command, args, resources }): (readonly [string, string])[] => {
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

function podLines(
  pods: readonly ClusterPod[],
  columns: number | null,
  now: Instant,
  isGone: boolean,
): readonly string[] {
  const shown = pods.slice(-maxRows);
  if (shown.length === 0) return [];
  const rows = shown.flatMap((pod) => pod.containers.map((container, index) => ({ pod, container, index })));
  type Row = (typeof rows)[number];
  const ofPod = (text: (pod: ClusterPod) => string) => (row: Row) => (row.index === 0 ? text(row.pod) : '');
  const table: readonly Column<Row>[] = [
    { title: 'POD', text: ofPod(({ name }) => name) },
    { title: 'NODE', text: ofPod(({ node }) => node ?? '-') },
    { title: 'AGE', side: 'right', text: ofPod(({ createdAt }) => formatAge(now - createdAt)) },
    { title: 'CONTAINER', text: ({ container }) => container.name },
    { title: 'STATE', text: ({ pod, container }) => formatContainerState(pod, container, isGone) },
    { title: 'RESTARTS', side: 'right', text: ({ container }) => String(container.restarts) },
    { title: 'REASON', text: ({ container }) => container.reason ?? '' },
  ];
  const more = pods.length - shown.length;
  return [...fittedTable(table, rows, [], columns), ...(more === 0 ? [] : [`and ${pluralize(more, 'older pod')}`])];
}

function formatContainerState(
  { deleting }: ClusterPod,
  { state, exitCode: code }: ClusterContainer,
  isGone: boolean,
): string {
  if (state === 'terminated') return `exit ${code ?? '?'}`;
  if (isGone) return 'gone';
  return deleting ? 'terminating' : state;
}

function eventLines(events: readonly ClusterEvent[], columns: number | null): readonly string[] {
  const shown = events.slice(-maxRows);
  if (shown.length === 0) return [];
  const what = ({ message, count }: ClusterEvent) =>
    `${message.replaceAll('\n', ' ')}${count > 1 ? ` (${count} times)` : ''}`;
  const table: readonly Column<ClusterEvent>[] = [
    { title: 'EVENT (UTC)', text: ({ lastAt }) => formatTimeOfDay(lastAt) },
    { title: 'OF', text: ({ object }) => object.kind },
    { title: 'REASON', text: ({ reason }) => reason },
    { title: 'WHAT', text: what },
  ];
  const more = events.length - shown.length;
  return [
    ...fittedTable(table, shown, [], columns, 'wrap'),
    ...(more === 0 ? [] : [`and ${pluralize(more, 'older event')}`]),
  ];
}
