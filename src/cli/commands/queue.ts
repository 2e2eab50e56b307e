import { ownHost } from '../../core/model/spec.ts';
import { formatAmounts } from '../../app/cluster/missing-resources.ts';
import { publishJobs, readQueue, type QueueReport } from '../../app/cluster/queue-source.ts';
import type { QueueGroup, QueuePosition, QueueView } from '../../app/cluster/queue.ts';
import { exitCode, usageError } from '../../app/errors.ts';
import { formatAge, pluralize, escapeLine } from '../../app/format.ts';
import type { JobRow } from '../../app/client.ts';
import type { Instant } from '../../core/model/time.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { fittedTable, type Column } from '../render/aligned.ts';
import { cutMiddle } from '../render/cell.ts';
import { columnsOf } from '../screen.ts';
import type { QueueFlags } from '../table/flags.ts';

const maxRows = 50;

export async function queue(cli: Cli, flags: QueueFlags & GlobalFlags): Promise<number> {
  if (flags.allNamespaces === true && flags.namespace !== undefined) {
    throw usageError('-n and -A exclude each other: -A means all namespaces.');
  }
  const isClusterNamed = [flags.namespace, flags.context, flags.allNamespaces, flags.publish].some(
    (value) => value !== undefined,
  );
  if (isClusterNamed) return clusterQueue(cli, flags);
  const usesCluster = await cli.services.isClusterConfigured();
  const isEmpty = await printStoredQueues(cli, usesCluster);
  if (!usesCluster) return exitCode.ok;
  if (!isEmpty && !cli.json) cli.print('');
  return clusterQueue(cli, flags);
}

/** Jobs that wait for a slot of a host or for a TPU. Prints nothing, and returns true, if `mayBeSilent` and none waits. */
async function printStoredQueues(cli: Cli, mayBeSilent: boolean): Promise<boolean> {
  const client = await cli.services.client();
  const [{ rows }, queues] = await Promise.all([
    client.list({ phases: ['queued', 'provisioning', 'setup', 'running', 'recovering', 'stopping'] }),
    client.hostQueues(),
  ]);
  const oldestFirst = rows.toReversed();
  const isOnHosts = ({ hosts }: JobRow): boolean => hosts.length > 0;
  const waitsOnHosts = new Set(queues.flatMap((queue) => queue.waiting));
  const tpu = oldestFirst.filter((row) => !isOnHosts(row) && ['queued', 'provisioning'].includes(row.phase));
  const waiting = [...oldestFirst.filter(({ id }) => waitsOnHosts.has(id)), ...tpu];
  if (mayBeSilent && waiting.length === 0) return true;
  const positionsOf = (row: JobRow) =>
    queues.flatMap(({ pool, waiting: jobs }) =>
      jobs.includes(row.id) ? [{ host: pool, position: jobs.indexOf(row.id) + 1 }] : [],
    );
  if (cli.json) {
    cli.printJsonLines(
      queues.map(({ pool: host, slots: slotCount, slotsUsed, waiting: jobs }) => ({
        kind: 'slots' as const,
        host,
        slotCount,
        usedCount: slotsUsed,
        waitingCount: jobs.length,
      })),
    );
    cli.printJsonLines(waiting.map((row) => ({ kind: 'queued' as const, positions: positionsOf(row), ...row })));
    return false;
  }
  for (const { pool, slots, slotsUsed, waiting: jobs } of queues) {
    const host = pool === ownHost ? 'This machine' : pool;
    cli.printSentence(
      `${host}: ${slotsUsed} of ${pluralize(slots, 'slot')} used, ${pluralize(jobs.length, 'job')} waiting.`,
    );
  }
  cli.printSentence(`TPUs: ${pluralize(tpu.length, 'job')} waiting.`);
  if (waiting.length === 0) return false;
  const now = cli.io.now();
  const queueOf = (row: JobRow) =>
    positionsOf(row)
      .map(({ host, position }) => `${host} ${position}`)
      .join(', ');
  const requestOf = ({ hosts, accelerator, pricing, zone }: JobRow) =>
    hosts.length > 0
      ? pluralize(hosts.length, 'slot')
      : [accelerator, pricing, zone].filter((part) => part !== null).join(' ');
  const columns: readonly Column<JobRow>[] = [
    { title: 'QUEUE', text: (row) => (isOnHosts(row) ? queueOf(row) : 'tpu') },
    { title: 'JOB ID', text: ({ id }) => id },
    { title: 'NAME', text: ({ name }) => name },
    { title: 'USER', text: ({ owner }) => owner ?? '-' },
    { title: 'REQUESTS', text: requestOf },
    { title: 'WAITED', side: 'right', text: ({ phaseStartedAt }) => formatAge(now - phaseStartedAt) },
    { title: 'DETAIL', text: ({ message }) => message },
  ];
  cli.printAll(fittedTable(columns, waiting, [], columnsOf(cli.io.stdout)));
  return false;
}

