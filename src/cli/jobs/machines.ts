import { absentError, type ClusterRecord } from '../../app/cluster/cluster-record.ts';
import type { Cluster } from '../../app/cluster/cluster.ts';
import type { ClusterJob } from '../../app/cluster/objects.ts';
import { usageError } from '../../app/errors.ts';
import type { FoundJob } from '../../app/job-source.ts';
import type { Jobs } from '../../app/jobs.ts';
import type { Cli } from '../context.ts';
import type { ForwardTarget } from '../hosts/forwarded-ports.ts';
import type { MachineFlags, Machines } from '../hosts/machines.ts';
import type { PortForwardFlags } from '../table/flags.ts';

/** The caller closes them. */
export async function openMachines(
  cli: Cli,
  jobs: Jobs,
  job: FoundJob,
  use: 'own' | 'shared',
  flags: MachineFlags,
): Promise<Machines> {
  const record = await jobs.record(job);
  if (record === null) {
    const { openWorkers } = await import('../hosts/workers.ts');
    return openWorkers(cli, job.id, use, flags);
  }
  const { openPods } = await import('../cluster/pods.ts');
  return openPods(cli, ...expectInCluster(record), flags);
}

export async function openPortTarget(
  cli: Cli,
  jobs: Jobs,
  job: FoundJob,
  flags: PortForwardFlags,
): Promise<ForwardTarget> {
  const record = await jobs.record(job);
  if (record === null) {
    const { workerPortTarget } = await import('../hosts/workers.ts');
    return workerPortTarget(cli, job.id, flags);
  }
  const { podPortTarget } = await import('../cluster/pods.ts');
  return podPortTarget(cli, ...expectInCluster(record), flags);
}

/** Opens a shell or runs a command on a worker, in this terminal. */
export async function runSsh(
  cli: Cli,
  jobs: Jobs,
  job: FoundJob,
  worker: number,
  command: readonly string[],
): Promise<number> {
  const { services } = cli;
  const record = await jobs.record(job);
  if (record === null) {
    const access = await services.workers(job.id, 'own');
    if (access.ssh === null) {
      const { openShell } = await import('../hosts/workers.ts');
      return openShell(cli, access, worker, command).finally(() => access.close());
    }
    const argv = await access.ssh.argv(worker, command).finally(() => access.close());
    return services.onTerminal(argv);
  }
  const [, { name }] = expectInCluster(record);
  throw usageError(
    `Job ${name} is in a cluster, and its pods have no ssh. Open a shell in a pod: jobman exec -j ${name} -it -- sh`,
  );
}

function expectInCluster({ found, archived, cluster, job }: ClusterRecord): [Cluster, ClusterJob] {
  if (archived !== null || cluster === null) throw absentError(found);
  return [cluster, job];
}
