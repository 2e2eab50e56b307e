// list: the table of jobs, once or as it changes.

import type { JobList, JobRow, ListQuery } from '../../app/client.ts';
import { countText, inertWord } from '../../app/figures.ts';
import { exitCode, usageError } from '../../app/errors.ts';
import { given } from '../../core/given.ts';
import { joined } from '../cluster/record-and-cluster.ts';
import type { ClusterRows } from '../cluster/list.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { replaceKilled } from '../controller.ts';
import { rowJson } from '../../app/json.ts';
import { listLines } from '../render/list.ts';
import { isSettledPhase } from '../../core/phase.ts';
import { columnsOf } from '../screen.ts';
import type { ListFlags } from '../table/flags.ts';

export async function list(cli: Cli, flags: ListFlags & GlobalFlags): Promise<number> {
  const client = await cli.services.client();
  const query = queryOf(flags);
  const { io, screen } = cli;
  const isEverywhere = flags.allNamespaces === true;
  if (isEverywhere && flags.namespace !== undefined) {
    throw usageError('-A lists every namespace, and -n names one of them; use only one of the two.');
  }
  if (isEverywhere && flags.watch === true) {
    throw usageError('--watch follows one namespace of a cluster; -A goes with a list that ends.');
  }
  const isPlaceSaid = isEverywhere || flags.namespace !== undefined || flags.context !== undefined;
  const usesCluster = isPlaceSaid || (await cli.services.usesCluster());
  if (flags.watch === true) {
    const { watchList } = await import('../watch/list.ts');
    return watchList(cli, client, query, usesCluster ? flags : null);
  }
  const [own, others] = await Promise.all([
    client.list(query),
    usesCluster ? listCluster(cli, query, flags) : undefined,
  ]);
  let jobs = others === undefined ? own : joined(own, others);
  const isAway = others?.trouble !== undefined;
  if (flags.all === true || isAway) {
    // A cluster does not answer: its recorded jobs are listed, with the age of the information.
    const kept = (await listKept(cli, query, others?.told)).filter(
      (row) => flags.all === true || isAtPlace(row, flags),
    );
    jobs = joined(jobs, { rows: kept, more: 0, notes: [] });
  }
  if (cli.json) cli.printObjects(jobs.rows.map(rowJson));
  else {
    const columns = columnsOf(io.stdout);
    cli.printAll(listLines(jobs.rows, { columns, ink: screen.out, unicode: screen.unicode, now: io.now() }));
    cli.note(footer(jobs, query));
  }
  for (const note of jobs.notes) cli.note(`note: ${note}`);
  if (!cli.json && !isPlaceSaid && flags.all !== true) await noteOtherNamespaces(cli, jobs.rows);
  if (own.rows.some((row) => !isSettledPhase(row.phase))) await replaceKilled(cli, client, true);
  // With jobs of this machine or of TPUs in the list, a cluster that does not answer is a note; otherwise it is the result.
  return (isPlaceSaid || own.rows.length === 0 ? others?.trouble?.code : undefined) ?? exitCode.ok;
}

/** True for a recorded row of the context and namespace that the flags name, or of any if they name none. Deleted jobs are left out. */
function isAtPlace({ zone, phase }: JobRow, { namespace, context, allNamespaces }: ListFlags): boolean {
  if (phase === 'cancelled') return false;
  const at = zone?.lastIndexOf('/') ?? -1;
  const [rowContext, rowNamespace] = [zone?.slice(0, at), zone?.slice(at + 1)];
  return (
    (context === undefined || context === rowContext) &&
    (allNamespaces === true || namespace === undefined || namespace === rowNamespace)
  );
}

async function noteOtherNamespaces(cli: Cli, rows: readonly JobRow[]): Promise<void> {
  const keeper = await cli.services.keeper();
  if (!keeper.isUsed) return;
  const { isKeptOpen } = await import('../../app/cluster/kept.ts');
  const shown = new Set(rows.map(({ zone }) => zone));
  const counts = new Map<string, number>();
  for (const kept of await keeper.jobs({})) {
    const spot = `${kept.context}/${kept.job.namespace}`;
    if (kept.hidden || kept.object === null || !isKeptOpen(kept) || shown.has(spot)) continue;
    counts.set(spot, (counts.get(spot) ?? 0) + 1);
  }
  for (const [spot, count] of counts) {
    const [context = '', namespace = ''] = spot.split(/\/(?=[^/]*$)/);
    cli.note(
      `note: ${countText(count, 'job')} of yours in ${spot}: jobman list --context ${inertWord(context)} -n ${namespace}`,
    );
  }
}

async function listKept(cli: Cli, query: ListQuery, told: ReadonlySet<string> | undefined): Promise<readonly JobRow[]> {
  const { isUsed } = await cli.services.keeper();
  if (!isUsed) return [];
  const { keptRows } = await import('../cluster/list.ts');
  return keptRows(cli, query, told ?? new Set());
}

async function listCluster(cli: Cli, query: ListQuery, flags: ListFlags): Promise<ClusterRows> {
  const { clusterRows } = await import('../cluster/list.ts');
  return clusterRows(cli, query, flags);
}

function queryOf({ user, phase, tag, name, all }: ListFlags): ListQuery {
  return {
    ...given({ owner: user, phases: phase, tag, name }),
    all: all === true,
  };
}

function footer({ rows, more, notes }: JobList, query: ListQuery): string {
  if (rows.length > 0) {
    return more === 0
      ? countText(rows.length, 'job')
      : `${rows.length} of ${countText(rows.length + more, 'job')}: unsettled, and those that settled last (--all shows the rest)`;
  }
  const filters = filtersOf(query);
  if (filters.length > 0) return `No job is ${filters.join(' and ')}.`;
  // Nobody knows what there is in a cluster that did not answer.
  if (notes.length > 0) return 'No jobs here.';
  return 'No jobs yet. `jobman create configs/quick-start.yaml --follow` runs one in a minute.';
}

function filtersOf(query: ListQuery): readonly string[] {
  const { owner, phases, tag, name } = query;
  return [
    ...(owner === undefined ? [] : [`of ${owner}`]),
    ...(phases === undefined ? [] : [phases.join(' or ')]),
    ...(tag === undefined ? [] : [`tagged ${tag}`]),
    ...(name === undefined ? [] : [`named ${name}`]),
  ];
}
