import type { JobList, ListQuery } from '../../app/client.ts';
import { pluralize, escapeLine } from '../../app/format.ts';
import { exitCode, JobmanError, usageError } from '../../app/errors.ts';
import { awaitsController, openJobs } from '../../app/jobs.ts';
import { omitUndefined } from '../../core/model/omit-undefined.ts';
import type { Instant } from '../../core/model/time.ts';
import { type Cli, type GlobalFlags, reportError } from '../context.ts';
import { createWaker, restartIfKilled } from '../controller.ts';
import { listLines } from '../render/list.ts';
import { layoutOf } from '../screen.ts';
import type { ListFlags } from '../table/flags.ts';

export async function list(cli: Cli, flags: ListFlags & GlobalFlags): Promise<number> {
  const query = queryOf(flags, cli.io.now());
  if (flags.allNamespaces === true && flags.namespace !== undefined) {
    throw usageError('-n and -A exclude each other: -A means all namespaces.');
  }
  if (flags.allNamespaces === true && flags.watch === true) {
    throw usageError('--watch and -A exclude each other: --watch follows one namespace in a cluster.');
  }
  const jobs = openJobs(cli.services, flags);
  try {
    if (flags.watch === true) {
      const { watchList } = await import('../watch/list.ts');
      return await watchList(cli, jobs, query);
    }
    return await printList(cli, await jobs.list(query), query);
  } finally {
    await jobs.close();
  }
}

async function printList(cli: Cli, jobs: JobList, query: ListQuery): Promise<number> {
  const { rows, notes, failure, elsewhere = [] } = jobs;
  if (cli.json) cli.printJsonLines(rows);
  else {
    cli.printAll(listLines(rows, layoutOf(cli)));
    cli.note(footer(jobs, query, (await cli.services.server()) === null));
  }
  for (const note of notes) cli.note(escapeLine(`note: ${note}`));
  if (cli.json && failure !== undefined)
    reportError(new JobmanError(failure.message, failure.code, failure.lines), cli);
  for (const { context, namespace, jobs: count } of elsewhere) {
    const command = `jobman list --context ${escapeLine(context)} -n ${namespace}`;
    cli.note(`note: you have ${pluralize(count, 'job')} in ${escapeLine(`${context}/${namespace}`)}: ${command}`);
  }
  if (awaitsController(rows)) await restartIfKilled(cli, createWaker(cli), true);
  // Next to jobs of another source, a source that does not answer is a note; otherwise its error is the exit code.
  return failure === undefined || failure.isPartial ? exitCode.ok : failure.code;
}

function queryOf({ user, phase, tag, name, zone, accelerator, since, limit, all }: ListFlags, now: Instant): ListQuery {
  const createdSince = since?.(now).from;
  return {
    ...omitUndefined({ user, phases: phase, tag, name, zone, accelerator, createdSince, limit }),
    all: all === true,
  };
}

function footer({ rows, more, notes, next }: JobList, query: ListQuery, isLocal: boolean): string {
  if (rows.length > 0) {
    if (query.limit !== undefined && (next !== undefined || more > 0))
      return `the ${pluralize(rows.length, 'newest job')} (a larger --limit shows more)`;
    return more === 0
      ? pluralize(rows.length, 'job')
      : `${rows.length} of ${pluralize(rows.length + more, 'job')}: active and most recently finished (--all shows the rest)`;
  }
  const filters = filtersOf(query);
  if (filters.length > 0) return `No jobs ${filters.join(' and ')}.`;
  if (notes.length > 0) return 'No jobs.';
  // On the machine of a server, only some users may run programs.
  const tryHere = isLocal ? 'Try one here: jobman run --follow -- echo hello · ' : '';
  return `No jobs yet. ${tryHere}Write a manifest: jobman init`;
}

function filtersOf(query: ListQuery): readonly string[] {
  const { user, phases, tag, name, zone, accelerator, createdSince } = query;
  return [
    ...(user === undefined ? [] : [`of ${user}`]),
    ...(phases === undefined ? [] : [phases.join(' or ')]),
    ...(tag === undefined ? [] : [`tagged ${tag}`]),
    ...(name === undefined ? [] : [`named ${name}`]),
    ...(zone === undefined ? [] : [`in ${zone}`]),
    ...(accelerator === undefined ? [] : [`with ${accelerator}`]),
    ...(createdSince === undefined ? [] : ['created since then']),
  ];
}
