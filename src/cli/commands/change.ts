import type { CommandResult, CommandOptions, Client, JobView, Ref } from '../../app/client.ts';
import type { ClusterVerb } from '../../app/cluster/commands.ts';
import { formatHourlyCost } from '../../app/phrases.ts';
import { exitCode, JobmanError, usageError } from '../../app/errors.ts';
import { handleJobs, type ContextFlags } from '../cluster/resolve-jobs.ts';
import { type Cli, forEach, type GlobalFlags, refsOf, printAnswer } from '../context.ts';
import { wakeController } from '../controller.ts';
import { untilInterrupted } from '../interrupt.ts';
import { confirm, confirmIfRequired } from '../prompt.ts';
import type { Verb } from '../../core/decide/commands.ts';

interface CommandFlags extends ContextFlags {
  readonly jobName?: string | undefined;
}

const createCommand =
  <Own extends object>(verb: ClusterVerb, optionsOf: (flags: Own) => Omit<CommandOptions, 'by'> = () => ({})) =>
  (cli: Cli, flags: CommandFlags & GlobalFlags & Own, ...args: readonly Ref[]): Promise<number> =>
    runVerb(cli, verb, flags, args, optionsOf(flags));

export const start = createCommand('start');
export const stop = createCommand('stop', ({ release }: { readonly release?: boolean | undefined }) => ({
  release: release === true,
}));
export const resume = createCommand('resume', ({ workdir }: { readonly workdir?: boolean | undefined }) => ({
  recopyWorkdir: workdir === true,
}));
export const rerun = createCommand('rerun');
export const cancel = createCommand('cancel');

async function runVerb(
  cli: Cli,
  verb: ClusterVerb,
  flags: CommandFlags,
  args: readonly Ref[],
  options: Omit<CommandOptions, 'by'>,
): Promise<number> {
  return handleJobs(cli, flags, args, {
    isChange: true,
    stored: (client, refs) => runStoredVerb(cli, client, verb, refs, options),
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
}

async function runStoredVerb(
  cli: Cli,
  client: Client,
  verb: Verb,
  refs: readonly Ref[],
  options: Omit<CommandOptions, 'by'>,
): Promise<number> {
  return runForEach(cli, client, refs, async (ref) => {
    if (
      startingVerbs.includes(verb) &&
      !(await confirmIfRequired(cli, client, ref, `Let job ${ref} ${verb}`, `Job ${ref} was left as it is`))
    ) {
      return exitCode.failed;
    }
    return printAnswer(cli, await client.sendCommand(ref, verb, { by: cli.io.user, ...options }));
  });
}

const startingVerbs: readonly Verb[] = ['start', 'resume', 'rerun'];

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

interface DeleteFlags extends CommandFlags {
  readonly force?: boolean | undefined;
  readonly all?: boolean | undefined;
  readonly own?: boolean | undefined;
}

export async function deleteJobs(cli: Cli, flags: DeleteFlags & GlobalFlags, ...args: readonly Ref[]): Promise<number> {
  if (flags.all === true) {
    if (args.length > 0 || flags.jobName !== undefined) {
      throw usageError('--all means every job of the namespace; a job beside it says nothing.');
    }
    const { deleteAllJobs } = await import('../cluster/verbs.ts');
    return deleteAllJobs(cli, flags);
  }
  if (flags.own === true) {
    throw usageError('--own goes with --all: only those jobs of the namespace that are yours.');
  }
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
      const question = `${view.id} ${view.name} holds ${held}. End its program, release it and delete the job?`;
      const refused = `${view.id} ${view.name} holds ${held}; it was not deleted.`;
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
    ? view.accelerator
    : `${view.accelerator}, which costs ${formatHourlyCost(view, view.pricePerHourUsd)}`;
}

interface CleanFlags extends ContextFlags {
  readonly all?: boolean | undefined;
  readonly jobName?: string | undefined;
}

export async function clean(cli: Cli, flags: CleanFlags & GlobalFlags, ...args: readonly Ref[]): Promise<number> {
  const client = await cli.services.client();
  const worstOf = (answers: readonly CommandResult[]): number =>
    Math.max(exitCode.ok, ...answers.map((answer) => printAnswer(cli, answer)));
  const cleanOne = async (ref: Ref): Promise<number> => worstOf(await client.clean(ref, cli.io.user));
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
  if (args.length > 0 || flags.jobName !== undefined) throw usageError('Say jobs or --all, not both.');
  const question = 'Remove the logs and copies of all your settled jobs?';
  if (await confirm(cli, question, 'Nothing was removed.')) {
    const answers = await client.clean(null, cli.io.user);
    const worst = worstOf(answers);
    const archive = await cli.services.clusterArchive();
    const archived = (await archive.jobs({})).filter(({ goneAt, job }) => goneAt !== null && job.owner === cli.io.user);
    if (answers.length === 0 && archived.length === 0) cli.note('No settled job of yours has files left.');
    if (archived.length === 0) return worst;
    const { cleanArchived } = await import('../cluster/archive.ts');
    let code = worst;
    for (const job of archived) code = Math.max(code, await cleanArchived(cli, archive, job));
    return code;
  }
  cli.note('Nothing was removed.');
  return exitCode.failed;
}

interface RunFlags {
  readonly cmdOnly?: boolean | undefined;
  readonly jobName?: string | undefined;
}

/** Only follows a job that runs already. --cmd-only starts the command on the workers that the job holds ready. */
export async function runJob(cli: Cli, flags: RunFlags & GlobalFlags, ...refs: readonly string[]): Promise<number> {
  if (cli.argsAfterDash.length > 0)
    throw usageError('`jobman run` runs a job that exists, and takes no program.', [
      `For a new job, write \`${cli.argsAfterDash.join(' ')}\` as command.cmd of a manifest: jobman create train.yaml`,
      'In a Kubernetes cluster: jobman submit -i IMAGE -- PROGRAM',
    ]);
  const client = await cli.services.client();
  const [only, second] = await refsOf(client, refs, flags.jobName);
  if (only === undefined || second !== undefined) throw usageError('Run one job at a time.');
  const [{ followToEnd }, { id, desired, phase, attempts }] = await Promise.all([
    import('../follow/follow.ts'),
    client.show(only),
  ]);
  const isUnderWay = desired === 'running' && phase !== 'succeeded' && phase !== 'failed';
  return untilInterrupted(cli, async (signal) => {
    if (!isUnderWay || flags.cmdOnly === true) {
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
