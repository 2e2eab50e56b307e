import type { JobList, JobRow, ListQuery } from '../../app/client.ts';
import { pluralize, escapeLine } from '../../app/format.ts';
import { exitCode, usageError } from '../../app/errors.ts';
import { omitUndefined } from '../../core/model/omit-undefined.ts';
import { joinLists, splitContext } from '../cluster/join-sources.ts';
import { type Cli, type GlobalFlags, reportError } from '../context.ts';
import { restartIfKilled } from '../controller.ts';
import { listLines } from '../render/list.ts';
import { isFinishedPhase } from '../../core/decide/phase.ts';
import { columnsOf } from '../screen.ts';
import type { ListFlags } from '../table/flags.ts';

export async function list(cli: Cli, flags: ListFlags & GlobalFlags): Promise<number> {
  const client = await cli.services.client();
  const query = queryOf(flags);
  const { io, screen } = cli;
  const isEverywhere = flags.allNamespaces === true;
  if (isEverywhere && flags.namespace !== undefined) {
    throw usageError('-n and -A exclude each other: -A means all namespaces.');
  }
  if (isEverywhere && flags.watch === true) {
    throw usageError('--watch and -A exclude each other: --watch follows one namespace in a cluster.');
  }
  const isContextNamed = isEverywhere || flags.namespace !== undefined || flags.context !== undefined;
  const usesCluster = isContextNamed || (await cli.services.isClusterConfigured());
  if (flags.watch === true) {
    const { watchList } = await import('../watch/list.ts');
    return watchList(cli, client, query, usesCluster ? flags : null);
  }
  const includesOthers = usesCluster || (query.all === true && (await cli.services.clusterArchive()).isUsed);
  const [own, others] = await Promise.all([
    client.list(query),
    includesOthers ? (await import('../cluster/list.ts')).clusterRows(cli, query, flags, usesCluster) : undefined,
  ]);
  const jobs = others === undefined ? own : joinLists(own, others);
  if (cli.json) cli.printJsonLines(jobs.rows);
  else {
    const columns = columnsOf(io.stdout);
    cli.printAll(listLines(jobs.rows, { columns, styler: screen.styleOut, unicode: screen.unicode, now: io.now() }));
    cli.note(footer(jobs, query));
  }
  for (const note of jobs.notes) cli.note(escapeLine(`note: ${note}`));
  if (cli.json && others?.error !== undefined) reportError(others.error, cli);
  if (!cli.json && !isContextNamed && flags.all !== true) await noteOtherNamespaces(cli, jobs.rows);
  if (own.rows.some((row) => !isFinishedPhase(row.phase))) await restartIfKilled(cli, client, true);
  // Next to jobs of the store, a cluster that does not answer is a note; otherwise its error is the exit code.
  return (isContextNamed || own.rows.length === 0 ? others?.error?.code : undefined) ?? exitCode.ok;
}

async function noteOtherNamespaces(cli: Cli, rows: readonly JobRow[]): Promise<void> {
  const archive = await cli.services.clusterArchive();
  if (!archive.isUsed) return;
  const { mayBeActive } = await import('../../app/cluster/archive.ts');
  const shown = new Set(rows.map(({ zone }) => zone));
  const counts = new Map<string, number>();
  for (const archived of await archive.jobs({})) {
    const where = `${archived.context}/${archived.job.namespace}`;
    if (archived.hidden || archived.object === null || !mayBeActive(archived) || shown.has(where)) continue;
    counts.set(where, (counts.get(where) ?? 0) + 1);
  }
  for (const [where, count] of counts) {
    const { context, namespace } = splitContext(where);
    cli.note(
      `note: you have ${pluralize(count, 'job')} in ${where}: jobman list --context ${escapeLine(context)} -n ${namespace}`,
    );
  }
}

function queryOf({ user, phase, tag, name, all }: ListFlags): ListQuery {
  return {
    ...omitUndefined({ user, phases: phase, tag, name }),
    all: all === true,
  };
}

function footer({ rows, more, notes }: JobList, query: ListQuery): string {
  if (rows.length > 0) {
    return more === 0
      ? pluralize(rows.length, 'job')
      : `${rows.length} of ${pluralize(rows.length + more, 'job')}: active and most recently finished (--all shows the rest)`;
  }
  const filters = filtersOf(query);
  if (filters.length > 0) return `No jobs ${filters.join(' and ')}.`;
  if (notes.length > 0) return 'No jobs.';
  return 'No jobs yet. Try one here: jobman run --follow -- echo hello · Write a manifest: jobman init';
}

function filtersOf(query: ListQuery): readonly string[] {
  const { user, phases, tag, name } = query;
  return [
    ...(user === undefined ? [] : [`of ${user}`]),
    ...(phases === undefined ? [] : [phases.join(' or ')]),
    ...(tag === undefined ? [] : [`tagged ${tag}`]),
    ...(name === undefined ? [] : [`named ${name}`]),
  ];
}
