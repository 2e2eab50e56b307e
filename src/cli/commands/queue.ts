// queue: how many active jobs of a cluster ask for what, how many of them are yours, and where the waiting ones stand.

import type { ClusterPlace } from '../../app/cluster/cluster.ts';
import { labelValue } from '../../app/cluster/job-object.ts';
import { amountsText } from '../../app/cluster/lack.ts';
import { lookAtQueue, publishQueue, type QueueSeen, type QueueSource } from '../../app/cluster/queue-source.ts';
import { queueView, type QueueGroup, type QueuePlace, type QueueView } from '../../app/cluster/queue.ts';
import type { ClusterSettings } from '../../app/cluster/settings.ts';
import { exitCode, usageError } from '../../app/errors.ts';
import { ageText, countText, moment, inertWord } from '../../app/figures.ts';
import { given } from '../../core/given.ts';
import type { Instant } from '../../core/time.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { aligned } from '../render/aligned.ts';
import { cutMiddle } from '../render/cell.ts';
import { columnsOf } from '../screen.ts';
import type { QueueFlags } from '../table/flags.ts';

const rowsMost = 50;

export async function queue(cli: Cli, flags: QueueFlags & GlobalFlags): Promise<number> {
  const isEverywhere = flags.allNamespaces === true;
  if (isEverywhere && flags.namespace !== undefined) {
    throw usageError('-n names one namespace, and -A means all: use only one of the two.');
  }
  const { jobsQueue } = (await cli.services.clusterSettings()).settings;
  const cluster = await cli.services.cluster(given({ context: flags.context, namespace: flags.namespace }));
  try {
    const place = cluster.place();
    const now = cli.io.now();
    if (flags.publish === true) {
      const jobs = await publishQueue(cluster, jobsQueue, now);
      const { namespace, configmap } = jobsQueue;
      if (cli.json)
        cli.print(JSON.stringify({ context: place.context, namespace, configmap, jobs, updated: moment(now) }));
      else
        cli.tell(
          `${countText(jobs, 'active job')} of ${place.context} published in the ConfigMap ${namespace}/${configmap}.`,
        );
      return exitCode.ok;
    }
    const seen = await lookAtQueue(cluster, jobsQueue);
    const { gpuResources } = jobsQueue;
    const view = queueView(seen.jobs, {
      namespace: isEverywhere ? null : place.namespace,
      owner: labelValue(cli.io.user),
      gpuResources,
    });
    if (cli.json) printJson(cli, seen, view, place);
    else printTables(cli, view, now);
    if (!cli.json) sayNotes(cli, seen.source, view, { place, jobsQueue, now, isEverywhere });
    return exitCode.ok;
  } finally {
    await cluster.close();
  }
}

function printJson(cli: Cli, { source }: QueueSeen, view: QueueView, { context, namespace }: ClusterPlace): void {
  const { jobs, yours } = view;
  const from = source.kind;
  const updated = source.kind === 'published' ? moment(source.updatedAt) : moment(cli.io.now());
  const lines: object[] = [{ kind: 'source', from, updated, context, namespace, jobs, yours }];
  for (const { isConflict, others: _others, ...group } of view.groups) {
    lines.push({ kind: 'group', ...group, conflict: isConflict });
  }
  for (const { job, place, last, of, isYours } of view.places) {
    const { state: _waiting, createdAt, owner: _owner, name, ...rest } = job;
    lines.push({ kind: 'waiting', job: name, place, last, of, yours: isYours, ...rest, createdAt: moment(createdAt) });
  }
  cli.printObjects(lines);
}

function printTables(cli: Cli, { groups, places }: QueueView, now: Instant): void {
  const columns = columnsOf(cli.io.stdout);
  if (groups.length > 0) cli.printAll(groupLines(groups, columns));
  if (places.length === 0) return;
  cli.print('');
  cli.printAll(placeLines(shownPlaces(places), columns, now));
}

