// The report of a job of a cluster, or of one of which only the archive has a copy.

import { archivedPhase, type ArchivedJob, type ClusterJobEvent } from '../../app/cluster/archive.ts';
import { readArchivedLog } from '../../app/cluster/archived-logs.ts';
import type { Cluster, ClusterContainer, ClusterPod } from '../../app/cluster/cluster.ts';
import type { ClusterArchive } from '../../app/cluster/commands.ts';
import { mainContainer } from '../../app/cluster/job-object.ts';
import { JobmanError } from '../../app/errors.ts';
import { pluralize } from '../../app/format.ts';
import { jsonText } from '../../app/json.ts';
import type { Instant } from '../../core/model/time.ts';
import type { PageAttempt } from '../../reports/job-page.ts';
import type { SpanKind, Timeline } from '../../reports/job-timeline.ts';
import type { Cli } from '../context.ts';
import { clusterFactRows, detailsJson, type Details } from '../cluster/details.ts';
import { documentOf, lastLines, pageCost, pageLogLines, type JobReport, type ReportFile } from './job-report.ts';

/** Logs of more pods repeat each other. */
const maxLogs = 16;

/** `cluster` is null for a job that its cluster no longer has. */
export async function clusterReport(
  cli: Cli,
  origin: {
    readonly details: Details;
    readonly archive: ClusterArchive;
    readonly archived: ArchivedJob | undefined;
    readonly cluster: Cluster | null;
    readonly events: readonly ClusterJobEvent[];
    readonly exitCode: number;
    readonly notes: readonly string[];
  },
): Promise<JobReport> {
  const { details, archived, events, notes } = origin;
  const { observation, result, object } = details;
  const { job, pods } = observation;
  const now = cli.io.now();
  const client = await cli.services.client();
  const usage = await client.usage({ jobs: [job.uid] });
  const { logs, problems } = await logsOf(origin);
  const { stringify } = await import('yaml');
  const manifest = object === null ? null : stringify(object);
  return {
    page: {
      id: job.name,
      name: job.name,
      owner: job.owner,
      phase: archived === undefined ? result.phase : archivedPhase(archived),
      message: result.message,
      evidence: result.evidence,
      facts: clusterFactRows(details, { now, isKept: true }).filter(
        ([label]) => label !== 'why' && label !== 'because',
      ),
      timeline: podTimeline(job.createdAt, pods, details.archived?.goneAt ?? now),
      attempts: pods.map(podAttempt),
      cost: pageCost(usage, now),
      history: events,
      logs: logs.map(({ name, text }, index) => ({
        title: `${name}: last lines`,
        text: lastLines(text),
        isOpen: index === 0,
      })),
      documents: manifest === null ? [] : [documentOf('Job object', manifest)],
      notes: [...notes, ...problems],
    },
    files: [
      { name: 'job.json', text: `${jsonText(detailsJson(details), 2)}\n` },
      { name: 'events.jsonl', text: events.map((event) => `${jsonText(event)}\n`).join('') },
      { name: 'usage.jsonl', text: usage.map((row) => `${jsonText(row)}\n`).join('') },
      ...(manifest === null ? [] : [{ name: 'manifest.yaml', text: manifest }]),
      ...logs.map(({ name, text }) => ({ name: `logs/${name}.log`, text })),
    ],
    secrets: null,
    exitCode: origin.exitCode,
  };
}

interface PodLogs {
  /** Named `pod_container`. */
  readonly logs: readonly ReportFile[];
  readonly problems: readonly string[];
}

/** From the cluster while it has the pod, otherwise from the archive. The newest pods come first. */
async function logsOf({ details, archive, archived, cluster }: Parameters<typeof clusterReport>[1]): Promise<PodLogs> {
  const problems: string[] = [];
  const copies = archived === undefined ? [] : await archive.logs(archived);
  const targets = details.observation.pods.flatMap((pod) => {
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
      if (cluster !== null && !isWaiting) text = await textOf(cluster.logs(pod, container, { tail }));
    } catch (error) {
      if (!(error instanceof JobmanError)) throw error;
      if (copy === undefined) problems.push(`The log of ${pod} could not be read: ${error.message}`);
    }
    if (text === '' && copy !== undefined) text = await textOf(readArchivedLog(copy.path, { tail }));
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
