import { formatAmounts } from '../../app/cluster/missing-resources.ts';
import { publishJobs, readQueue, type QueueReport } from '../../app/cluster/queue-source.ts';
import type { QueueGroup, QueuePosition, QueueView } from '../../app/cluster/queue.ts';
import {
  conflictSentences,
  formatPosition,
  maxPositions,
  queueSourceSentences,
  shownPositions,
} from '../../app/cluster/queue-text.ts';
import { exitCode, usageError } from '../../app/errors.ts';
import { escapeLine, formatAge, pluralize } from '../../app/format.ts';
import type { JobRow } from '../../app/client.ts';
import type { QueuedRow } from '../../app/queue.ts';
import { formatHostUse, formatBriefWait } from '../../app/queue-text.ts';
import { notOnServerError } from '../../app/server-in-use.ts';
import type { Instant } from '../../core/model/time.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { fittedTable, type Column } from '../render/aligned.ts';
import { cutMiddle } from '../render/cell.ts';
import { columnsOf } from '../screen.ts';
import type { QueueFlags } from '../table/flags.ts';

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
  const { rows: waiting, more, hosts: queues } = await client.queue();
  const tpus = more + waiting.filter(({ hosts }) => hosts.length === 0).length;
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
  for (const queue of queues) cli.printSentence(formatHostUse(queue));
  cli.printSentence(`TPUs: ${pluralize(tpus, 'job')} waiting.`);
  if (waiting.length === 0) return false;
  const now = cli.io.now();
  const queueOf = (row: JobRow) =>
    positionsOf(row)
      .map(({ host, position }) => `${host} ${position}`)
      .join(', ');
  const columns: readonly Column<QueuedRow>[] = [
    { title: 'QUEUE', text: (row) => (row.hosts.length === 0 ? 'tpu' : queueOf(row)) },
    { title: 'JOB ID', text: ({ id }) => id },
    { title: 'NAME', text: ({ name }) => name },
    { title: 'USER', text: ({ owner }) => owner ?? '-' },
    { title: 'REQUESTS', text: ({ requests }) => requests },
    { title: 'WAITED', side: 'right', text: ({ waitsSinceAt }) => formatAge(now - waitsSinceAt) },
    { title: 'USUALLY', text: ({ typicalWait }) => formatBriefWait(typicalWait) || '-' },
    { title: 'DETAIL', text: ({ message }) => message },
  ];
  cli.printAll(fittedTable(columns, waiting, [], columnsOf(cli.io.stdout)));
  if (more > 0) cli.note(`and ${pluralize(more, 'more job')}`);
  return false;
}

async function clusterQueue(cli: Cli, flags: QueueFlags): Promise<number> {
  const now = cli.io.now();
  if (flags.publish === true) {
    const server = await cli.services.server();
    if (server !== null) throw notOnServerError('`jobman queue --publish`', server);
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

function positionLines(positions: readonly QueuePosition[], columns: number | null, now: Instant): readonly string[] {
  const requestOf = ({ job: { flavor, requests } }: QueuePosition) =>
    flavor === null ? formatAmounts(requests) || '-' : formatFlavor(flavor);
  const table: readonly Column<QueuePosition>[] = [
    { title: 'POSITION', side: 'right', text: formatPosition },
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

function printNotes(cli: Cli, report: QueueReport, now: Instant, isEverywhere: boolean): void {
  const more = report.view.positions.length - maxPositions;
  if (more > 0) cli.note(`and ${more} more (--json lists all)`);
  for (const sentence of queueSourceSentences(report, now, isEverywhere)) cli.note(sentence);
  for (const sentence of conflictSentences(report.view.groups, formatFlavor)) cli.note(sentence);
}
