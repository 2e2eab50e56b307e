// Port-forward to a pod: each connection here goes over a line of its own, so a line that is lost costs the connections that
// went over it and no more. Where the job has another pod meanwhile, the next connection goes there.

import type { Server, Socket } from 'node:net';
import type { Cluster, ClusterJob, ClusterPod } from '../../app/cluster/cluster.ts';
import { clusterPhase, isClusterSettled } from '../../app/cluster/verdict.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { second, type Duration } from '../../core/time.ts';
import type { Cli } from '../context.ts';
import { addressText, joinSockets, listen, loopback, whoReaches, type Way } from '../hosts/forwarded-ports.ts';
import { leaveOnSignal, pause } from '../leave.ts';
import { inertWord } from '../../app/figures.ts';
import type { PlaceFlags } from './either.ts';
import { podsAtHand } from './pods.ts';

export interface PortForwardFlags extends PlaceFlags {
  readonly worker?: number | undefined;
  readonly pod?: string | undefined;
  readonly address?: string | undefined;
  readonly jobName?: string | undefined;
}

const lookEvery: Duration = 2 * second;

/** Goes on until the reader leaves (130), or until the job is over and has no pod that runs (1). */
export async function forwardToPod(
  cli: Cli,
  cluster: Cluster,
  job: ClusterJob,
  ways: readonly Way[],
  flags: PortForwardFlags,
): Promise<number> {
  const { address = loopback } = flags;
  const wanted = flags.pod ?? (flags.worker === undefined ? undefined : String(flags.worker));
  const sockets = new Set<Socket>();
  const servers: Server[] = [];
  const said = new Set<string>();
  const { signal, release } = leaveOnSignal(cli);
  let pod: ClusterPod | undefined = await podNow(cli, cluster, job, wanted);

  /** A browser tries again and again. */
  const complainOnce = (sentence: string): void => {
    if (!said.has(sentence) && !signal.aborted) cli.complain(inertWord(sentence));
    said.add(sentence);
  };

  async function join(socket: Socket, there: number): Promise<void> {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => sockets.delete(socket));
    const name = pod?.name;
    const tunnel = name === undefined ? undefined : await cluster.tunnel(name, there);
    if (tunnel === undefined || 'problem' in tunnel) {
      socket.destroy();
      complainOnce(`${job.name} is not reached: ${tunnel?.problem ?? 'it has no pod that runs now'}`);
      return;
    }
    tunnel.on('error', (error) => {
      socket.destroy();
      complainOnce(`Port ${there} of ${name}: ${error.message}`);
    });
    tunnel.once('data', () => said.clear());
    joinSockets(socket, tunnel);
  }

  try {
    for (const way of ways) {
      const { server, port } = await listen(way, address, (socket) => void join(socket, way.there));
      servers.push(server);
      if (cli.json) cli.print(JSON.stringify({ job: job.name, pod: pod.name, here: port, there: way.there }));
      else cli.print(`${addressText(address, port)} leads to port ${way.there} of ${pod.name}`);
    }
    cli.note(whoReaches(address));
    return await untilOver();
  } finally {
    release();
    for (const server of servers) server.close();
    for (const socket of sockets) socket.destroy();
  }

  async function untilOver(): Promise<number> {
    let isLost = false;
    while (!signal.aborted) {
      await pause(lookEvery, signal);
      if (signal.aborted) break;
      try {
        const now = await cluster.job(job.name);
        if (now === null || now.uid !== job.uid) {
          cli.complain(`${job.name} is not in the cluster any more.`);
          return exitCode.failed;
        }
        const next = await podNow(cli, cluster, now, wanted).catch((error: unknown) => {
          if (!(error instanceof JobmanError) || error.code === exitCode.unreachable) throw error;
          return undefined;
        });
        if (isLost) cli.note('The cluster answers again.');
        isLost = false;
        if (next === undefined && isClusterSettled(now)) {
          cli.complain(`${job.name} has ended (${clusterPhase(now)}) and has no pod that runs any more.`);
          return exitCode.failed;
        }
        if (next?.uid === pod?.uid) continue;
        // Connections to the old pod get no more data.
        for (const socket of sockets) socket.destroy();
        said.clear();
        if (next === undefined) {
          cli.note(`${job.name} has lost its pod (${clusterPhase(now)}); it is connected again when another one runs.`);
        } else cli.note(`${job.name} is connected to its pod ${next.name}.`);
        pod = next;
      } catch (error) {
        if (!(error instanceof JobmanError) || error.code !== exitCode.unreachable) throw error;
        if (!isLost) cli.note(`${error.message} Still trying.`);
        isLost = true;
      }
    }
    return exitCode.interrupted;
  }
}

async function podNow(cli: Cli, cluster: Cluster, job: ClusterJob, wanted: string | undefined): Promise<ClusterPod> {
  const [first] = await podsAtHand(cli, cluster, job, { pod: wanted });
  if (first === undefined) throw new Error('a choice of pods has one at least');
  return first.pod;
}
