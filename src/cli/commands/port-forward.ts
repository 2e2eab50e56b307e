import type { PortForwardFlags } from '../table/flags.ts';
import type { Client, JobView } from '../../app/client.ts';
import { exitCode, JobmanError, usageError } from '../../app/errors.ts';
import { workerNotFound, type WorkerAccess } from '../../app/worker-access.ts';
import { handleJobs } from '../cluster/resolve-jobs.ts';
import { type Cli, type GlobalFlags, splitRef, printError } from '../context.ts';
import { pause } from '../interrupt.ts';
import { forwardPorts, parsePortMapping, type PortMapping } from '../hosts/forwarded-ports.ts';
import { isFinishedPhase } from '../../core/decide/phase.ts';

const pollInterval = 1_000;

export async function portForward(
  cli: Cli,
  flags: PortForwardFlags & GlobalFlags,
  ...args: readonly string[]
): Promise<number> {
  const { refs, rest } = splitRef(args, flags.jobName);
  return handleJobs(cli, flags, refs, {
    needsWorkers: true,
    async stored(client, [ref = '']) {
      const view = await client.show(ref);
      if (flags.pod !== undefined) {
        throw usageError('--pod needs a job in a cluster; a TPU has workers: --worker.');
      }
      return forwardToWorker(cli, client, view, parseMappings(rest, view.id), flags);
    },
    async cluster(cluster, job) {
      const { forwardToPod } = await import('../cluster/port-forward.ts');
      return forwardToPod(cli, cluster, job, parseMappings(rest, job.name), flags);
    },
  });
}

function parseMappings(args: readonly string[], id: string): readonly PortMapping[] {
  if (args.length === 0) throw usageError(`Which port? For TensorBoard: jobman port-forward ${id} 6006`);
  return args.map(parsePortMapping);
}

async function forwardToWorker(
  cli: Cli,
  client: Client,
  { id }: JobView,
  mappings: readonly PortMapping[],
  { worker = 0, address }: PortForwardFlags,
): Promise<number> {
  /** Throws JobmanError if the job does not have this worker now. */
  async function openWorkers(): Promise<WorkerAccess> {
    const next = await cli.services.workers(id, 'own');
    if (next.workers.includes(worker)) return next;
    next.close();
    throw workerNotFound(id, worker, next.workers.length);
  }

  let access = await openWorkers();

  /** True after the connection to the job's new machines. */
  async function followMachines(): Promise<boolean> {
    const next = await openWorkers().catch((error: unknown) => {
      // The machines disappeared between the two checks.
      if (error instanceof JobmanError && error.code === exitCode.conflict) return null;
      throw error;
    });
    if (next === null || next.allocation === access.allocation) {
      next?.close();
      return false;
    }
    access.close();
    access = next;
    cli.note(`Job ${id} has new machines; connected to worker ${worker} of allocation ${next.allocation}.`);
    return true;
  }

  try {
    return await forwardPorts(cli, mappings, address, {
      name: `worker ${worker} of job ${id}`,
      facts: { job: id, worker, pod: null },
      async connect(port) {
        const tunnel = await access.tunnel(worker, port);
        if (!('problem' in tunnel)) return tunnel;
        return tunnel.isReached
          ? `nothing answers on port ${port} of worker ${worker} of ${id}`
          : `worker ${worker} of ${id} is not reached: ${tunnel.problem}`;
      },
      async waitUntilEnd(signal, moved) {
        let wasThere = true;
        let changes = -1;
        while (!signal.aborted) {
          await pause(pollInterval, signal);
          const now = await client.changeCount();
          if (now === changes) continue;
          changes = now;
          const { allocations, phase } = await client.show(id);
          const isThere = allocations.some(
            ({ goneAt, releasedAt, workers }) => goneAt === null && releasedAt === null && workers.length > 0,
          );
          if (!isThere && isFinishedPhase(phase)) {
            return printError(cli, `Job ${id} has finished (${phase}) and has no machines any more.`, exitCode.failed, {
              job: id,
            });
          }
          if (!isThere && wasThere)
            cli.note(`Job ${id} has no machines now (${phase}); forwarding continues on the new ones.`);
          if (isThere && (await followMachines())) moved();
          wasThere = isThere;
        }
        return exitCode.interrupted;
      },
    });
  } finally {
    access.close();
  }
}
