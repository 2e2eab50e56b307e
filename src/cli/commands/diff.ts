import type { DiffSide } from '../../app/diff.ts';
import { exitCode, JobmanError, usageError } from '../../app/errors.ts';
import { reportError, type Cli, type GlobalFlags } from '../context.ts';
import { escapeLine } from '../../app/format.ts';
import type { JobScope } from '../../app/job-source.ts';
import { resolveJobs } from '../jobs/resolve.ts';
import { diffLines, formatSide } from '../render/diff.ts';
import { columnsOf } from '../screen.ts';

/** The exit code is 0 unless a job or an attempt is missing. */
export async function diff(cli: Cli, flags: JobScope & GlobalFlags, ...args: readonly string[]): Promise<number> {
  if (args.length !== 2)
    throw usageError('`diff` compares two jobs or attempts: jobman diff 42 43, or jobman diff 42#1 42#3');
  const [left, right] = await sidesOf(cli, flags, args);
  if (left === undefined || right === undefined) return exitCode.notFound;
  if (left instanceof JobmanError || right instanceof JobmanError) {
    const errors = [left, right].filter((side) => side instanceof JobmanError);
    return Math.max(...errors.map((error) => reportError(error, cli)));
  }
  const { compareSides } = await import('../../app/diff.ts');
  const differences = await compareSides(left, right, async ({ job }, copy, path) => {
    const client = await cli.services.client();
    return copy === null ? client.readStepFile(job, path) : client.readWorkdirFile(job, copy, path);
  });
  if (cli.json) {
    const about = ({ job, name, attempt }: DiffSide) => ({ job, name, attempt });
    cli.printJsonLines([{ kind: 'sides', left: about(left), right: about(right) }, ...differences]);
    return exitCode.ok;
  }
  const lines = diffLines(left, right, differences, { columns: columnsOf(cli.io.stdout), ...cli.screen });
  if (lines.length === 0) cli.note(`${formatSide(left)} and ${formatSide(right)} do not differ.`);
  else cli.printAll(lines);
  const sides = [left, right];
  for (const side of sides)
    if (side.metricsProblem !== undefined)
      cli.note(`note: the metrics of ${formatSide(side)} are not compared: ${escapeLine(side.metricsProblem)}`);
  if (sides.every(({ values }) => (values.workdir ?? null) !== null))
    for (const side of sides.filter(({ files }) => files === null))
      cli.note(`note: the copied files of ${formatSide(side)} were removed, so files are not compared`);
  for (const side of new Set(sides.filter(({ isCodeUnknown }) => isCodeUnknown === true).map(formatSide)))
    cli.note(`note: the code of ${side} was not recorded, so it is not compared; job.workdir records it`);
  return exitCode.ok;
}

/** Of both arguments, each with its error if it has one. */
async function sidesOf(
  cli: Cli,
  flags: JobScope,
  args: readonly string[],
): Promise<readonly (DiffSide | JobmanError)[]> {
  const refs = args.map(parseRef);
  const names = refs.map(({ job }) => job);
  const { jobs, named } = await resolveJobs(cli, flags, names, 'read');
  const sides = named.map(async ({ found }, index) => {
    if (found instanceof JobmanError) throw found;
    const side = await jobs.diffSide(found, refs[index]?.attempt ?? null);
    if (found.copy !== null) cli.note(found.copy.message);
    return side;
  });
  try {
    return (await Promise.allSettled(sides)).map((side) => {
      if (side.status === 'fulfilled') return side.value;
      if (side.reason instanceof JobmanError) return side.reason;
      throw side.reason;
    });
  } finally {
    await jobs.close();
  }
}

/** `42#3` is attempt 3 of job 42. */
function parseRef(text: string): { readonly job: string; readonly attempt: number | null } {
  const [, job = text, attempt] = /^(.+)#(\d{1,6})$/.exec(text) ?? [];
  return { job, attempt: attempt === undefined ? null : Number(attempt) };
}