async function clusterQueue(cli: Cli, flags: QueueFlags): Promise<number> {
  const now = cli.io.now();
  if (flags.publish === true) {
    const { jobCount, context, published } = await publishJobs(cli.services, flags, now);
    const { namespace, configmap } = published;
    if (cli.json) cli.printJson({ context: context.context, namespace, configmap, jobCount, updatedAt: now });
    else
      cli.printSentence(
        `Published ${pluralize(jobCount, 'active job')} of ${context.context} in the ConfigMap ${namespace}/${configmap}.`,
      );
    return exitCode.ok;
  }
  const report = await readQueue(cli.services, flags);
  if (cli.json) printJson(cli, report);
  else {
    printTables(cli, report.view, now);
    printNotes(cli, report, now, flags.allNamespaces === true);
  }
  return exitCode.ok;
}

function printJson(cli: Cli, { source, view, context: { context, namespace } }: QueueReport): void {
  const { jobs, yours } = view;
  const updatedAt = source.kind === 'published' ? source.updatedAt : cli.io.now();
  cli.printJsonLines([
    { kind: 'source', source: source.kind, updatedAt, context, namespace, jobCount: jobs, yourJobCount: yours },
    ...view.groups.map(({ otherRequests: _others, ...group }) => ({ kind: 'group' as const, ...group })),
    ...view.positions.map(({ job: { state: _state, owner: _owner, ...job }, ...position }) => ({
      kind: 'waiting' as const,
      ...job,
      ...position,
    })),
  ]);
}

function printTables(cli: Cli, { groups, positions }: QueueView, now: Instant): void {
  const columns = columnsOf(cli.io.stdout);
  if (groups.length > 0) cli.printAll(groupLines(groups, columns));
  if (positions.length === 0) return;
  cli.print('');
  cli.printAll(positionLines(shownPositions(positions), columns, now));
}

function groupLines(groups: readonly QueueGroup[], columns: number | null): readonly string[] {
  const hasOthers = groups.some(({ otherRequests }) => Object.keys(otherRequests).length > 0);
  const nameOf = ({ flavor, conflict }: QueueGroup) =>
    `${flavor === null ? '<no name>' : formatFlavor(flavor)}${conflict ? ' (conflict)' : ''}`;
  const table: readonly Column<QueueGroup>[] = [
    { title: 'FLAVOR', text: nameOf },
    { title: 'JOBS', side: 'right', text: ({ jobCount }) => String(jobCount) },
    { title: 'YOURS', side: 'right', text: ({ yourJobCount }) => String(yourJobCount) },
    { title: 'WAITING', side: 'right', text: ({ waitingCount }) => String(waitingCount) },
    { title: 'PODS', side: 'right', text: ({ podCount }) => String(podCount) },
    { title: 'CPU', side: 'right', text: ({ requests }) => requests['cpu'] ?? '-' },
    { title: 'MEMORY', side: 'right', text: ({ requests }) => requests['memory'] ?? '-' },
    { title: 'GPUS', side: 'right', text: ({ gpus }) => (gpus === 0 ? '-' : String(gpus)) },
    { title: 'OTHER', text: ({ otherRequests }) => formatAmounts(otherRequests) || '-' },
  ];
  return fittedTable(hasOthers ? table : table.slice(0, -1), groups, [], columns);
}

