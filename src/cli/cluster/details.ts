// Details of one job of a cluster: its phase and why, what it asks for, its pods with their containers, what was said of it.

import type { Cluster, ClusterJob, ClusterPod } from '../../app/cluster/cluster.ts';
import { amountsText } from '../../app/cluster/lack.ts';
import { clusterVerdict, type ClusterSight } from '../../app/cluster/verdict.ts';
import { exitCode } from '../../app/errors.ts';
import { ageText, clockText } from '../../app/figures.ts';
import type { Instant } from '../../core/time.ts';
import type { Cli } from '../context.ts';
import { aligned } from '../render/aligned.ts';
import { inertWord } from '../render/inert.ts';
import { labelled } from '../render/labelled.ts';
import { columnsOf, glyph, inPhaseStyle } from '../screen.ts';
import { sightOf } from './sight.ts';

/** Pods and events beyond this many are counted, not listed; `--json` has all. */
const rowsMost = 20;

/** With --json one object: the phase, why, the Job as the cluster has it, its pods and its events. */
export async function printDetails(cli: Cli, cluster: Cluster, job: ClusterJob): Promise<number> {
  const { io, screen } = cli;
  const sight = await sightOf(cluster, job);
  const now = io.now();
  const verdict = clusterVerdict(sight, now);
  const place = cluster.place();
  if (cli.json) {
    const { phase, sentence, because } = verdict;
    const whole = await cluster.raw(job.name);
    const { pods, events } = sight;
    cli.print(JSON.stringify({ name: job.name, ...place, phase, why: sentence, because, job: whole, pods, events }));
    return exitCode.ok;
  }
  const columns = columnsOf(io.stdout);
  const name = `${job.name} (${inertWord(job.owner ?? 'made by another tool')})`;
  const status = inPhaseStyle(screen.out, verdict.phase, `${glyph(screen, verdict.phase)} ${verdict.phase}`);
  const rows: (readonly [string, string])[] = [['why', verdict.sentence]];
  if (verdict.because !== null) rows.push(['because', verdict.because]);
  rows.push(
    ['where', `${place.context}/${job.namespace}, created ${ageText(now - job.createdAt)} ago`],
    ['image', job.images.join(', ')],
    ['asks', `${amountsText(job.requests) || 'nothing'}${job.flavor === null ? '' : ` (flavor ${job.flavor})`}`],
    ['pods', countsText(job)],
  );
  const lines = [
    `${screen.out('bold', name)}  ${status}`,
    ...labelled(rows, columns),
    ...podLines(sight.pods, columns, now),
    ...eventLines(sight, columns),
  ];
  io.stdout.write(`${lines.join('\n')}\n`);
  return exitCode.ok;
}

/** `4 at once, 16 in all: 3 run, 5 succeeded`. */
function countsText({ parallelism, completions, active, ready, succeeded, failed }: ClusterJob): string {
  const wanted =
    parallelism === 1 && (completions ?? 1) === 1
      ? '1'
      : `${parallelism} at once, ${completions ?? parallelism} in all`;
  const parts = [
    [ready, 'ready'],
    [active - ready, 'not ready'],
    [succeeded, 'succeeded'],
    [failed, 'failed'],
  ] as const;
  const seen = parts.filter(([count]) => count > 0).map(([count, word]) => `${count} ${word}`);
  return `${wanted}: ${seen.join(', ') || 'none yet'}`;
}

function podLines(pods: readonly ClusterPod[], columns: number | null, now: Instant): readonly string[] {
  const shown = pods.slice(-rowsMost);
  if (shown.length === 0) return [];
  const rows = shown.flatMap((pod) =>
    pod.containers.map((container, index) => [
      index === 0 ? pod.name : '',
      index === 0 ? (pod.node ?? '-') : '',
      index === 0 ? ageText(now - pod.createdAt) : '',
      container.name,
      container.state === 'terminated' ? `exit ${container.exitCode ?? '?'}` : container.state,
      String(container.restarts),
      inertWord(container.reason ?? ''),
    ]),
  );
  const heads = ['POD', 'NODE', 'AGE', 'CONTAINER', 'STATE', 'RESTARTS', 'REASON'];
  const sides = ['left', 'left', 'right', 'left', 'left', 'right', 'left'] as const;
  const more = pods.length - shown.length;
  return [...aligned([heads, ...rows], sides, columns), ...(more === 0 ? [] : [`and ${more} older pods`])];
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
  return aligned(table, ['left', 'left', 'left', 'left'], columns, 'wrap');
}
