import type { ExecFlags } from '../table/flags.ts';
import type { Client, JobView } from '../../app/client.ts';
import { usageError } from '../../app/errors.ts';
import { handleJobs } from '../cluster/resolve-jobs.ts';
import { type Cli, type GlobalFlags, splitRef } from '../context.ts';
import { selectWorkers, parseProgram, runOnWorkers } from '../hosts/run-on-workers.ts';

export async function exec(cli: Cli, flags: ExecFlags & GlobalFlags, ...args: readonly string[]): Promise<number> {
  const { refs, rest } = splitRef(args, flags.jobName);
  return handleJobs(cli, flags, refs, {
    needsWorkers: true,
    stored: (client, [ref = '']) => execOnWorkers(cli, client, ref, rest, flags),
    async cluster(cluster, job) {
      const { execInPods } = await import('../cluster/exec.ts');
      return execInPods(cli, cluster, job, rest, flags);
    },
  });
}

async function execOnWorkers(
  cli: Cli,
  client: Client,
  ref: string,
  args: readonly string[],
  flags: ExecFlags,
): Promise<number> {
  const view = await client.show(ref);
  const program = parseProgram(args, view.id);
  refuseClusterFlags(flags, view.id);
  if (flags.inContainer === true) expectContainer(view);
  const access = await cli.services.workers(view.id, 'shared');
  try {
    const workers = selectWorkers(flags.workers, access.workers, view.id);
    if (flags.stdin === true && workers.length !== 1) {
      throw usageError(
        `--stdin goes to one worker, and this command runs on ${workers.length}: choose one with --workers.`,
      );
    }
    return await runOnWorkers(cli, access, { workers, program, flags });
  } finally {
    access.close();
  }
}

function refuseClusterFlags({ tty, container, pod }: ExecFlags, id: string): void {
  if (tty === true) {
    throw usageError(`--tty needs a job in a cluster. A shell on a worker: jobman ssh ${id}`);
  }
  const unsupported = container === undefined ? (pod === undefined ? undefined : '--pod') : '--container';
  if (unsupported === undefined) return;
  const instead = unsupported === '--pod' ? 'a TPU has workers: --workers' : "the job's own is --in-container";
  throw usageError(`${unsupported} needs a job in a cluster; ${instead}.`);
}

function expectContainer({ id, spec }: JobView): void {
  if (spec.steps.some(({ name }) => name === 'docker')) return;
  throw usageError(`Job ${id} runs in no container; remove --in-container.`);
}
