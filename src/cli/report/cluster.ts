// The parts of a report that only a job of a cluster has.

import type { ClusterJobView } from '../../app/cluster/job-view.ts';
import type { ArchivedLog, ClusterContainer, ClusterPod } from '../../app/cluster/objects.ts';
import type { ClusterRecord } from '../../app/cluster/cluster-record.ts';
import type { Client } from '../../app/client.ts';
import { mainContainer } from '../../app/cluster/job-object.ts';
import { JobmanError } from '../../app/errors.ts';
import { pluralize } from '../../app/format.ts';
import type { Instant } from '../../core/model/time.ts';
import type { PageAttempt } from '../../reports/job-page.ts';
import type { SpanKind, Timeline } from '../../reports/job-timeline.ts';
import { documentOf, lastLines, pageLogLines, type ReportFile, type ReportParts } from './report-parts.ts';

/** Logs of more pods repeat each other. */
const maxLogs = 16;

export async function clusterParts(
  client: Client,
  record: ClusterRecord,
  { object, pods, goneAt }: ClusterJobView,
  now: Instant,
): Promise<ReportParts> {
  const { job } = record;
  const copies = await client.archivedLogs(job.uid);
  const { logs, problems } = await logsOf(client, record, pods, copies);
  const { stringify } = await import('yaml');
  const manifest = object === null ? null : stringify(object);
  return {
    timeline: podTimeline(job.createdAt, pods, goneAt ?? now),
    attempts: pods.map(podAttempt),
    logs: logs.map(({ name, text }, index) => ({
      title: `${name}: last lines`,
      text: lastLines(text),
      isOpen: index === 0,
    })),
    documents: manifest === null ? [] : [documentOf('Job object', manifest)],
    notes: problems,
    files: [
      ...(manifest === null ? [] : [{ name: 'manifest.yaml', text: manifest }]),
      ...logs.map(({ name, text }) => ({ name: `logs/${name}.log`, text })),
    ],
    secrets: null,
  };
}

interface PodLogs {
  /** Named `pod_container`. */
  readonly logs: readonly ReportFile[];
  readonly problems: readonly string[];
}

/** From the cluster while it has the pod, otherwise from the archive. The newest pods come first. */
async function logsOf(
  client: Client,
  { archived, cluster, job }: ClusterRecord,
  pods: readonly ClusterPod[],
  copies: readonly ArchivedLog[],
): Promise<PodLogs> {
  const problems: string[] = [];
  const targets = pods.flatMap((pod) => {
    const main = mainContainer(pod.containers);
    return main === undefined ? [] : [{ pod: pod.name, container: main.name, isWaiting: main.state === 'waiting' }];
  });
  const known = new Set(targets.map(({ pod }) => pod));
  const others = copies.filter(({ pod }) => !known.has(pod)).map((copy) => ({ ...copy, isWaiting: false }));
  const logs: ReportFile[] = [];
  const tail = 10 * pageLogLines;
  for (const { pod, container, isWaiting } of [...targets.toReversed(), ...others].slice(0, maxLogs)) {
    const copy = copies.find((one) => one.pod === pod && one.container === container);
    let text = '';
    try {
      if (archived === null && cluster !== null && !isWaiting)
        text = await textOf(cluster.logs(pod, container, { tail }));
    } catch (error) {
      if (!(error instanceof JobmanError)) throw error;
      if (copy === undefined) problems.push(`The log of ${pod} could not be read: ${error.message}`);
    }
    if (text === '' && copy !== undefined)
      text = await textOf(client.readArchivedLog(job.uid, { pod: copy.pod, container: copy.container }, { tail }));
    if (text !== '') logs.push({ name: `${pod}_${container}`, text });
  }
  return { logs, problems };
}

async function textOf(source: AsyncIterable<Uint8Array>): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const part of source) parts.push(part);
  return Buffer.concat(parts).toString('utf8');
}

/** A lane for each pod: waiting, then running until its main container ended. */
function podTimeline(createdAt: Instant, pods: readonly ClusterPod[], now: Instant): Timeline | null {
  if (pods.length === 0) return null;
  const lanes = pods.map((pod) => {
    const main = mainContainer(pod.containers);
    const began = main === undefined ? pod.startedAt : main.startedAt;
    const end = main?.endedAt ?? now;
    const span = (kind: SpanKind, from: Instant, until: Instant) =>
      until > from ? [{ kind, from, until, detail: pod.node }] : [];
    const ran = main?.state === 'terminated' && main.exitCode !== 0 ? 'ended' : 'run';
    return {
      label: pod.name,
      spans: [
        ...span('waiting', pod.createdAt, began ?? end),
        ...(began === null ? [] : span(ran, began, Math.max(end, began + 1))),
      ],
    };
  });
  const times = lanes.flatMap(({ spans }) => spans.map(({ until }) => until));
  return { from: createdAt, until: Math.max(createdAt + 1, ...times), lanes, attempts: [] };
}

function podAttempt(pod: ClusterPod): PageAttempt {
  const main = mainContainer(pod.containers);
  const restarts = main === undefined || main.restarts === 0 ? '' : `, restarted ${pluralize(main.restarts, 'time')}`;
  const last = main?.lastEnd ?? null;
  const before = last === null ? null : `before the restart: ${formatEnd(last)}`;
  const isOver = main?.state === 'terminated';
  return {
    name: pod.name,
    startMode: `${pod.phase}${restarts}`,
    from: pod.createdAt,
    until: main?.endedAt ?? null,
    capacity: pod.node ?? 'no node',
    reason: isOver ? formatEnd(main) : null,
    evidence: [isOver ? main.message : null, pod.message, before].filter(Boolean).join('; ') || null,
  };
}

function formatEnd({ exitCode, reason }: Pick<ClusterContainer, 'exitCode' | 'reason'>): string {
  return `exit ${exitCode ?? '?'}${reason === null || reason === 'Error' || reason === 'Completed' ? '' : ` (${reason})`}`;
}
