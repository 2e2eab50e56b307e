// The queue of the Kubernetes cluster of the settings: its active jobs by flavor, and the waiting ones in order.

import { useEffect } from 'preact/hooks';
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
  return (
    <>
      {[...queueSourceSentences(report, now.peek(), false), ...conflictSentences(groups, (flavor) => flavor)].map(
        (sentence) => (
          <p key={sentence} class="rest">
            {escapeLine(sentence)}
          </p>
        ),
      )}
      {groups.length > 0 && <Groups groups={groups} />}
      {shown.length > 0 && <Positions positions={shown} />}
      {shown.length < positions.length && (
        <p class="quiet rest">{pluralize(positions.length - shown.length, 'more job')} not shown</p>
      )}
    </>
  );
}

function Groups({ groups }: { readonly groups: readonly QueueGroup[] }) {
  return (
    <div class="scroll" role="region" aria-label="Active jobs by flavor, scrollable" tabIndex={0}>
      <table class="plain-table" aria-label="Active jobs by flavor">
        <thead>
          <tr>
            <th scope="col">Flavor</th>
            {['Jobs', 'Yours', 'Waiting', 'Pods', 'CPU', 'Memory', 'GPUs'].map((title) => (
              <th key={title} scope="col" class="right">
                {title}
              </th>
            ))}
            <th scope="col">Other requests of a pod</th>
          </tr>
        </thead>
        <tbody>
          {groups.map((group) => (
            <tr key={JSON.stringify([group.flavor, group.requests])}>
              <th scope="row" class="cut">
                {group.flavor === null ? 'without a name' : escapeLine(group.flavor)}
                {group.conflict && ' (conflict)'}
              </th>
              {[group.jobCount, group.yourJobCount, group.waitingCount, group.podCount].map((count, index) => (
                <td key={index} class="right">
                  {count}
                </td>
              ))}
              <td class="right">{escapeLine(group.requests['cpu'] ?? '-')}</td>
              <td class="right">{escapeLine(group.requests['memory'] ?? '-')}</td>
              <td class="right">{group.gpus === 0 ? '-' : group.gpus}</td>
              <td class="cut">{escapeLine(formatAmounts(group.otherRequests) || '-')}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Positions({ positions }: { readonly positions: readonly QueuePosition[] }) {
  return (
    <div class="scroll" role="region" aria-label="Waiting jobs of the cluster, scrollable" tabIndex={0}>
      <table class="plain-table" aria-label="Waiting jobs of the cluster">
        <thead>
          <tr>
            {['Order', 'Namespace', 'Job', 'Kueue queue', 'Requests'].map((title) => (
              <th key={title} scope="col">
                {title}
              </th>
            ))}
            <th scope="col" class="right">
              Priority
            </th>
            <th scope="col" class="right">
              Age
            </th>
          </tr>
        </thead>
        <tbody>
          {positions.map((position) => {
            const { namespace, name, queue, flavor, requests, priority, createdAt } = position.job;
            return (
              <tr key={`${namespace}/${name}`} class={position.yours ? 'own' : ''}>
                <td>
                  {formatPosition(position)}
                  {position.yours && ' (yours)'}
                </td>
                <td>{escapeLine(namespace)}</td>
                <th scope="row">{escapeLine(name)}</th>
                <td>{escapeLine(queue ?? '-')}</td>
                <td class="cut">{escapeLine(flavor ?? (formatAmounts(requests) || '-'))}</td>
                <td class="right">{priority}</td>
                <td class="right">
                  <Age at={createdAt} />
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}
