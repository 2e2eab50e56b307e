// port-forward: ports of this machine that lead to ports of a worker, wherever the job is moved meanwhile.

import { createServer, type Server, type Socket } from 'node:net';
import type { Client, JobView } from '../../app/client.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { noSuchWorker, type WorkerDoor } from '../../app/by-hand.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { leaveOnSignal, pause } from '../leave.ts';
import { jobAndWords } from '../hosts/choose.ts';
import { inertWord } from '../render/inert.ts';
import { isSettled } from '../settled.ts';

export interface PortForwardFlags {
  readonly worker: number | undefined;
  readonly jobName: string | undefined;
}

/** From a port here, 0 for any that is free, to a port there. */
interface Way {
  readonly here: number;
  readonly there: number;
}

const lookEvery = 1_000;

export async function portForward(
  cli: Cli,
  flags: PortForwardFlags & GlobalFlags,
  ...args: readonly string[]
): Promise<number> {
  const client = await cli.services.client();
  const { view, words } = await jobAndWords(client, args, flags.jobName);
  if (words.length === 0)
    throw new JobmanError(`Which port? For TensorBoard: jobman port-forward ${view.id} 6006`, exitCode.usage);
  const ways = words.map(parseWay);
  const forward = createForward(cli, view.id, flags.worker ?? 0);
  const servers: Server[] = [];
  const { signal, release } = leaveOnSignal(cli);
  try {
    await forward.reach();
    for (const way of ways) {
      const { server, port } = await listen(way, (socket) => void forward.join(socket, way.there));
      servers.push(server);
      if (cli.json)
        cli.print(JSON.stringify({ job: view.id, worker: flags.worker ?? 0, here: port, there: way.there }));
      else
        cli.print(`http://127.0.0.1:${port} leads to port ${way.there} of worker ${flags.worker ?? 0} of ${view.id}`);
    }
    cli.note('Only this machine can reach it. Ctrl-C ends it; the job goes on.');
    return await untilOver(cli, client, view, forward, signal);
  } finally {
    release();
    for (const server of servers) server.close();
    forward.close();
  }
}

/** `6006`, or `8080:6006`: here and there. */
function parseWay(word: string): Way {
  const [, here, there = here] = /^(\d{1,5})(?::(\d{1,5}))?$/.exec(word) ?? [];
  const way = { here: Number(here), there: Number(there) };
  if (here === undefined || way.here > 65_535 || way.there > 65_535 || way.there === 0) {
    throw new JobmanError(
      `\`${word}\` is no port: expected 6006, or 8080:6006 for port 8080 here and 6006 there.`,
      exitCode.usage,
    );
  }
  return way;
}

/** Looks after the job: where it is now, and whether it is over. Resolves with the exit code. */
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
    if (!isThere && isSettled(view)) {
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

interface Forward {
  /** Throws JobmanError when the job has no such worker now. */
  reach(): Promise<void>;
  /** Goes to the job's new machines, when it has new ones, and says so. */
  look(): Promise<void>;
  /** Joins a connection here with one there. */
  join(socket: Socket, there: number): Promise<void>;
  close(): void;
}

function createForward(cli: Cli, id: string, worker: number): Forward {
  const sockets = new Set<Socket>();
  const said = new Set<string>();
  let door: WorkerDoor | undefined;

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
      // What was joined to the old machine will hear no more of it.
      for (const socket of sockets) socket.destroy();
      said.clear();
      cli.note(`${id} has new machines; it is connected to worker ${worker} of allocation ${next.allocation}.`);
    }
  }

  return {
    reach,
    async look() {
      try {
        await reach();
      } catch (error) {
        // Lost again in the moment between the two looks.
        if (!(error instanceof JobmanError) || error.code !== exitCode.conflict) throw error;
      }
    },
    async join(socket, there) {
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
      tunnel.on('close', () => socket.destroy());
      socket.on('close', () => tunnel.destroy());
      if (socket.destroyed) tunnel.destroy();
      socket.pipe(tunnel).pipe(socket);
    },
    close() {
      for (const socket of sockets) socket.destroy();
      door?.close();
    },
  };
}

/** On the loopback address only: what is forwarded is seldom meant for the whole network. */
function listen(way: Way, join: (socket: Socket) => void): Promise<{ readonly server: Server; readonly port: number }> {
  const server = createServer(join);
  return new Promise((resolve, reject) => {
    server.on('error', (error: NodeJS.ErrnoException) => {
      const why = error.code === 'EADDRINUSE' ? 'is taken by another program' : `cannot be opened: ${error.message}`;
      reject(
        new JobmanError(`Port ${way.here} of this machine ${why}.`, exitCode.conflict, [
          `Another one here: jobman port-forward <job> ${way.here + 10_000 > 65_535 ? 0 : way.here + 10_000}:${way.there}`,
        ]),
      );
    });
    server.listen(way.here, '127.0.0.1', () => {
      const address = server.address();
      resolve({ server, port: typeof address === 'object' && address !== null ? address.port : way.here });
    });
  });
}
