// Details of one job of a cluster: its phase and why, what it asks for, its pods with their containers, what was said of it.

import type { V1Job } from '@kubernetes/client-node';
import type { Cluster, ClusterContainer, ClusterJob, ClusterPlace, ClusterPod } from '../../app/cluster/cluster.ts';
import { replacedKey } from '../../app/cluster/job-object.ts';
import { amountsText } from '../../app/cluster/lack.ts';
import { keptVerdict, type KeptJob } from '../../app/cluster/kept.ts';
import { clusterVerdict, type ClusterSight, type ClusterVerdict } from '../../app/cluster/verdict.ts';
import { exitCode } from '../../app/errors.ts';
import { ageText, clockText, countText, inertWord } from '../../app/figures.ts';
import { recordJson } from '../../app/json.ts';
import { given } from '../../core/given.ts';
import type { Instant } from '../../core/time.ts';
import type { Cli } from '../context.ts';
import { aligned, labelled } from '../render/aligned.ts';
import { columnsOf, glyph, inPhaseStyle } from '../screen.ts';
import { sightOf } from './verdict.ts';

/** Pods and events before this many are counted, not listed; `--json` has all. */
const rowsMost = 20;

interface Details {
  readonly sight: ClusterSight;
  readonly verdict: ClusterVerdict;
  readonly place: Omit<ClusterPlace, 'user'> & Partial<Pick<ClusterPlace, 'user'>>;
  /** The Job as the cluster has it, or as it was submitted. */
  readonly object: V1Job | null;
  /** Of a copy: when it was made. With `goneAt`, nothing of the job runs. */
  readonly kept?: Pick<KeptJob, 'seenAt' | 'goneAt'>;
}

/** With --json one object: the phase, why, the Job as the cluster has it, its pods and its events. */
export async function printDetails(cli: Cli, cluster: Cluster, job: ClusterJob): Promise<number> {
  const sight = await sightOf(cluster, job);
  const verdict = clusterVerdict(sight, cli.io.now());
  return print(cli, { sight, verdict, place: cluster.place(), object: await cluster.raw(job.name) });
}

/** The same from what is kept; with --json as it was last seen. */
export function printKeptDetails(cli: Cli, kept: KeptJob): number {
  const { server, context, job, seenAt, goneAt } = kept;
  return print(cli, {
    sight: { ...kept, nodes: null, neighbours: null },
    verdict: keptVerdict(kept, cli.io.now()),
    place: { context, server, namespace: job.namespace },
    object: kept.object === null ? null : (JSON.parse(kept.object) as V1Job),
    kept: { seenAt, goneAt },
  });
}

function print(cli: Cli, details: Details): number {
  const { sight, verdict, place, object, kept } = details;
  if (cli.json) {
    const { phase, sentence, because } = verdict;
    const { job, pods, events } = sight;
    const seen = recordJson({ pods, events, ...given({ kept }) });
    cli.print(JSON.stringify({ name: job.name, ...place, phase, why: sentence, because, job: object, ...seen }));
  } else cli.io.stdout.write(`${detailLines(cli, details, columnsOf(cli.io.stdout)).join('\n')}\n`);
  return exitCode.ok;
}

function detailLines(
  cli: Cli,
  { sight, verdict, place, object, kept }: Details,
  columns: number | null,
): readonly string[] {
  const { io, screen } = cli;
  const { job } = sight;
  const now = io.now();
  const isGone = kept !== undefined && kept.goneAt !== null;
  const name = inertWord(`${job.name} (${job.owner ?? 'made by another tool'})`);
  const status = inPhaseStyle(screen.out, verdict.phase, `${glyph(screen, verdict.phase)} ${verdict.phase}`);
  const rows: (readonly [string, string])[] = [
    ...whyRows(verdict),
    ['where', `${place.context}/${job.namespace}, created ${ageText(now - job.createdAt)} ago`],
    ['image', [...new Set(job.images)].join(', ')],
    ['asks', `${amountsText(job.requests) || 'nothing'}${job.flavor === null ? '' : ` (flavor ${job.flavor})`}`],
    ...replacedRows(sight, object),
    ...objectRows(object),
    ['pods', countsText(job, isGone)],
  ];
  return [
    `${screen.out('bold', name)}  ${status}`,
    ...labelled(rows, columns),
    ...podLines(sight.pods, columns, now, isGone),
    ...eventLines(sight, columns),
  ];
}

function whyRows({ sentence, because }: ClusterVerdict): (readonly [string, string])[] {
  return [['why', sentence], ...(because === null ? [] : [['because', because] as const])];
}

