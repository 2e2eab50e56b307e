import { quote } from '../../catalogue/shell.ts';
import type { V1Job } from '@kubernetes/client-node';
import type { Cluster, ClusterContainer, ClusterJob, ClusterContext, ClusterPod } from '../../app/cluster/cluster.ts';
import { replacedResourcesAnnotation } from '../../app/cluster/job-object.ts';
import { formatAmounts } from '../../app/cluster/missing-resources.ts';
import { archivedResult, type ArchivedJob } from '../../app/cluster/archive.ts';
import { clusterResult, type ClusterObservation, type ClusterResult } from '../../app/cluster/job-result.ts';
import { formatAge, formatTimeOfDay, formatWhen, pluralize, escapeLine, type ReadingTime } from '../../app/format.ts';
import { isFinishedPhase } from '../../core/decide/phase.ts';
import type { Instant } from '../../core/model/time.ts';
import { reportedJobCost, type JobCost } from '../../reports/cost.ts';
import type { Cli } from '../context.ts';
import type { JobText } from '../jobs/handle.ts';
import type { ClusterJobOutput } from '../outputs.ts';
import { aligned, labelled } from '../render/aligned.ts';
import { formatCostSplit } from '../render/show.ts';
import { columnsOf, glyph, stylePhase } from '../screen.ts';
import { observeJob } from '../../app/cluster/observe-job.ts';

/** Pods and events before this many are counted, not listed; `--json` has all. */
const maxRows = 20;

/** The known facts about a job of a cluster or of the archive. */
export interface Details {
  readonly observation: ClusterObservation;
  readonly result: ClusterResult;
  readonly context: Omit<ClusterContext, 'user'> & Partial<Pick<ClusterContext, 'user'>>;
  readonly object: V1Job | null;
  /** Times of an archived job. With `goneAt`, nothing of the job runs. */
  readonly archived?: Pick<ArchivedJob, 'observedAt' | 'goneAt'>;
  /** Null without usage in the archive. */
  readonly cost: JobCost | null;
}

/** Throws JobmanError if the cluster does not answer. */
export async function observeDetails(
  cli: Cli,
  cluster: Cluster,
  job: ClusterJob,
  reading: ReadingTime,
): Promise<Details> {
  const [observation, object] = await Promise.all([observeJob(cluster, job), cluster.raw(job.name)]);
  const result = clusterResult(observation, reading);
  const context = cluster.context();
  return { observation, result, context, object, cost: await clusterJobCost(cli, job) };
}

export async function archivedDetails(cli: Cli, archived: ArchivedJob, reading: ReadingTime): Promise<Details> {
  const { server, context, job, observedAt, goneAt } = archived;
  return {
    observation: { ...archived, nodes: null, allPods: null },
    result: archivedResult(archived, reading),
    context: { context, server, namespace: job.namespace },
    object: archived.object === null ? null : (JSON.parse(archived.object) as V1Job),
    archived: { observedAt, goneAt },
    cost: await clusterJobCost(cli, job),
  };
}

async function clusterJobCost(cli: Cli, { uid }: Pick<ClusterJob, 'uid'>): Promise<JobCost | null> {
  const client = await cli.services.client();
  const report = await client.cost({ by: 'job', jobs: [uid] });
  return report.groups.length === 0 ? null : reportedJobCost(report);
}

/** For `show`. */
export function detailsText(cli: Cli, details: Details): JobText {
  return {
    objects: () => [detailsJson(details)],
    lines: () => detailLines(cli, details, columnsOf(cli.io.stdout)),
  };
}

export function detailsJson({ observation, result, context, object, archived, cost }: Details): ClusterJobOutput {
  const { phase, message, evidence } = result;
  const { job, pods, events } = observation;
  const { user: clusterUser = null, ...location } = context;
  const times = { archivedAt: archived?.observedAt ?? null, goneAt: archived?.goneAt ?? null };
  const verdict = { id: job.name, backend: 'kubernetes', ...location, clusterUser, phase, message, evidence } as const;
  return { ...verdict, ...times, cost, object, pods, events };
}

function detailLines(cli: Cli, details: Details, columns: number | null): readonly string[] {
  const { observation, result, archived } = details;
  const { io, screen } = cli;
  const { job } = observation;
  const now = io.now();
  const isGone = archived !== undefined && archived.goneAt !== null;
  const name = escapeLine(`${job.name} (${job.owner ?? 'made by another tool'})`);
  const status = stylePhase(screen.styleOut, result.phase, `${glyph(screen, result.phase)} ${result.phase}`);
  return [
    `${screen.styleOut('bold', name)}  ${status}`,
    ...labelled(clusterFactRows(details, { now }), columns),
    ...podLines(observation.pods, columns, now, isGone),
    ...eventLines(observation, columns),
  ];
}

/** Labels and texts about the job as a whole, in order. */
export function clusterFactRows(
  { observation, result, context, object, archived, cost }: Details,
  reading: ReadingTime,
): readonly (readonly [label: string, text: string])[] {
  const { job } = observation;
  const split = cost === null ? null : formatCostSplit(cost, isFinishedPhase(result.phase));
  return [
    ...whyRows(result),
    ['where', `${context.context}/${job.namespace}, created ${formatWhen(job.createdAt, reading)}`],
    ['image', [...new Set(job.images)].join(', ')],
    ['requests', `${formatAmounts(job.requests) || 'nothing'}${job.flavor === null ? '' : ` (flavor ${job.flavor})`}`],
    ...replacedRows(observation, object),
    ...objectRows(object),
    ['pods', formatPodCounts(job, (archived?.goneAt ?? null) !== null)],
    ...(split === null ? [] : [['cost', split] as const]),
  ];
}

function whyRows({ message, evidence }: ClusterResult): (readonly [string, string])[] {
  return [['why', message], ...(evidence === null ? [] : [['because', evidence] as const])];
}

function replacedRows({ job, pods }: ClusterObservation, object: V1Job | null): readonly (readonly [string, string])[] {
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
  const all = Object.entries(object?.metadata?.annotations ?? {});
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
  const rows = shown.flatMap((pod) =>
    pod.containers.map((container, index) => [
      index === 0 ? pod.name : '',
      index === 0 ? (pod.node ?? '-') : '',
      index === 0 ? formatAge(now - pod.createdAt) : '',
      container.name,
      formatContainerState(pod, container, isGone),
      String(container.restarts),
      escapeLine(container.reason ?? ''),
    ]),
  );
  const heads = ['POD', 'NODE', 'AGE', 'CONTAINER', 'STATE', 'RESTARTS', 'REASON'];
  const sides = ['left', 'left', 'right', 'left', 'left', 'right', 'left'] as const;
  const more = pods.length - shown.length;
  return [...aligned([heads, ...rows], sides, columns), ...(more === 0 ? [] : [`and ${pluralize(more, 'older pod')}`])];
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

function eventLines({ events }: ClusterObservation, columns: number | null): readonly string[] {
  const shown = events.slice(-maxRows);
  if (shown.length === 0) return [];
  const rows = shown.map(({ lastAt, object, reason, message, count }) => [
    formatTimeOfDay(lastAt),
    object.kind,
    reason,
    `${escapeLine(message.replaceAll('\n', ' '))}${count > 1 ? ` (${count} times)` : ''}`,
  ]);
  const table = [['EVENT (UTC)', 'OF', 'REASON', 'WHAT'], ...rows];
  const more = events.length - shown.length;
  return [
    ...aligned(table, ['left', 'left', 'left', 'left'], columns, 'wrap'),
    ...(more === 0 ? [] : [`and ${pluralize(more, 'older event')}`]),
  ];
}
