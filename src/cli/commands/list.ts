// list: the table of jobs, once or as it changes.

import type { JobList, JobRow, ListQuery } from '../../app/client.ts';
import { countText } from '../../app/figures.ts';
import { exitCode } from '../../app/errors.ts';
import type { Phase } from '../../core/phase.ts';
import type { ClusterRows } from '../cluster/list.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { replaceKilled } from '../controller.ts';
import { rowJson } from '../../app/json.ts';
import { listLines } from '../render/list.ts';
import { isSettled } from '../settled.ts';
import { columnsOf } from '../screen.ts';

export interface ListFlags {
  readonly user: string | undefined;
  readonly phase: readonly Phase[] | undefined;
  readonly tag: string | undefined;
  readonly name: string | undefined;
  readonly all: boolean | undefined;
  readonly watch: boolean | undefined;
  readonly namespace: string | undefined;
  readonly context: string | undefined;
}

export async function list(cli: Cli, flags: ListFlags & GlobalFlags): Promise<number> {
  const client = await cli.services.client();
  const query = queryOf(flags);
  const { io, screen } = cli;
  const isPlaceSaid = flags.namespace !== undefined || flags.context !== undefined;
  const usesCluster = isPlaceSaid || (await cli.services.usesCluster());
  if (flags.watch === true) {
    const { watchList } = await import('../watch/watch.ts');
    return watchList(cli, client, query, usesCluster ? flags : null);
  }
  const [own, others] = await Promise.all([
    client.list(query),
    usesCluster ? listCluster(cli, query, flags) : undefined,
  ]);
  let jobs = others === undefined ? own : joined(own, others);
  if (flags.all === true) jobs = joined(jobs, { rows: await listKept(cli, query, others?.told), more: 0, notes: [] });
  if (cli.json) {
    // One write for many rows: ten thousand small ones would be most of the command's time.
    let text = '';
    for (const row of jobs.rows) text += `${JSON.stringify(rowJson(row))}\n`;
    io.stdout.write(text);
  } else {
    const columns = columnsOf(io.stdout);
    const lines = listLines(jobs.rows, { columns, ink: screen.out, unicode: screen.unicode, now: io.now() });
    io.stdout.write(lines.map((line) => `${line}\n`).join(''));
    cli.note(footer(jobs, query));
  }
  for (const note of jobs.notes) cli.note(`note: ${note}`);
  if (own.rows.some((row) => !isSettled(row))) await replaceKilled(cli, client, true);
  // A cluster that nobody named is a remark; one that was asked for by name is what the command was for.
  return (isPlaceSaid ? others?.trouble?.code : undefined) ?? exitCode.ok;
}

/** What clusters have forgotten, where anything was ever submitted. */
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

/** One list, as the record orders its own: what is not settled from the newest on, then what settled, the last first. */
export function joined(own: JobList, others: JobList): JobList {
  const order = (one: JobRow, other: JobRow): number => {
    const [isOver, isOtherOver] = [isSettled(one), isSettled(other)];
    if (isOver !== isOtherOver) return isOver ? 1 : -1;
    return isOver ? other.since - one.since : other.createdAt - one.createdAt;
  };
  const rows = [...own.rows, ...others.rows].toSorted(order);
  return { rows, more: own.more + others.more, notes: [...own.notes, ...others.notes] };
}

function queryOf(flags: ListFlags): ListQuery {
  return {
    ...(flags.user === undefined ? {} : { owner: flags.user }),
    ...(flags.phase === undefined ? {} : { phases: flags.phase }),
    ...(flags.tag === undefined ? {} : { tag: flags.tag }),
    ...(flags.name === undefined ? {} : { name: flags.name }),
    all: flags.all === true,
  };
}

/** How many are shown and how the others are seen; or what makes a first one. */
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
