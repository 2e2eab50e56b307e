// start, stop, resume, rerun, cancel: the owner's words. What each does is decided behind the Client.

import type { AskOptions, Client, Ref } from '../../app/client.ts';
import type { ClusterVerb } from '../../app/cluster/client.ts';
import { exitCode } from '../../app/errors.ts';
import type { Verb } from '../../core/ask.ts';
import { onEither, type PlaceFlags } from '../cluster/either.ts';
import { forEach, sayAnswer, type Cli, type GlobalFlags } from '../context.ts';
import { wake } from '../controller.ts';
import { isGranted } from '../granted.ts';

export interface AskFlags extends PlaceFlags {
  readonly jobName?: string | undefined;
}

type Flags = AskFlags & GlobalFlags;

export async function start(cli: Cli, flags: Flags, ...args: readonly Ref[]): Promise<number> {
  return askEach(cli, 'start', flags, args, {});
}

export async function stop(
  cli: Cli,
  flags: Flags & { readonly release?: boolean | undefined },
  ...args: readonly Ref[]
): Promise<number> {
  return askEach(cli, 'stop', flags, args, { release: flags.release === true });
}

export async function resume(
  cli: Cli,
  flags: Flags & { readonly workdir?: boolean | undefined },
  ...args: readonly Ref[]
): Promise<number> {
  return askEach(cli, 'resume', flags, args, { workdirAnew: flags.workdir === true });
}

export async function rerun(cli: Cli, flags: Flags, ...args: readonly Ref[]): Promise<number> {
  return askEach(cli, 'rerun', flags, args, {});
}

export async function cancel(cli: Cli, flags: Flags, ...args: readonly Ref[]): Promise<number> {
  return askEach(cli, 'cancel', flags, args, {});
}

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
      begins[verb] &&
      !(await isGranted(cli, client, ref, `Let job ${ref} ${verb}`, `Job ${ref} was left as it is`))
    ) {
      return exitCode.failed;
    }
    return askOne(cli, client, ref, verb, options);
  });
}

/** Verbs that may request capacity. */
const begins: Readonly<Record<Verb, boolean>> = {
  start: true,
  resume: true,
  rerun: true,
  stop: false,
  cancel: false,
  delete: false,
  last: false,
  judge: false,
};

/** Asks several jobs, and wakes the controller once if any of them took the word. */
export async function askAll(
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

/** Asks one job and says its answer; resolves with the exit code of that answer. */
export async function askOne(
  cli: Cli,
  client: Client,
  ref: Ref,
  verb: Verb,
  options: Omit<AskOptions, 'by'>,
): Promise<number> {
  return sayAnswer(cli, await client.ask(ref, verb, { by: cli.io.user, ...options }));
}