function groupLines(groups: readonly QueueGroup[], columns: number | null): readonly string[] {
  const hasOthers = groups.some(({ others }) => Object.keys(others).length > 0);
  const rows = groups.map(({ flavor, isConflict, jobs, yours, waiting, pods, requests, gpus, others }) => [
    `${flavor === null ? '<no name>' : shown(flavor)}${isConflict ? ' (conflict)' : ''}`,
    String(jobs),
    String(yours),
    String(waiting),
    String(pods),
    requests['cpu'] ?? '-',
    requests['memory'] ?? '-',
    gpus === 0 ? '-' : String(gpus),
    ...(hasOthers ? [amountsText(others) || '-'] : []),
  ]);
  const heads = [
    'FLAVOR',
    'JOBS',
    'YOURS',
    'WAITING',
    'PODS',
    'CPU',
    'MEMORY',
    'GPUS',
    ...(hasOthers ? ['OTHER'] : []),
  ];
  const sides = heads.map((head) => (head === 'FLAVOR' || head === 'OTHER' ? 'left' : 'right'));
  return aligned([heads, ...rows], sides, columns);
}

/** A name that others have chosen: it may hold anything, and be a quarter of a megabyte long. */
function shown(flavor: string): string {
  return cutMiddle(inertWord(flavor), 40);
}

function shownPlaces(places: readonly QueuePlace[]): readonly QueuePlace[] {
  if (places.length <= rowsMost) return places;
  const yours = places.filter(({ isYours }) => isYours);
  const others = places.filter(({ isYours }) => !isYours).toSorted((one, other) => one.place - other.place);
  const chosen = new Set([...yours, ...others].slice(0, rowsMost));
  return places.filter((place) => chosen.has(place));
}

function placeLines(places: readonly QueuePlace[], columns: number | null, now: Instant): readonly string[] {
  const rows = places.map(({ job, isYours, place, last, of }) => [
    `${place === last ? place : `${place}-${last}`} of ${of}`,
    isYours ? 'yours' : '',
    inertWord(job.namespace),
    inertWord(job.name),
    inertWord(job.queue ?? '-'),
    String(job.priority),
    ageText(now - job.createdAt),
    job.flavor === null ? amountsText(job.requests) || '-' : shown(job.flavor),
  ]);
  const heads = ['PLACE', 'WHOSE', 'NAMESPACE', 'JOB', 'QUEUE', 'PRIORITY', 'AGE', 'ASKS'];
  const sides = ['right', 'left', 'left', 'left', 'left', 'right', 'right', 'left'] as const;
  return aligned([heads, ...rows], sides, columns);
}

function sayNotes(
  cli: Cli,
  source: QueueSource,
  { groups, places, jobs, yours }: QueueView,
  around: {
    readonly place: ClusterPlace;
    readonly jobsQueue: ClusterSettings['jobsQueue'];
    readonly now: Instant;
    readonly isEverywhere: boolean;
  },
): void {
  const { place, jobsQueue, now, isEverywhere } = around;
  const mine = isEverywhere ? 'those that carry your name' : `those of ${place.namespace}`;
  const own = `${place.context}/${place.namespace}`;
  const more = places.length - rowsMost;
  if (more > 0) cli.note(`and ${more} more that wait (--json has all)`);
  const counted = jobs === 0 ? 'No job is active' : `${countText(jobs, 'active job')} (${yours} yours)`;
  const list = `the ConfigMap ${jobsQueue.namespace}/${jobsQueue.configmap}`;
  const barred = 'you may not list the jobs of the whole cluster';
  switch (source.kind) {
    case 'cluster':
      cli.note(`${counted} in the whole cluster of ${place.context}. Yours are ${mine}.`);
      break;
    case 'published': {
      const age = source.updatedAt === null ? 'of no known age' : `${ageText(now - source.updatedAt)} old`;
      const fresh = source.isOwnFresh ? `, and those of ${own} as they are now` : '';
      cli.note(`${counted} in the cluster of ${place.context}, by ${list}, ${age}${fresh}: ${barred}.`);
      if (source.unread > 0) cli.note(`note: ${source.unread} entries of ${list} are none and were left out`);
      break;
    }
    case 'namespace':
      cli.note(`${counted} in ${own} only: ${barred}, and ${list} holds no list of them for you.`);
  }
  const conflicts = [...new Set(groups.flatMap(({ flavor, isConflict }) => (isConflict ? [flavor ?? ''] : [])))];
  for (const flavor of conflicts) {
    cli.note(`note: the flavor ${shown(flavor)} stands for different requests, which are counted apart`);
  }
}
