// port-forward: ports of this machine that lead to ports of a worker or a pod, wherever the job is moved meanwhile.

import type { Server, Socket } from 'node:net';
import type { PortForwardFlags } from '../cluster/port-forward.ts';
import type { Client, JobView } from '../../app/client.ts';
import { exitCode, JobmanError, usageError } from '../../app/errors.ts';
import { noSuchWorker, type WorkerDoor } from '../../app/by-hand.ts';
import { onEither } from '../cluster/either.ts';
import { type Cli, type GlobalFlags, refAndWords } from '../context.ts';
import { leaveOnSignal, pause } from '../leave.ts';
import {
  addressText,
  joinSockets,
  listen,
  loopback,
  parseWay,
  whoReaches,
  type Way,
} from '../hosts/forwarded-ports.ts';
import { inertWord } from '../../app/figures.ts';
import { isSettledPhase } from '../../core/phase.ts';

const lookEvery = 1_000;

export async function portForward(
  cli: Cli,
  flags: PortForwardFlags & GlobalFlags,
  ...args: readonly string[]
): Promise<number> {
  const { refs, words } = refAndWords(args, flags.jobName);
  return onEither(cli, flags, refs, {
    async record(client, [ref = '']) {
      const view = await client.show(ref);
      if (flags.pod !== undefined) {
        throw usageError('--pod is for a job of a cluster; a TPU has workers: --worker.');
      }
      return forwardToWorker(cli, client, view, waysOf(words, view.id), flags);
    },
    async cluster(cluster, job) {
      const { forwardToPod } = await import('../cluster/port-forward.ts');
      return forwardToPod(cli, cluster, job, waysOf(words, job.name), flags);
    },
  });
}

function waysOf(words: readonly string[], id: string): readonly Way[] {
  if (words.length === 0) throw usageError(`Which port? For TensorBoard: jobman port-forward ${id} 6006`);
  return words.map(parseWay);
}

async function forwardToWorker(
  cli: Cli,
  client: Client,
  view: JobView,
  ways: readonly Way[],
  flags: PortForwardFlags,
): Promise<number> {
  const { worker = 0, address = loopback } = flags;
  const forward = createForward(cli, view.id, worker);
  const servers: Server[] = [];
  const { signal, release } = leaveOnSignal(cli);
  try {
    await forward.reach();
    for (const way of ways) {
      const { server, port } = await listen(way, address, (socket) => void forward.join(socket, way.there));
      servers.push(server);
      if (cli.json) cli.print(JSON.stringify({ job: view.id, worker, here: port, there: way.there }));
      else cli.print(`${addressText(address, port)} leads to port ${way.there} of worker ${worker} of ${view.id}`);
    }
    cli.note(whoReaches(address));
    return await untilOver(cli, client, view, forward, signal);
  } finally {
    release();
    for (const server of servers) server.close();
    forward.close();
  }
}

async function untilOver(
  cli: Cli,
  client: Client,
  first: JobView,
  forward: Forward,
  signal: AbortSignal,
): Promise<number> {
  let wasThere = true;
  let changes = -1;
  while (!signal.aborted) {
    await pause(lookEvery, signal);
    const now = await client.changes();
    if (now === changes) continue;
    changes = now;
    const view = await client.show(first.id);
    const isThere = view.allocations.some(
      ({ gone, released, workers }) => gone === null && released === null && workers.length > 0,
    );
    if (!isThere && isSettledPhase(view.phase)) {
      cli.complain(`${first.id} has ended (${view.phase}) and has no machines any more.`);
      return exitCode.failed;
    }
    if (!isThere && wasThere)
      cli.note(`${first.id} has lost its machines (${view.phase}); it is connected again when there are new ones.`);
    if (isThere) await forward.look();
    wasThere = isThere;
  }
  return exitCode.interrupted;
}

type Forward = ReturnType<typeof createForward>;

function createForward(cli: Cli, id: string, worker: number) {
  const sockets = new Set<Socket>();
  const said = new Set<string>();
  let door: WorkerDoor | undefined;

  /** Throws JobmanError when the job has no such worker now. */
  async function reach(): Promise<void> {
    const next = await cli.services.workers(id, 'own');
    if (next.allocation === door?.allocation) {
      next.close();
      return;
    }
    const isMoved = door !== undefined;
    door?.close();
    door = next;
    if (!next.workers.includes(worker)) throw noSuchWorker(id, worker, next.workers.length);
    if (isMoved) {
      // Connections to the old machine get no more data.
      for (const socket of sockets) socket.destroy();
      said.clear();
      cli.note(`${id} has new machines; it is connected to worker ${worker} of allocation ${next.allocation}.`);
    }
  }

  return {
    reach,
    /** Goes to the job's new machines, when it has new ones, and says so. */
    async look(): Promise<void> {
      try {
        await reach();
      } catch (error) {
        // Lost again in the moment between the two looks.
        if (!(error instanceof JobmanError) || error.code !== exitCode.conflict) throw error;
      }
    },
    async join(socket: Socket, there: number): Promise<void> {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => sockets.delete(socket));
      const tunnel = await door?.tunnel(worker, there);
      if (tunnel === undefined || 'problem' in tunnel) {
        socket.destroy();
        const why =
          tunnel === undefined || !tunnel.isReached
            ? `worker ${worker} of ${id} is not reached: ${tunnel?.problem ?? 'it has no machines now'}`
            : `nothing answers on port ${there} of worker ${worker} of ${id}`;
        // A browser tries again and again.
        if (!said.has(why)) cli.complain(inertWord(why));
        said.add(why);
        return;
      }
      said.clear();
      tunnel.on('error', () => socket.destroy());
      joinSockets(socket, tunnel);
    },
    close(): void {
      for (const socket of sockets) socket.destroy();
      door?.close();
    },
  };
}
