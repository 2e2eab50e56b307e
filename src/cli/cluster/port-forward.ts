import type { PortForwardFlags } from '../table/flags.ts';
import type { Cluster, ClusterJob, ClusterPod } from '../../app/cluster/cluster.ts';
import { clusterPhase, isClusterFinished } from '../../app/cluster/job-result.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { second, type Duration } from '../../core/model/time.ts';
import { printError, type Cli } from '../context.ts';
import { forwardPorts, type PortMapping } from '../hosts/forwarded-ports.ts';
import { pause } from '../interrupt.ts';
import { runningPods } from './pods.ts';

const pollInterval: Duration = 2 * second;

/** Runs until the user leaves (130), or until the job has finished and has no running pod (1). */
export async function forwardToPod(
  cli: Cli,
  cluster: Cluster,
  job: ClusterJob,
  mappings: readonly PortMapping[],
  flags: PortForwardFlags,
): Promise<number> {
  const wanted = flags.pod ?? (flags.worker === undefined ? undefined : String(flags.worker));
  const first = await currentPod(cli, cluster, job, wanted);
  let pod: ClusterPod | undefined = first;
  return forwardPorts(cli, mappings, flags.address, {
    name: first.name,
    facts: { job: job.name, worker: first.index, pod: first.name },
    async connect(port) {
      const tunnel = pod === undefined ? undefined : await cluster.tunnel(pod.name, port);
      if (tunnel !== undefined && !('problem' in tunnel)) return tunnel;
      return `${job.name} is not reached: ${tunnel?.problem ?? 'it has no pod that runs now'}`;
    },
    async waitUntilEnd(signal, moved) {
      let isLost = false;
      while (!signal.aborted) {
        await pause(pollInterval, signal);
        if (signal.aborted) break;
        try {
          const now = await cluster.job(job.name);
          if (now === null || now.uid !== job.uid) {
            return printError(cli, `${job.name} is no longer in the cluster.`, exitCode.failed, { job: job.name });
          }
          const next = await currentPod(cli, cluster, now, wanted).catch((error: unknown) => {
            if (!(error instanceof JobmanError) || error.code === exitCode.unreachable) throw error;
            return undefined;
          });
          if (isLost) cli.note('The cluster answers again.');
          isLost = false;
          if (next === undefined && isClusterFinished(now)) {
            return printError(
              cli,
              `${job.name} has finished (${clusterPhase(now)}) and has no running pod any more.`,
              exitCode.failed,
              {
                job: job.name,
              },
            );
          }
          if (next?.uid === pod?.uid) continue;
          moved();
          if (next === undefined) {
            cli.note(
              `${job.name} has lost its pod (${clusterPhase(now)}); it is connected again when another one runs.`,
            );
          } else cli.note(`${job.name} is connected to its pod ${next.name}.`);
          pod = next;
        } catch (error) {
          if (!(error instanceof JobmanError) || error.code !== exitCode.unreachable) throw error;
          if (!isLost) cli.note(`${error.message} Still trying.`);
          isLost = true;
        }
      }
      return exitCode.interrupted;
    },
  });
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
