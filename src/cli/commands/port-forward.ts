import type { Server, Socket } from 'node:net';
import type { PortForwardFlags } from '../cluster/port-forward.ts';
import type { Client, JobView } from '../../app/client.ts';
import { exitCode, JobmanError, usageError } from '../../app/errors.ts';
import { workerNotFound, type WorkerAccess } from '../../app/worker-access.ts';
import { handleJobs } from '../cluster/resolve-jobs.ts';
import { type Cli, type GlobalFlags, splitRef, printError } from '../context.ts';
import { abortOnSignal, pause } from '../interrupt.ts';
import {
  formatUrl,
  joinSockets,
  listen,
  loopbackAddress,
  parsePortMapping,
  formatReachability,
  type PortMapping,
} from '../hosts/forwarded-ports.ts';
import { escapeLine } from '../../app/format.ts';
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
        throw usageError('--pod needs a job of a cluster; a TPU has workers: --worker.');
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
  view: JobView,
  mappings: readonly PortMapping[],
  flags: PortForwardFlags,
): Promise<number> {
  const { worker = 0, address = loopbackAddress } = flags;
  const forward = createForward(cli, view.id, worker);
  const servers: Server[] = [];
  const { signal, release } = abortOnSignal(cli);
  try {
    await forward.reach();
    for (const mapping of mappings) {
      const { server, port } = await listen(
        mapping,
        address,
        (socket) => void forward.join(socket, mapping.remotePort),
      );
      servers.push(server);
      if (cli.json) cli.printJson({ job: view.id, worker, pod: null, localPort: port, remotePort: mapping.remotePort });
      else
        cli.print(
          `${formatUrl(address, port)} forwards to port ${mapping.remotePort} of worker ${worker} of job ${view.id}`,
        );
    }
    cli.note(formatReachability(address));
    return await waitUntilEnd(cli, client, view, forward, signal);
  } finally {
    release();
    for (const server of servers) server.close();
    forward.close();
  }
}

async function waitUntilEnd(
  cli: Cli,
  client: Client,
  first: JobView,
  forward: Forward,
  signal: AbortSignal,
): Promise<number> {
  let wasThere = true;
  let changes = -1;
  while (!signal.aborted) {
    await pause(pollInterval, signal);
    const now = await client.changeCount();
    if (now === changes) continue;
    changes = now;
    const view = await client.show(first.id);
    const isThere = view.allocations.some(
      ({ goneAt, releasedAt, workers }) => goneAt === null && releasedAt === null && workers.length > 0,
    );
    if (!isThere && isFinishedPhase(view.phase)) {
      return printError(cli, `Job ${first.id} has finished (${view.phase}) and has no machines any more.`);
    }
    if (!isThere && wasThere)
      cli.note(`Job ${first.id} has no machines now (${view.phase}); forwarding continues on the new ones.`);
    if (isThere) await forward.refresh();
    wasThere = isThere;
  }
  return exitCode.interrupted;
}

type Forward = ReturnType<typeof createForward>;

function createForward(cli: Cli, id: string, worker: number) {
  const sockets = new Set<Socket>();
  const reported = new Set<string>();
  let access: WorkerAccess | undefined;

  /** Throws JobmanError if the job does not have this worker now. */
  async function reach(): Promise<void> {
    const next = await cli.services.workers(id, 'own');
    if (next.allocation === access?.allocation) {
      next.close();
      return;
    }
    const isMoved = access !== undefined;
    access?.close();
    access = next;
    if (!next.workers.includes(worker)) throw workerNotFound(id, worker, next.workers.length);
    if (isMoved) {
      // Connections to the old machine get no more data.
      for (const socket of sockets) socket.destroy();
      reported.clear();
      cli.note(`Job ${id} has new machines; connected to worker ${worker} of allocation ${next.allocation}.`);
    }
  }

  return {
    reach,
    /** Connects to the job's new machines, if it has any. */
    async refresh(): Promise<void> {
      try {
        await reach();
      } catch (error) {
        // The machines disappeared between the two checks.
        if (!(error instanceof JobmanError) || error.code !== exitCode.conflict) throw error;
      }
    },
    async join(socket: Socket, remotePort: number): Promise<void> {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => sockets.delete(socket));
      const tunnel = await access?.tunnel(worker, remotePort);
      if (tunnel === undefined || 'problem' in tunnel) {
        socket.destroy();
        const why =
          tunnel === undefined || !tunnel.isReached
            ? `worker ${worker} of ${id} is not reached: ${tunnel?.problem ?? 'it has no machines now'}`
            : `nothing answers on port ${remotePort} of worker ${worker} of ${id}`;
        // A browser retries, so print each sentence once.
        if (!reported.has(why)) cli.printStderr(escapeLine(why));
        reported.add(why);
        return;
      }
      reported.clear();
      tunnel.on('error', () => socket.destroy());
      joinSockets(socket, tunnel);
    },
    close(): void {
      for (const socket of sockets) socket.destroy();
      access?.close();
    },
  };
}
