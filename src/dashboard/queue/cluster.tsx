// The queue of the Kubernetes cluster of the settings: its active jobs by flavor, and the waiting ones in order.

import { useEffect, useMemo } from 'preact/hooks';
import { formatAmounts } from '../../app/cluster/missing-resources.ts';
import type { QueueGroup, QueuePosition } from '../../app/cluster/queue.ts';
import { readQueue, type QueueCluster, type QueueReport } from '../../app/cluster/queue-source.ts';
import {
  conflictSentences,
  formatPosition,
  queueSourceSentences,
  shownPositions,
} from '../../app/cluster/queue-text.ts';
import type { ClusterSettings } from '../../app/cluster/settings.ts';
import { escapeLine, pluralize } from '../../app/format.ts';
import { minute } from '../../core/model/time.ts';
import { now } from '../clock.ts';
import { pageHref } from '../location.ts';
import { PlainTable, type PlainColumn } from '../parts/plain-table.tsx';
import { Shown, useReading } from '../parts/reading.tsx';
import { Age } from '../parts/time.tsx';
import { client } from '../session.ts';

/** Each read lists all jobs of the cluster. */
const refreshTime = minute;

export function ClusterQueue() {
  const reading = useReading(read, []);
  useEffect(() => {
    const timer = setInterval(() => {
      if (document.visibilityState === 'visible') reading.again();
    }, refreshTime);
    return () => clearInterval(timer);
  }, []);
  return (
    <>
      <h2>Kubernetes{reading.value !== null && ` · ${escapeLine(reading.value.context.context)}`}</h2>
      <Shown reading={reading}>{(report) => <Report report={report} />}</Shown>
    </>
  );
}

/** As `jobman queue` reads it. */
function read(): Promise<QueueReport> {
  return readQueue(
    {
      client: async () => client,
      clusterSettings: async () => ({ settings: (await client.cluster.settings()) as unknown as ClusterSettings }),
      async cluster() {
        const at = await client.cluster.context({});
        const where = [at.context, at.namespace] as const;
        const cluster: QueueCluster = {
          context: () => at,
          jobs: (query) => client.cluster.jobs(...where, query),
          unscheduledPods: (query) => client.cluster.unscheduledPods(...where, query),
          priorityClasses: () => client.cluster.priorityClasses(...where),
          queuePriorityClasses: () => client.cluster.queuePriorityClasses(...where),
          configMap: (name, namespace = at.namespace) => client.cluster.configMap(at.context, namespace, name),
        };
        return { ...cluster, close: async () => undefined };
      },
    },
    {},
  );
}

function Report({ report }: { readonly report: QueueReport }) {
  const { groups, positions } = report.view;
  const shown = shownPositions(positions);
  const { context } = report.context;
  const columns = useMemo(() => positionColumns(context), [context]);
  return (
    <>
      {[...queueSourceSentences(report, now.peek(), false), ...conflictSentences(groups, (flavor) => flavor)].map(
        (sentence) => (
          <p key={sentence} class="rest">
            {escapeLine(sentence)}
          </p>
        ),
      )}
      {groups.length > 0 && (
        <PlainTable
          label="Active jobs by flavor"
          rows={groups}
          columns={groupColumns}
          keyOf={({ flavor, requests }) => JSON.stringify([flavor, requests])}
        />
      )}
      {shown.length > 0 && (
        <PlainTable
          label="Waiting jobs of the cluster"
          rows={shown}
          columns={columns}
          keyOf={({ job }) => `${job.namespace}/${job.name}`}
          rowClass={({ yours }) => (yours ? 'own' : '')}
        />
      )}
      {shown.length < positions.length && (
        <p class="quiet rest">{pluralize(positions.length - shown.length, 'more job')} not shown</p>
      )}
    </>
  );
}

const groupColumns: readonly PlainColumn<QueueGroup>[] = [
  {
    title: 'Flavor',
    cell: ({ flavor, conflict }) => (
      <>
        {flavor === null ? 'without a name' : escapeLine(flavor)}
        {conflict && ' (conflict)'}
      </>
    ),
    cellClass: () => 'cut',
  },
  { title: 'Jobs', side: 'right', cell: ({ jobCount }) => jobCount },
  { title: 'Yours', side: 'right', cell: ({ yourJobCount }) => yourJobCount },
  { title: 'Waiting', side: 'right', cell: ({ waitingCount }) => waitingCount },
  { title: 'Pods', side: 'right', cell: ({ podCount }) => podCount },
  { title: 'CPU', side: 'right', cell: ({ requests }) => escapeLine(requests['cpu'] ?? '-') },
  { title: 'Memory', side: 'right', cell: ({ requests }) => escapeLine(requests['memory'] ?? '-') },
  { title: 'GPUs', side: 'right', cell: ({ gpus }) => (gpus === 0 ? '-' : gpus) },
  {
    title: 'Other requests of a pod',
    cell: ({ otherRequests }) => escapeLine(formatAmounts(otherRequests) || '-'),
    cellClass: () => 'cut',
  },
];

/** `context`: of the queue. */
const positionColumns = (context: string): readonly PlainColumn<QueuePosition>[] => [
  { title: 'Job', cell: (position) => <JobName position={position} context={context} /> },
  { title: 'Order', cell: (position) => `${formatPosition(position)}${position.yours ? ' (yours)' : ''}` },
  { title: 'Namespace', cell: ({ job }) => escapeLine(job.namespace) },
  { title: 'Kueue queue', cell: ({ job }) => escapeLine(job.queue ?? '-') },
  {
    title: 'Requests',
    cell: ({ job: { flavor, requests } }) => escapeLine(flavor ?? (formatAmounts(requests) || '-')),
    cellClass: () => 'cut',
  },
  { title: 'Priority', side: 'right', cell: ({ job }) => job.priority },
  { title: 'Age', side: 'right', cell: ({ job }) => <Age at={job.createdAt} /> },
];

/** Others may not read the job. */
function JobName({
  position: { job, yours },
  context,
}: {
  readonly position: QueuePosition;
  readonly context: string;
}) {
  const { name, namespace } = job;
  if (!yours) return <>{escapeLine(name)}</>;
  return <a href={pageHref(['jobs', name, 'cluster'], { context, namespace })}>{escapeLine(name)}</a>;
}
