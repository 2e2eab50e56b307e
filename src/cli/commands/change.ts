// The commands that change jobs: start, stop, resume, rerun, cancel, delete, clean, run. What each does is decided behind the Client.

import type { AskAnswer, AskOptions, Client, JobView, Ref } from '../../app/client.ts';
import type { ClusterVerb } from '../../app/cluster/client.ts';
import { costText } from '../../app/phrases.ts';
import { exitCode, JobmanError, usageError } from '../../app/errors.ts';
import { onEither, type PlaceFlags } from '../cluster/either.ts';
import { type Cli, forEach, type GlobalFlags, refsOf, sayAnswer } from '../context.ts';
import { wake } from '../controller.ts';
import { untilLeft } from '../leave.ts';
import { confirm, isGranted } from '../prompt.ts';
import type { Verb } from '../../core/commands.ts';

interface AskFlags extends PlaceFlags {
  readonly jobName?: string | undefined;
}

/** The command of a verb. `optionsOf` are what its own flags add to the request. */
const asker =
  <Own extends object>(verb: ClusterVerb, optionsOf: (flags: Own) => Omit<AskOptions, 'by'> = () => ({})) =>
  (cli: Cli, flags: AskFlags & GlobalFlags & Own, ...args: readonly Ref[]): Promise<number> =>
    askEach(cli, verb, flags, args, optionsOf(flags));

export const start = asker('start');
export const stop = asker('stop', ({ release }: { readonly release?: boolean | undefined }) => ({
  release: release === true,
}));
export const resume = asker('resume', ({ workdir }: { readonly workdir?: boolean | undefined }) => ({
  workdirAnew: workdir === true,
}));
export const rerun = asker('rerun');
export const cancel = asker('cancel');

async function askEach(
  cli: Cli,
  verb: ClusterVerb,
  flags: AskFlags,
  args: readonly Ref[],
  options: Omit<AskOptions, 'by'>,
): Promise<number> {
  return onEither(cli, flags, args, {
    changes: true,
    record: (client, refs) => askRecord(cli, client, verb, refs, options),
    async cluster(cluster, job) {
      const { askCluster } = await import('../cluster/verbs.ts');
      return askCluster(cli, await cli.services.keeper(), cluster, job, verb);
    },
    async kept(keeper, job, cluster) {
      const { askKept } = await import('../cluster/verbs.ts');
      return askKept(cli, keeper, job, cluster, verb);
    },
    // The archive keeps the object, so a deleted job can be run again.
    ...(verb === 'rerun' ? { evenHidden: true } : {}),
  });
}

async function askRecord(
  cli: Cli,
  client: Client,
  verb: Verb,
  refs: readonly Ref[],
  options: Omit<AskOptions, 'by'>,
): Promise<number> {
  return askAll(cli, client, refs, async (ref) => {
    if (
      beginning.includes(verb) &&
      !(await isGranted(cli, client, ref, `Let job ${ref} ${verb}`, `Job ${ref} was left as it is`))
    ) {
      return exitCode.failed;
    }
    return sayAnswer(cli, await client.ask(ref, verb, { by: cli.io.user, ...options }));
  });
}

const beginning: readonly Verb[] = ['start', 'resume', 'rerun'];

async function askAll(
  cli: Cli,
  client: Client,
  refs: readonly Ref[],
  ask: (ref: Ref) => Promise<number>,
): Promise<number> {
  let isTaken = false;
  const code = await forEach(cli, refs, async (ref) => {
    const one = await ask(ref);
    isTaken ||= one === exitCode.ok;
    return one;
  });
  if (isTaken) await wake(cli, client);
  return code;
}

interface DeleteFlags extends AskFlags {
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
  return onEither(cli, flags, args, {
    changes: true,
    record: (client, refs) => deleteOfRecord(cli, client, refs, flags),
    async cluster(cluster, job) {
      const { deleteClusterJob } = await import('../cluster/verbs.ts');
      return deleteClusterJob(cli, cluster, job);
    },
    async kept(keeper, job, cluster) {
      const { hideKept } = await import('../cluster/kept.ts');
      return hideKept(cli, keeper, job, cluster);
    },
  });
}

async function deleteOfRecord(
  cli: Cli,
  client: Client,
  refs: readonly Ref[],
  flags: DeleteFlags & GlobalFlags,
): Promise<number> {
  return askAll(cli, client, refs, async (ref) => {
    const view = await client.show(ref);
    const held = heldBy(view);
    if (held !== undefined) {
      const question = `${view.id} ${view.name} holds ${held}. End its program, release it and delete the job?`;
      const refused = `${view.id} ${view.name} holds ${held}; it was not deleted.`;
      if (!(await confirm(cli, question, refused))) {
        cli.note(refused);
        return exitCode.failed;
      }
    }
    return sayAnswer(cli, await client.ask(view.id, 'delete', { by: cli.io.user, force: flags.force === true }));
  });
}

