import type { ContinueFlags } from '../table/flags.ts';
import type { CommandOptions, Client, JobRow, JobView, Ref } from '../../app/client.ts';
import type { ClusterVerb } from '../../app/cluster/commands.ts';
import { escapeLine, formatMachine, pluralize } from '../../app/format.ts';
import { formatHourlyCost } from '../../app/phrases.ts';
import { exitCode, JobmanError, usageError } from '../../app/errors.ts';
import { handleJobs, type JobFlags } from '../cluster/resolve-jobs.ts';
import { type Cli, forEach, type GlobalFlags, missingJobError, refsOf, printAnswer } from '../context.ts';
import { wakeController } from '../controller.ts';
import { untilInterrupted } from '../interrupt.ts';
import { confirm, confirmIfRequired } from '../prompt.ts';
import type { Verb } from '../../core/decide/commands.ts';
import { isFinishedPhase } from '../../core/decide/phase.ts';

const createCommand =
  <Own extends object>(verb: ClusterVerb, optionsOf: (flags: Own) => Omit<CommandOptions, 'by'> = () => ({})) =>
  (cli: Cli, flags: JobFlags & GlobalFlags & Own, ...args: readonly Ref[]): Promise<number> =>
    handleJobs(cli, flags, args, {
      isChange: true,
      stored: (client, refs) => runStoredVerb(cli, client, verb, refs, optionsOf(flags)),
      async cluster(cluster, job) {
        const { runClusterVerb } = await import('../cluster/verbs.ts');
        return runClusterVerb(cli, await cli.services.clusterArchive(), cluster, job, verb);
      },
      async archived(archive, job, cluster) {
        const { runArchivedVerb } = await import('../cluster/verbs.ts');
        return runArchivedVerb(cli, archive, job, cluster, verb);
      },
      // The archive keeps the object, so a deleted job can be run again.
      ...(verb === 'rerun' ? { includesHidden: true } : {}),
    });

export const start = createCommand('start');
export const stop = createCommand('stop', ({ release }: { readonly release?: boolean | undefined }) => ({
  release: release === true,
}));
export const resume = createCommand('resume', ({ workdir }: { readonly workdir?: boolean | undefined }) => ({
  recopyWorkdir: workdir === true,
}));
export const rerun = createCommand('rerun');
const cancelJobs = createCommand('cancel');

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
  const { rows } = await client.list({ owner: cli.io.user, all: true });
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
  return runForEach(cli, client, ids, async (id) =>
    printAnswer(cli, await client.sendCommand(id, verb, { by: cli.io.user })),
  );
}

async function runStoredVerb(
  cli: Cli,
  client: Client,
  verb: Verb,
  refs: readonly Ref[],
  options: Omit<CommandOptions, 'by'>,
): Promise<number> {
  const needsConsent = ['start', 'resume', 'rerun'].includes(verb);
  const action = `${verb.charAt(0).toUpperCase()}${verb.slice(1)} it`;
  return runForEach(cli, client, refs, async (ref) => {
    if (needsConsent && !(await confirmIfRequired(cli, client, ref, action, `Job ${ref} did not change`)))
      return exitCode.failed;
    return printAnswer(cli, await client.sendCommand(ref, verb, { by: cli.io.user, ...options }));
  });
}

async function runForEach(
  cli: Cli,
  client: Client,
  refs: readonly Ref[],
  run: (ref: Ref) => Promise<number>,
): Promise<number> {
  let isAccepted = false;
  const code = await forEach(cli, refs, async (ref) => {
    const one = await run(ref);
    isAccepted ||= one === exitCode.ok;
    return one;
  });
  if (isAccepted) await wakeController(cli, client);
  return code;
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
    const { deleteAllJobs } = await import('../cluster/verbs.ts');
    const inCluster = usesCluster ? await deleteAllJobs(cli, flags) : exitCode.ok;
    return isClusterNamed
      ? inCluster
      : Math.max(inCluster, await changeAll(cli, 'delete', ({ phase }) => isFinishedPhase(phase), 'Delete'));
  }
  if (flags.own === true) throw usageError('--own needs --all: it selects your own Jobs of the namespace.');
  return handleJobs(cli, flags, args, {
    isChange: true,
    stored: (client, refs) => deleteStored(cli, client, refs, flags),
    async cluster(cluster, job) {
      const { deleteClusterJob } = await import('../cluster/verbs.ts');
      return deleteClusterJob(cli, cluster, job);
    },
    async archived(archive, job, cluster) {
      const { hideArchived } = await import('../cluster/archive.ts');
      return hideArchived(cli, archive, job, cluster);
    },
  });
}