/** Other users choose this name: it may contain any character and be 256 KB long. */
function formatFlavor(flavor: string): string {
  return cutMiddle(escapeLine(flavor), 40);
}

function shownPositions(positions: readonly QueuePosition[]): readonly QueuePosition[] {
  if (positions.length <= maxRows) return positions;
  const yours = positions.filter(({ yours }) => yours);
  const others = positions.filter((one) => !one.yours).toSorted((one, other) => one.position - other.position);
  const chosen = new Set([...yours, ...others].slice(0, maxRows));
  return positions.filter((position) => chosen.has(position));
}

function positionLines(positions: readonly QueuePosition[], columns: number | null, now: Instant): readonly string[] {
  const positionOf = ({ position, lastPosition, queueLength }: QueuePosition) =>
    `${position === lastPosition ? position : `${position}-${lastPosition}`} of ${queueLength}`;
  const requestOf = ({ job: { flavor, requests } }: QueuePosition) =>
    flavor === null ? formatAmounts(requests) || '-' : formatFlavor(flavor);
  const table: readonly Column<QueuePosition>[] = [
    { title: 'POSITION', side: 'right', text: positionOf },
    { title: 'OWNER', text: ({ yours }) => (yours ? 'yours' : '') },
    { title: 'NAMESPACE', text: ({ job }) => job.namespace },
    { title: 'JOB', text: ({ job }) => job.name },
    { title: 'QUEUE', text: ({ job }) => job.queue ?? '-' },
    { title: 'PRIORITY', side: 'right', text: ({ job }) => String(job.priority) },
    { title: 'AGE', side: 'right', text: ({ job }) => formatAge(now - job.createdAt) },
    { title: 'REQUESTS', text: requestOf },
  ];
  return fittedTable(table, positions, [], columns);
}

function printNotes(
  cli: Cli,
  { source, view: { groups, positions, jobs, yours }, context, published }: QueueReport,
  now: Instant,
  isEverywhere: boolean,
): void {
  const mine = isEverywhere ? 'the jobs with your name' : `the jobs of ${context.namespace}`;
  const own = `${context.context}/${context.namespace}`;
  const more = positions.length - maxRows;
  if (more > 0) cli.note(`and ${more} more (--json lists all)`);
  const counted = jobs === 0 ? 'No job is active' : `${pluralize(jobs, 'active job')} (${yours} yours)`;
  const list = `the ConfigMap ${published.namespace}/${published.configmap}`;
  const forbidden = 'you may not list the jobs of the whole cluster';
  switch (source.kind) {
    case 'cluster':
      cli.note(`${counted} in the whole cluster of ${context.context}. Yours are ${mine}.`);
      break;
    case 'published': {
      const age = source.updatedAt === null ? 'of unknown age' : `${formatAge(now - source.updatedAt)} old`;
      const fresh = source.isOwnFresh ? `, with the current jobs of ${own}` : '';
      cli.note(`${counted} in the cluster of ${context.context}, from ${list}, ${age}${fresh}: ${forbidden}.`);
      if (source.skipped > 0) cli.note(`note: ${source.skipped} entries of ${list} are invalid and were skipped`);
      break;
    }
    case 'namespace':
      cli.note(`${counted} in ${own} only: ${forbidden}, and ${list} has no list of them.`);
  }
  const conflicts = [...new Set(groups.flatMap(({ flavor, conflict }) => (conflict ? [flavor ?? ''] : [])))];
  for (const flavor of conflicts) {
    cli.note(`note: the flavor ${formatFlavor(flavor)} means different requests, which are counted separately`);
  }
}
