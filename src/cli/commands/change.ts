import type { ContinueFlags } from '../table/flags.ts';
import type { Client, CommandOptions, Ref } from '../../app/client.ts';
import type { PerformedCommand } from '../../app/command-steps.ts';
import type { FoundJob } from '../../app/job-source.ts';
import type { Jobs } from '../../app/jobs.ts';
import { exitCode, JobmanError, usageError } from '../../app/errors.ts';
import { type Cli, forEach, type GlobalFlags, missingJobError, refsOf } from '../context.ts';
import { createWaker, wakeController } from '../controller.ts';
import { untilInterrupted } from '../interrupt.ts';
import { performCommand, performOnAll } from '../jobs/perform.ts';
import { forEachJob, type JobFlags } from '../jobs/resolve.ts';
import { untilConfirmed } from '../prompt.ts';
import type { UploadedWorkdir } from '../../app/workdir.ts';
import { omitUndefined } from '../../core/model/omit-undefined.ts';

const createCommand =
  <Own extends object>(
    command: PerformedCommand,
    optionsOf: (flags: Own, cli: Cli, job: FoundJob) => CommandOptions | Promise<CommandOptions> = () => ({}),
  ) =>
  (cli: Cli, flags: JobFlags & GlobalFlags & Own, ...args: readonly Ref[]): Promise<number> =>
    changeJobs(cli, flags, args, async (job, jobs) =>
      performCommand(cli, jobs, job, command, await optionsOf(flags, cli, job)),
    );

export const start = createCommand('start');
export const stop = createCommand('stop', ({ release }: { readonly release?: boolean | undefined }) => ({
  release: release === true,
}));
interface BudgetFlags {
  readonly budget?: number | undefined;
}

interface ResumeFlags extends BudgetFlags {
  readonly workdir?: boolean | undefined;
}

export const resume = createCommand('resume', async (flags: ResumeFlags, cli, job) =>
  omitUndefined({
    workdir: flags.workdir === true && job.cluster === null ? await copyWorkdirAgain(cli, job.id) : undefined,
    budgetUsd: flags.budget,
  }),
);
export const rerun = createCommand('rerun', ({ budget }: BudgetFlags) => omitUndefined({ budgetUsd: budget }));

async function copyWorkdirAgain({ services }: Cli, id: string): Promise<UploadedWorkdir> {
  const { spec, name, workdirCopies } = await (await services.client()).show(id);
  if (spec.workdir === undefined) {
    const { noWorkdirError } = await import('../../app/workdir.ts');
    throw noWorkdirError(id, name);
  }
  const last = workdirCopies.at(-1);
  if (last === undefined)
    throw usageError(`This machine does not know which folder is the working directory of job ${id} (${name}).`, [
      'Create the job again from its manifest.',
    ]);
  return services.copyWorkdir(last.from);
}

const cancelJobs = createCommand('cancel');

function changeJobs(
  cli: Cli,
  flags: JobFlags,
  args: readonly Ref[],
  change: (job: FoundJob, jobs: Jobs) => Promise<number>,
): Promise<number> {
  return forEachJob(cli, flags, args, 'change', change, () => wakeController(cli, createWaker(cli)));
}

interface AllFlags extends JobFlags {
  readonly all?: boolean | undefined;
}

export async function cancel(cli: Cli, flags: AllFlags & GlobalFlags, ...args: readonly Ref[]): Promise<number> {
  if (flags.all !== true) return cancelJobs(cli, flags, ...args);
  expectOnlyAll(flags, args);
  if (flags.namespace !== undefined || flags.context !== undefined) {
    throw usageError('cancel --all is for the jobs of this database. In a cluster: jobman delete --all --own');
  }
  return performOnAll(cli, flags, 'cancel');
}

function expectOnlyAll({ jobName }: JobFlags, args: readonly Ref[]): void {
  if (args.length > 0 || jobName !== undefined) throw usageError('--all and jobs exclude each other.');
}

interface DeleteFlags extends AllFlags {
  readonly force?: boolean | undefined;
  readonly own?: boolean | undefined;
}

export async function deleteJobs(cli: Cli, flags: DeleteFlags & GlobalFlags, ...args: readonly Ref[]): Promise<number> {
  if (flags.all === true) {
    expectOnlyAll(flags, args);
    return performOnAll(cli, flags, 'delete', flags.own === true);
  }
  if (flags.own === true) throw usageError('--own needs --all: it selects your own Jobs of the namespace.');
  return changeJobs(cli, flags, args, (job, jobs) =>
    performCommand(cli, jobs, job, 'delete', { force: flags.force === true }),
  );
}

export async function clean(cli: Cli, flags: AllFlags & GlobalFlags, ...args: readonly Ref[]): Promise<number> {
  if (flags.all !== true)
    return forEachJob(cli, flags, args, 'change', (job, jobs) => performCommand(cli, jobs, job, 'clean', {}));
  expectOnlyAll(flags, args);
  return performOnAll(cli, {}, 'clean');
}

/** Only follows a job that is active. --cmd-only starts the command on the workers that the job holds ready. */
export async function continueJob(
  cli: Cli,
  flags: ContinueFlags & GlobalFlags,
  ...args: readonly string[]
): Promise<number> {
  const names = flags.jobName === undefined ? args : [...args, flags.jobName];
  if (names.length > 1) throw usageError('Continue one job at a time: it runs in the foreground.');
  if (names.length === 0) throw missingJobError();
  const client = await cli.services.client();
  return forEach(cli, names, async () => {
    const [ref = ''] = await refsOf(client, args, flags.jobName);
    return continueToEnd(cli, client, ref, flags);
  });
}

async function continueToEnd(cli: Cli, client: Client, ref: Ref, flags: ContinueFlags): Promise<number> {
  const [{ followToEnd }, { id, desired, phase, attempts }] = await Promise.all([
    import('../follow/follow.ts'),
    client.show(ref),
  ]);
  const isActive = desired === 'running' && phase !== 'succeeded' && phase !== 'failed';
  return untilInterrupted(cli, async (signal) => {
    if (!isActive || flags.cmdOnly === true) {
      const answer = await untilConfirmed(cli, 'Start it', `Job ${id} was not started`, (confirmed) =>
        client.sendCommand(id, 'start', { commandOnly: flags.cmdOnly === true, confirmed }),
      );
      if (answer === null) return exitCode.failed;
      if (!answer.ok) throw new JobmanError(answer.message, answer.exitCode);
      cli.note(answer.message);
    }
    await wakeController(cli, client);
    const after = attempts.at(-1)?.endedAt === null ? undefined : attempts.length;
    return followToEnd(cli, client, id, signal, false, after);
  });
}