/**
 * `v4-8, which costs about $4.00/h`: owned capacity that may exist and that its owner has not released; undefined when there
 * is none, as while the cloud has refused every request. After `cancel` the controller releases it, whether it has begun to or not.
 */
function heldBy(view: JobView): string | undefined {
  const isReleased = view.desired === 'end' || view.desired === 'delete';
  const held =
    !isReleased &&
    view.allocations.some(
      ({ ownership, state, requested, released, gone }) =>
        ownership === 'owned' && state !== 'refused' && requested !== null && released === null && gone === null,
    );
  if (!held) return undefined;
  return view.pricePerHour === null
    ? view.accelerator
    : `${view.accelerator}, which costs ${costText(view, view.pricePerHour)}`;
}

interface CleanFlags extends PlaceFlags {
  readonly all?: boolean | undefined;
  readonly jobName?: string | undefined;
}

export async function clean(cli: Cli, flags: CleanFlags & GlobalFlags, ...args: readonly Ref[]): Promise<number> {
  const client = await cli.services.client();
  const worstOf = (answers: readonly AskAnswer[]): number =>
    Math.max(exitCode.ok, ...answers.map((answer) => sayAnswer(cli, answer)));
  const cleanOne = async (ref: Ref): Promise<number> => worstOf(await client.clean(ref, cli.io.user));
  if (flags.all !== true) {
    return onEither(cli, flags, args, {
      changes: true,
      evenAway: true,
      record: (_, refs) => forEach(cli, refs, cleanOne),
      async cluster(cluster, job) {
        const { cleanOfCluster } = await import('../cluster/kept.ts');
        return cleanOfCluster(cli, cluster, job);
      },
      evenHidden: true,
      async kept(keeper, job) {
        const { cleanKept } = await import('../cluster/kept.ts');
        return cleanKept(cli, keeper, job);
      },
    });
  }
  if (args.length > 0 || flags.jobName !== undefined) throw usageError('Say jobs or --all, not both.');
  const question = 'Remove the logs and copies of all your settled jobs?';
  if (await confirm(cli, question, 'Nothing was removed.')) {
    const answers = await client.clean(null, cli.io.user);
    const worst = worstOf(answers);
    const keeper = await cli.services.keeper();
    const kept = (await keeper.jobs({})).filter(({ goneAt, job }) => goneAt !== null && job.owner === cli.io.user);
    if (answers.length === 0 && kept.length === 0) cli.note('No settled job of yours has files left.');
    if (kept.length === 0) return worst;
    const { cleanKept } = await import('../cluster/kept.ts');
    let code = worst;
    for (const job of kept) code = Math.max(code, await cleanKept(cli, keeper, job));
    return code;
  }
  cli.note('Nothing was removed.');
  return exitCode.failed;
}

interface RunFlags {
  readonly cmdOnly?: boolean | undefined;
  readonly jobName?: string | undefined;
}

/** A job that is under way is only followed. One that is not is started, with --cmd-only on the workers it holds ready. */
export async function runJob(cli: Cli, flags: RunFlags & GlobalFlags, ...refs: readonly string[]): Promise<number> {
  if (cli.behind.length > 0)
    throw usageError('`jobman run` runs a job that exists, and takes no program.', [
      `For a new job, write \`${cli.behind.join(' ')}\` as command.cmd of a manifest: jobman create train.yaml`,
      'In a Kubernetes cluster: jobman submit -i IMAGE -- PROGRAM',
    ]);
  const client = await cli.services.client();
  const [only, second] = await refsOf(client, refs, flags.jobName);
  if (only === undefined || second !== undefined) throw usageError('Run one job at a time.');
  const [{ followToEnd }, { id, desired, phase, attempts }] = await Promise.all([
    import('../follow/follow.ts'),
    client.show(only),
  ]);
  const isUnderWay = desired === 'run' && phase !== 'succeeded' && phase !== 'failed';
  return untilLeft(cli, async (signal) => {
    if (!isUnderWay || flags.cmdOnly === true) {
      if (!(await isGranted(cli, client, id, 'Start it', `Job ${id} was not started`))) return exitCode.failed;
      const answer = await client.ask(id, 'start', { by: cli.io.user, commandOnly: flags.cmdOnly === true });
      if (!answer.ok) throw new JobmanError(answer.message, answer.code);
      cli.note(answer.message);
    }
    await wake(cli, client);
    // Output of earlier attempts is not shown.
    const after = attempts.at(-1)?.ended === null ? undefined : attempts.length;
    return followToEnd(cli, client, id, signal, false, after);
  });
}