function replacedRows({ job, pods }: ClusterSight, object: V1Job | null): readonly (readonly [string, string])[] {
  const text = object?.metadata?.annotations?.[replacedKey];
  const pod = pods.at(-1);
  const names = [...new Set([...Object.keys(job.requests), ...Object.keys(pod?.requests ?? {})])];
  const isOther = pod !== undefined && names.some((name) => job.requests[name] !== pod.requests[name]);
  return [
    ...(text === undefined ? [] : [['replaced', inertWord(text)] as const]),
    ...(isOther ? [['replaced', `${pod.name} asks for ${amountsText(pod.requests) || 'nothing'}`] as const] : []),
  ];
}

function objectRows(object: V1Job | null): readonly (readonly [string, string])[] {
  const containers = object?.spec?.template.spec?.containers ?? [];
  const named = (name: string, text: string): string => (containers.length > 1 ? `${name}: ${text}` : text);
  const rows = containers.flatMap(({ name, command, args, resources }): (readonly [string, string])[] => {
    const limits = amountsText(resources?.limits ?? {});
    return [
      ...(command === undefined ? [] : [['command', named(name, wordsText(command))] as const]),
      ...(args === undefined ? [] : [['args', named(name, wordsText(args))] as const]),
      ...(limits === '' ? [] : [['limits', named(name, limits)] as const]),
    ];
  });
  const all = Object.entries(object?.metadata?.annotations ?? {});
  const notes = all.filter(([key]) => key !== replacedKey).map(([key, value]) => `${key}=${value}`);
  return [...rows, ...(notes.length === 0 ? [] : [['notes', notes.join(', ')] as const])];
}

/** Words as a shell reads them, so that spaces and quotes can be seen. */
function wordsText(words: readonly string[]): string {
  return words.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(' ');
}

/** The same job in a window of a list: all about it, or only why. */
export async function sightLines(
  cli: Cli,
  cluster: Cluster,
  job: ClusterJob,
  screen: string,
  columns: number,
): Promise<readonly string[]> {
  const sight = await sightOf(cluster, job);
  const verdict = clusterVerdict(sight, cli.io.now());
  if (screen === 'why') return labelled(whyRows(verdict), columns);
  return detailLines(cli, { sight, verdict, place: cluster.place(), object: null }, columns);
}

/** `4 at once, 16 in all: 3 run, 5 succeeded`. */
function countsText(job: ClusterJob, isGone: boolean): string {
  const { parallelism, completions, active, ready, succeeded, failed } = job;
  const wanted =
    parallelism === 1 && (completions ?? 1) === 1
      ? '1'
      : `${parallelism} at once, ${completions ?? parallelism} in all`;
  const parts = [
    [isGone ? 0 : ready, 'ready'],
    [isGone ? 0 : active - ready, 'not ready'],
    [isGone ? active : 0, 'gone before they had ended'],
    [succeeded, 'succeeded'],
    [failed, 'failed'],
  ] as const;
  const seen = parts.filter(([count]) => count > 0).map(([count, word]) => `${count} ${word}`);
  return `${wanted}: ${seen.join(', ') || 'none yet'}`;
}

function podLines(
  pods: readonly ClusterPod[],
  columns: number | null,
  now: Instant,
  isGone: boolean,
): readonly string[] {
  const shown = pods.slice(-rowsMost);
  if (shown.length === 0) return [];
  const rows = shown.flatMap((pod) =>
    pod.containers.map((container, index) => [
      index === 0 ? pod.name : '',
      index === 0 ? (pod.node ?? '-') : '',
      index === 0 ? ageText(now - pod.createdAt) : '',
      container.name,
      stateText(pod, container, isGone),
      String(container.restarts),
      inertWord(container.reason ?? ''),
    ]),
  );
  const heads = ['POD', 'NODE', 'AGE', 'CONTAINER', 'STATE', 'RESTARTS', 'REASON'];
  const sides = ['left', 'left', 'right', 'left', 'left', 'right', 'left'] as const;
  const more = pods.length - shown.length;
  return [...aligned([heads, ...rows], sides, columns), ...(more === 0 ? [] : [`and ${countText(more, 'older pod')}`])];
}

function stateText({ deleting }: ClusterPod, { state, exitCode: code }: ClusterContainer, isGone: boolean): string {
  if (state === 'terminated') return `exit ${code ?? '?'}`;
  if (isGone) return 'gone';
  return deleting ? 'terminating' : state;
}

function eventLines({ events }: ClusterSight, columns: number | null): readonly string[] {
  const shown = events.slice(-rowsMost);
  if (shown.length === 0) return [];
  const rows = shown.map(({ lastAt, object, reason, message, count }) => [
    clockText(lastAt),
    object.kind,
    reason,
    `${inertWord(message.replaceAll('\n', ' '))}${count > 1 ? ` (${count} times)` : ''}`,
  ]);
  const table = [['EVENT (UTC)', 'OF', 'REASON', 'WHAT'], ...rows];
  const more = events.length - shown.length;
  return [
    ...aligned(table, ['left', 'left', 'left', 'left'], columns, 'wrap'),
    ...(more === 0 ? [] : [`and ${countText(more, 'older event')}`]),
  ];
}
