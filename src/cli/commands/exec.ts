// exec: one command on many workers of a job, or pods of a job of a cluster, at once.

import type { ExecFlags } from '../cluster/exec.ts';
import type { Client, JobView } from '../../app/client.ts';
import { usageError } from '../../app/errors.ts';
import { onEither } from '../cluster/either.ts';
import { type Cli, type GlobalFlags, refAndWords } from '../context.ts';
import { chosenWorkers, programOf, runOn } from '../hosts/run-on.ts';

export async function exec(cli: Cli, flags: ExecFlags & GlobalFlags, ...args: readonly string[]): Promise<number> {
  const { refs, words } = refAndWords(args, flags.jobName);
  return onEither(cli, flags, refs, {
    record: (client, [ref = '']) => execOnWorkers(cli, client, ref, words, flags),
    async cluster(cluster, job) {
      const { execInPods } = await import('../cluster/exec.ts');
      return execInPods(cli, cluster, job, words, flags);
    },
  });
}

async function execOnWorkers(
  cli: Cli,
  client: Client,
  ref: string,
  words: readonly string[],
  flags: ExecFlags,
): Promise<number> {
  const view = await client.show(ref);
  const program = programOf(words, view.id);
  refuseOfClusters(flags, view.id);
  if (flags.inContainer === true) expectContainer(view);
  const door = await cli.services.workers(view.id, 'shared');
  try {
    const workers = chosenWorkers(flags.workers, door.workers, view.id);
    if (flags.stdin === true && workers.length !== 1) {
      throw usageError(`--stdin goes to one worker, and ${workers.length} are meant: say which with --workers.`);
    }
    return await runOn(cli, door, { workers, program, flags });
  } finally {
    door.close();
  }
}

function refuseOfClusters({ tty, container, pod }: ExecFlags, id: string): void {
  if (tty === true) {
    throw usageError(`--tty is for a job of a cluster. A shell on a worker: jobman ssh ${id}`);
  }
  const stray = container === undefined ? (pod === undefined ? undefined : '--pod') : '--container';
  if (stray === undefined) return;
  const instead = stray === '--pod' ? 'a TPU has workers: --workers' : "the job's own is --in-container";
  throw usageError(`${stray} is for a job of a cluster; ${instead}.`);
}

function expectContainer({ id, spec }: JobView): void {
  if (spec.steps.some(({ name }) => name === 'docker')) return;
  throw usageError(`Job ${id} runs in no container; leave out --in-container.`);
}
