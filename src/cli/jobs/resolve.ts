// The jobs that the arguments of a command name.

import { exitCode, JobmanError } from '../../app/errors.ts';
import type { FoundJob, JobScope } from '../../app/job-source.ts';
import { openJobs, type Jobs } from '../../app/jobs.ts';
import type { RefPurpose } from '../../app/refs.ts';
import { missingJobError, reportError, type Cli } from '../context.ts';
import type { Output } from '../outputs.ts';

export interface JobFlags extends Omit<JobScope, 'allNamespaces'> {
  readonly jobName?: string | undefined;
}

export interface ResolvedJobs {
  /** The caller closes them. */
  readonly jobs: Jobs;
  readonly named: readonly { readonly name: string; readonly found: FoundJob | JobmanError }[];
}

/** Throws JobmanError without a job. */
export async function resolveJobs(
  cli: Cli,
  flags: JobFlags,
  args: readonly string[],
  purpose: RefPurpose,
): Promise<ResolvedJobs> {
  const { jobName } = flags;
  const references = [
    ...args.map((text) => ({ text, isName: false })),
    ...(jobName === undefined ? [] : [{ text: jobName, isName: true }]),
  ];
  if (references.length === 0) throw missingJobError();
  const jobs = openJobs(cli.services, flags);
  const named: ResolvedJobs['named'][number][] = [];
  try {
    for (const reference of references) {
      const found = await jobs.find(reference, purpose).catch((error: unknown) => {
        if (error instanceof JobmanError) return error;
        throw error;
      });
      if (!(found instanceof JobmanError) && found.note !== null) cli.note(found.note);
      named.push({ name: reference.text, found });
    }
    return { jobs, named };
  } catch (error) {
    await jobs.close();
    throw error;
  }
}

/** A failure is reported and does not stop the others. Resolves with the worst exit code. */
export async function forEachJob(
  cli: Cli,
  flags: JobFlags,
  args: readonly string[],
  purpose: RefPurpose,
  act: (job: FoundJob, jobs: Jobs) => Promise<number>,
  /** Runs at the end, unless every stored job failed. */
  after?: () => Promise<void>,
): Promise<number> {
  const { jobs, named } = await resolveJobs(cli, flags, args, purpose);
  let worst: number = exitCode.ok;
  let isStoredDone = false;
  try {
    for (const { name, found } of named) {
      try {
        if (found instanceof JobmanError) throw found;
        const code = await act(found, jobs);
        if (found.copy !== null) cli.note(found.copy.message);
        worst = Math.max(worst, code);
        isStoredDone ||= found.cluster === null && code === exitCode.ok;
      } catch (error) {
        if (!(error instanceof JobmanError)) throw error;
        worst = Math.max(worst, reportError(error, cli, { job: name }));
      }
    }
    if (isStoredDone) await after?.();
    return worst;
  } finally {
    await jobs.close();
  }
}

/** The exit code of a read. It says that the answer may be old. */
export function readCode({ copy }: FoundJob): number {
  return copy === null || copy.isCertain ? exitCode.ok : exitCode.unreachable;
}

interface JobText {
  readonly objects: () => readonly Output[];
  readonly lines: () => readonly string[];
}

/** Prints a text for each job; an empty line separates them. */
export function printEachJob(
  cli: Cli,
  flags: JobFlags,
  args: readonly string[],
  textOf: (job: FoundJob, jobs: Jobs) => Promise<JobText>,
  after: () => Promise<void>,
): Promise<number> {
  let isFirst = true;
  const print = async (job: FoundJob, jobs: Jobs): Promise<number> => {
    const { objects, lines } = await textOf(job, jobs);
    if (cli.json) cli.printJsonLines(objects());
    else cli.printAll([...(isFirst ? [] : ['']), ...lines()]);
    isFirst = false;
    return readCode(job);
  };
  return forEachJob(cli, flags, args, 'read', print, after);
}