async function deleteStored(
  cli: Cli,
  client: Client,
  refs: readonly Ref[],
  flags: DeleteFlags & GlobalFlags,
): Promise<number> {
  return runForEach(cli, client, refs, async (ref) => {
    const view = await client.show(ref);
    const held = heldCapacity(view);
    if (held !== undefined) {
      const job = `Job ${view.id} (${escapeLine(view.name)}) holds ${held}.`;
      const question = `${job} Stop its program, release it and delete the job?`;
      const refused = `${job} It was not deleted.`;
      if (!(await confirm(cli, question, refused))) {
        cli.note(refused);
        return exitCode.failed;
      }
    }
    return printAnswer(
      cli,
      await client.sendCommand(view.id, 'delete', { by: cli.io.user, force: flags.force === true }),
    );
  });
}

/** `v4-8, which costs about $4.00/h`; undefined unless an ephemeral allocation may exist and is not being released. */
function heldCapacity(view: JobView): string | undefined {
  const isReleased = view.desired === 'cancelled' || view.desired === 'deleted';
  const held =
    !isReleased &&
    view.allocations.some(
      ({ ownership, state, requestedAt, releasedAt, goneAt }) =>
        ownership === 'ephemeral' &&
        state !== 'refused' &&
        requestedAt !== null &&
        releasedAt === null &&
        goneAt === null,
    );
  if (!held) return undefined;
  return view.pricePerHourUsd === null
    ? formatMachine(view)
    : `${formatMachine(view)}, which costs ${formatHourlyCost(view, view.pricePerHourUsd)}`;
}

export async function clean(cli: Cli, flags: AllFlags & GlobalFlags, ...args: readonly Ref[]): Promise<number> {
  const client = await cli.services.client();
  const cleanOne = async (ref: Ref): Promise<number> => printAnswer(cli, await client.clean(ref, cli.io.user));
  if (flags.all !== true) {
    return handleJobs(cli, flags, args, {
      isChange: true,
      worksOffline: true,
      stored: (_, refs) => forEach(cli, refs, cleanOne),
      async cluster(cluster, job) {
        const { refuseClean } = await import('../cluster/archive.ts');
        return refuseClean(cli, cluster, job);
      },
      includesHidden: true,
      async archived(archive, job) {
        const { cleanArchived } = await import('../cluster/archive.ts');
        return cleanArchived(cli, archive, job);
      },
    });
  }
  expectOnlyAll(flags, args);
  const jobs = await client.listCleanable(cli.io.user);
  const archive = await cli.services.clusterArchive();
  const archived = (await archive.jobs({})).filter(({ goneAt, job }) => goneAt !== null && job.owner === cli.io.user);
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
  let code = await forEach(cli, ids, cleanOne);
  const { cleanArchived } = await import('../cluster/archive.ts');
  for (const job of archived) code = Math.max(code, await cleanArchived(cli, archive, job));
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
      if (!(await confirmIfRequired(cli, client, id, 'Start it', `Job ${id} was not started`))) return exitCode.failed;
      const answer = await client.sendCommand(id, 'start', { by: cli.io.user, commandOnly: flags.cmdOnly === true });
      if (!answer.ok) throw new JobmanError(answer.message, answer.exitCode);
      cli.note(answer.message);
    }
    await wakeController(cli, client);
    const after = attempts.at(-1)?.endedAt === null ? undefined : attempts.length;
    return followToEnd(cli, client, id, signal, false, after);
  });
}
