import type { ContinueFlags } from '../table/flags.ts';
import type { Client, CommandOptions, JobRow, Ref } from '../../app/client.ts';
import type { FoundJob, PerformedCommand } from '../../app/job-source.ts';
import type { Jobs } from '../../app/jobs.ts';
import { escapeLine, pluralize } from '../../app/format.ts';
import { exitCode, JobmanError, usageError } from '../../app/errors.ts';
import { type Cli, forEach, type GlobalFlags, missingJobError, refsOf, printAnswer } from '../context.ts';
import { createWaker, wakeController } from '../controller.ts';
import { untilInterrupted } from '../interrupt.ts';
import { performCommand, printSteps } from '../jobs/perform.ts';
import { forEachJob, type JobFlags } from '../jobs/resolve.ts';
import { confirm, untilConfirmed } from '../prompt.ts';
import { omitUndefined } from '../../core/model/omit-undefined.ts';
import { isFinishedPhase } from '../../core/decide/phase.ts';

const createCommand =
  <Own extends object>(command: PerformedCommand, optionsOf: (flags: Own) => CommandOptions = () => ({})) =>
  (cli: Cli, flags: JobFlags & GlobalFlags & Own, ...args: readonly Ref[]): Promise<number> =>
    changeJobs(cli, flags, args, (job, jobs) => performCommand(cli, jobs, job, command, optionsOf(flags)));

export const start = createCommand('start');
export const stop = createCommand('stop', ({ release }: { readonly release?: boolean | undefined }) => ({
  release: release === true,
}));
interface BudgetFlags {
  readonly budget?: number | undefined;
}

export const resume = createCommand('resume', (flags: BudgetFlags & { readonly workdir?: boolean | undefined }) => ({
  recopyWorkdir: flags.workdir === true,
  ...omitUndefined({ budgetUsd: flags.budget }),
}));
export const rerun = createCommand('rerun', ({ budget }: BudgetFlags) => omitUndefined({ budgetUsd: budget }));
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
  const matches = ({ phase, heldCapacity: held }: JobRow): boolean => !isFinishedPhase(phase) || held !== null;
  return changeAll(cli, 'cancel', matches, 'Cancel');
}

function expectOnlyAll({ jobName }: JobFlags, args: readonly Ref[]): void {
  if (args.length > 0 || jobName !== undefined) throw usageError('--all and jobs exclude each other.');
}

/** Lists the user's jobs that match, asks, and sends the command to each. */
async function changeAll(
  cli: Cli,
  verb: 'cancel' | 'delete',
  matches: (row: JobRow) => boolean,
  action: string,
): Promise<number> {
  const client = await cli.services.client();
  const { rows } = await client.list({ own: true, all: true });
  const jobs = rows.filter(
    (row) => matches(row) && row.desired !== 'deleted' && !(verb === 'cancel' && row.desired === 'cancelled'),
  );
  const someHold = verb === 'cancel' && jobs.some(({ phase }) => isFinishedPhase(phase));
  const count = someHold
    ? `${pluralize(jobs.length, 'job')} (unfinished or holding capacity)`
    : pluralize(jobs.length, verb === 'cancel' ? 'unfinished job' : 'finished job');
  if (jobs.length === 0) {
    cli.note(
      verb === 'cancel' ? 'You have no unfinished job and no job that holds capacity.' : 'You have no finished job.',
    );
    return exitCode.ok;
  }
  if (!cli.yes) {
    for (const { id, name, phase, heldCapacity: held } of jobs)
      cli.printStderr(`  ${id}  ${escapeLine(name)}  ${phase}${held === null ? '' : `, keeps its ${held}`}`);
  }
  const refused = `Nothing changed: you have ${count}.`;
  if (!(await confirm(cli, `${action} ${count}?`, refused))) {
    cli.note(refused);
    return exitCode.failed;
  }
  const ids = jobs.map(({ id }) => id);
  return changeJobs(cli, {}, ids, async ({ id }) => printAnswer(cli, await client.sendCommand(id, verb, {})));
}

interface DeleteFlags extends AllFlags {
  readonly force?: boolean | undefined;
  readonly own?: boolean | undefined;
}

export async function deleteJobs(cli: Cli, flags: DeleteFlags & GlobalFlags, ...args: readonly Ref[]): Promise<number> {
  if (flags.all === true) {
    expectOnlyAll(flags, args);
    const isClusterNamed = flags.namespace !== undefined || flags.context !== undefined || flags.own === true;
    const usesCluster = isClusterNamed || (await cli.services.isClusterConfigured());
    const { deleteAllJobs } = await import('../cluster/delete-all.ts');
    const inCluster = usesCluster ? await deleteAllJobs(cli, flags) : exitCode.ok;
    return isClusterNamed
      ? inCluster
      : Math.max(inCluster, await changeAll(cli, 'delete', ({ phase }) => isFinishedPhase(phase), 'Delete'));
  }
  if (flags.own === true) throw usageError('--own needs --all: it selects your own Jobs of the namespace.');
  return changeJobs(cli, flags, args, (job, jobs) =>
    performCommand(cli, jobs, job, 'delete', { force: flags.force === true }),
  );
}

export async function clean(cli: Cli, flags: AllFlags & GlobalFlags, ...args: readonly Ref[]): Promise<number> {
  const cleanJob = (job: FoundJob, jobs: Jobs) => performCommand(cli, jobs, job, 'clean', {});
  if (flags.all !== true) return forEachJob(cli, flags, args, 'change', cleanJob);
  expectOnlyAll(flags, args);
  const client = await cli.services.client();
  const jobs = await client.listCleanable();
  const [archive, { ownerLabels }] = await Promise.all([
    cli.services.clusterArchive(),
    import('../../app/cluster/job-object.ts'),
  ]);
  const own = ownerLabels(await client.whoAmI());
  const archived = (await archive.jobs({})).filter(
    ({ goneAt, job: { owner } }) => goneAt !== null && owner !== null && own.includes(owner),
  );
  const count = jobs.length + archived.length;
  if (count === 0) {
    cli.note('Nothing to clean.');
    return exitCode.ok;
  }
  if (!cli.yes) {
    for (const { id, name } of jobs) cli.printStderr(`  ${id}  ${escapeLine(name)}`);
    for (const { job } of archived) cli.printStderr(`  ${escapeLine(job.name)}`);
  }
  if (!(await confirm(cli, `Remove the files of ${pluralize(count, 'finished job')}?`, 'Nothing was removed.'))) {
    cli.note('Nothing was removed.');
    return exitCode.failed;
  }
  const ids = jobs.map(({ id }) => id);
  let code = ids.length === 0 ? exitCode.ok : await forEachJob(cli, {}, ids, 'change', cleanJob);
  const [{ performOnCluster }, { recordOfJob }] = await Promise.all([
    import('../../app/cluster/perform.ts'),
    import('../../app/cluster/cluster-record.ts'),
  ]);
  for (const one of archived) {
    const record = recordOfJob(one.job, { context: one.context, cluster: null, archived: one, copy: null });
    const cleaned = await printSteps(cli, performOnCluster(cli.services, record, 'clean', {}));
    code = Math.max(code, cleaned);
  }
  return code;
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
    const [ref = ''] = await refsOf(client, args, flags.jobName, 'change');
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
