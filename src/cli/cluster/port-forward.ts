// Port forwarding to a pod. A broken tunnel costs one connection; a new connection goes to the job's current pod.

import type { Server, Socket } from 'node:net';
import type { Cluster, ClusterJob, ClusterPod } from '../../app/cluster/cluster.ts';
import { clusterPhase, isClusterFinished } from '../../app/cluster/job-result.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { second, type Duration } from '../../core/model/time.ts';
import { printError, type Cli } from '../context.ts';
import {
  formatUrl,
  joinSockets,
  listen,
  loopbackAddress,
  formatReachability,
  type PortMapping,
} from '../hosts/forwarded-ports.ts';
import { abortOnSignal, pause } from '../interrupt.ts';
import { escapeLine } from '../../app/format.ts';
import type { ContextFlags } from './resolve-jobs.ts';
import { runningPods } from './pods.ts';

export interface PortForwardFlags extends ContextFlags {
  readonly worker?: number | undefined;
  readonly pod?: string | undefined;
  readonly address?: string | undefined;
  readonly jobName?: string | undefined;
}

const pollInterval: Duration = 2 * second;

/** Runs until the user leaves (130), or until the job has finished and has no running pod (1). */
export async function forwardToPod(
  cli: Cli,
  cluster: Cluster,
  job: ClusterJob,
  mappings: readonly PortMapping[],
  flags: PortForwardFlags,
): Promise<number> {
  const { address = loopbackAddress } = flags;
  const wanted = flags.pod ?? (flags.worker === undefined ? undefined : String(flags.worker));
  const sockets = new Set<Socket>();
  const servers: Server[] = [];
  const reported = new Set<string>();
  const { signal, release } = abortOnSignal(cli);
  let pod: ClusterPod | undefined = await currentPod(cli, cluster, job, wanted);

  /** A browser retries, so print each sentence once. */
  const complainOnce = (sentence: string): void => {
    if (!reported.has(sentence) && !signal.aborted) cli.printStderr(escapeLine(sentence));
    reported.add(sentence);
  };

  async function join(socket: Socket, remotePort: number): Promise<void> {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => sockets.delete(socket));
    const name = pod?.name;
    const tunnel = name === undefined ? undefined : await cluster.tunnel(name, remotePort);
    if (tunnel === undefined || 'problem' in tunnel) {
      socket.destroy();
      complainOnce(`${job.name} is not reached: ${tunnel?.problem ?? 'it has no pod that runs now'}`);
      return;
    }
    tunnel.on('error', (error) => {
      socket.destroy();
      complainOnce(`Port ${remotePort} of ${name}: ${error.message}`);
    });
    tunnel.once('data', () => reported.clear());
    joinSockets(socket, tunnel);
  }

  try {
    for (const mapping of mappings) {
      const { server, port } = await listen(mapping, address, (socket) => void join(socket, mapping.remotePort));
      servers.push(server);
      if (cli.json)
        cli.printJson({
          job: job.name,
          worker: pod.index,
          pod: pod.name,
          localPort: port,
          remotePort: mapping.remotePort,
        });
      else cli.print(`${formatUrl(address, port)} leads to port ${mapping.remotePort} of ${pod.name}`);
    }
    cli.note(formatReachability(address));
    return await waitUntilEnd();
  } finally {
    release();
    for (const server of servers) server.close();
    for (const socket of sockets) socket.destroy();
  }

  async function waitUntilEnd(): Promise<number> {
    let isLost = false;
    while (!signal.aborted) {
      await pause(pollInterval, signal);
      if (signal.aborted) break;
      try {
        const now = await cluster.job(job.name);
        if (now === null || now.uid !== job.uid) {
          return printError(cli, `${job.name} is no longer in the cluster.`);
        }
        const next = await currentPod(cli, cluster, now, wanted).catch((error: unknown) => {
          if (!(error instanceof JobmanError) || error.code === exitCode.unreachable) throw error;
          return undefined;
        });
        if (isLost) cli.note('The cluster answers again.');
        isLost = false;
        if (next === undefined && isClusterFinished(now)) {
          return printError(cli, `${job.name} has finished (${clusterPhase(now)}) and has no running pod any more.`);
        }
        if (next?.uid === pod?.uid) continue;
        // Connections to the old pod get no more data.
        for (const socket of sockets) socket.destroy();
        reported.clear();
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

async function currentPod(
  cli: Cli,
  cluster: Cluster,
  job: ClusterJob,
  wanted: string | undefined,
): Promise<ClusterPod> {
  const [first] = await runningPods(cli, cluster, job, { pod: wanted });
  if (first === undefined) throw new Error('a choice of pods has one at least');
  return first.pod;
}
