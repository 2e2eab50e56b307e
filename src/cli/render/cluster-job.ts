// A job in a cluster, for `show` and `report`.

import { clusterFacts, formatClusterEvent, formatContainerState } from '../../app/cluster/job-facts.ts';
import type { ClusterJobView } from '../../app/cluster/job-view.ts';
import type { ClusterEvent, ClusterPod } from '../../app/cluster/objects.ts';
import { formatAge, formatTimeOfDay, pluralize, type ReadingTime } from '../../app/format.ts';
import type { Instant } from '../../core/model/time.ts';
import { glyph, stylePhase, type Layout } from '../screen.ts';
import { fittedTable, labelled, type Column } from './aligned.ts';
import { formatJobName } from './job-phrases.ts';

/** Pods and events before this many are counted, not listed; `--json` has all. */
const maxRows = 20;

export function clusterJobLines(details: ClusterJobView, layout: Layout & ReadingTime): readonly string[] {
  const { phase, pods, events, goneAt } = details;
  const { columns, styler, now } = layout;
  return [
    `${styler('bold', formatJobName(details))}  ${stylePhase(styler, phase, `${glyph(layout, phase)} ${phase}`)}`,
    ...labelled(clusterFacts(details, layout), columns),
    ...podLines(pods, columns, now, goneAt !== null),
    ...eventLines(events, columns),
  ];
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

function eventLines(events: readonly ClusterEvent[], columns: number | null): readonly string[] {
  const shown = events.slice(-maxRows);
  if (shown.length === 0) return [];
  const table: readonly Column<ClusterEvent>[] = [
    { title: 'EVENT (UTC)', text: ({ lastAt }) => formatTimeOfDay(lastAt) },
    { title: 'OF', text: ({ object }) => object.kind },
    { title: 'REASON', text: ({ reason }) => reason },
    { title: 'WHAT', text: formatClusterEvent },
  ];
  const more = events.length - shown.length;
  return [
    ...fittedTable(table, shown, [], columns, 'wrap'),
    ...(more === 0 ? [] : [`and ${pluralize(more, 'older event')}`]),
  ];
}
