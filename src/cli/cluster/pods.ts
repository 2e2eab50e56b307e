import type { Cluster, ClusterTarget } from '../../app/cluster/cluster.ts';
import type { ClusterContainer, ClusterJob, ClusterPod } from '../../app/cluster/objects.ts';
import { clusterPhase, clusterResult, isClusterFinished } from '../../app/cluster/job-result.ts';
import { chooseContainer, observeJob, podsOf } from '../../app/cluster/observe-job.ts';
import { exitCode, JobmanError, usageError } from '../../app/errors.ts';
import type { Cli } from '../context.ts';
import type { ForwardTarget } from '../hosts/forwarded-ports.ts';
import type { MachineFlags, Machines } from '../hosts/machines.ts';
import type { PortForwardFlags } from '../table/flags.ts';

interface NumberedPod {
  /** Of an indexed Job its completion index, otherwise the position by age, from 0. */
  readonly number: number;
  readonly pod: ClusterPod;
}

/** Throws JobmanError (conflict) if a chosen pod or its container does not run. */
export async function openPods(cli: Cli, cluster: Cluster, job: ClusterJob, flags: MachineFlags): Promise<Machines> {
  if (flags.inContainer === true) {
    throw usageError(
      '--in-container is for a TPU job; every command in a pod runs in a container, and --container says which.',
    );
  }
  const pods = await selectPods(cli, cluster, job, flags);
  const { cwd } = cli.io;
  const targets = new Map(
    pods.map(({ number, pod }) => {
      const { name: container } = runningContainer(cli, pod, flags.container);
      return [number, { pod: pod.name, container }];
    }),
  );
  const target = (number: number): ClusterTarget => {
    const found = targets.get(number);
    if (found === undefined) throw new Error(`no pod has the number ${number}`);
    return found;
  };
  return {
    noun: 'pod',
    selected: [...targets.keys()],
    count: targets.size,
    names: new Map(pods.map(({ number, pod }) => [number, pod.name])),
    start: (number, request) => cluster.exec(target(number), { ...request, terminal: null }),
    attach: (number, request) => cluster.exec(target(number), { ...request, hasInput: true }),
    put: (number, request) => cluster.put(target(number), { ...request, cwd }),
    get: (number, request) => cluster.get(target(number), { ...request, cwd }),
    close: () => undefined,
  };
}

export async function podPortTarget(
  cli: Cli,
  cluster: Cluster,
  job: ClusterJob,
  flags: PortForwardFlags,
): Promise<ForwardTarget> {
  const wanted = flags.pod ?? (flags.worker === undefined ? undefined : String(flags.worker));
  const current = async (now: ClusterJob) => (await runningPods(cli, cluster, now, wanted))[0]?.pod;
  let pod = await current(job);
  const name = pod?.name ?? job.name;
  return {
    name,
    job: job.name,
    facts: { job: job.name, worker: pod?.index ?? null, pod: name },
    async connect(port) {
      const tunnel = pod === undefined ? undefined : await cluster.tunnel(pod.name, port);
      if (tunnel !== undefined && !('problem' in tunnel)) return tunnel;
      return `Job ${job.name} cannot be reached: ${tunnel?.problem ?? 'it has no running pod'}`;
    },
    async check() {
      const now = await cluster.job(job.name);
      if (now === null || now.uid !== job.uid) return { kind: 'deleted' };
      const next = await current(now).catch((error: unknown) => {
        if (!(error instanceof JobmanError) || error.code === exitCode.unreachable) throw error;
        return undefined;
      });
      if (next !== undefined && next.uid === pod?.uid) return { kind: 'same' };
      pod = next;
      if (next !== undefined) return { kind: 'moved', to: `pod ${next.name}` };
      const phase = clusterPhase(now);
      return isClusterFinished(now) ? { kind: 'finished', phase } : { kind: 'none', phase };
    },
    close: () => undefined,
  };
}

/** By number, the newest of each. Throws JobmanError (conflict) if the chosen pod does not run. */
async function runningPods(
  cli: Cli,
  cluster: Cluster,
  job: ClusterJob,
  wanted: string | undefined,
): Promise<readonly NumberedPod[]> {
  const all = numberPods(await podsOf(cluster, job));
  const why = async (): Promise<string> => clusterResult(await observeJob(cluster, job), { now: cli.io.now() }).message;
  if (wanted === undefined) {
    const running = all.filter(({ pod }) => isRunning(pod));
    if (running.length > 0) return running;
    throw new JobmanError(`Job ${job.name} has no running pod. ${await why()}`, exitCode.conflict);
  }
  const found = all.find(({ number, pod }) =>
    /^\d{1,6}$/.test(wanted) ? number === Number(wanted) : pod.name === wanted || pod.name.endsWith(`-${wanted}`),
  );
  if (found === undefined) {
    const names = all.map(({ number, pod }) => `${number} (${pod.name})`).join(', ');
    throw new JobmanError(
      `Job ${job.name} has no pod ${wanted}; it has ${names === '' ? `none. ${await why()}` : `${names}.`}`,
      exitCode.notFound,
    );
  }
  if (isRunning(found.pod)) return [found];
  const { name, phase, reason, deleting } = found.pod;
  const state = deleting ? 'being deleted' : phase + (reason === null ? '' : ` (${reason})`);
  throw new JobmanError(`The pod ${name} is not running: it is ${state}. ${await why()}`, exitCode.conflict);
}

/** Throws JobmanError (conflict) if a pod of `--pod` or `--workers` does not run. */
async function selectPods(
  cli: Cli,
  cluster: Cluster,
  job: ClusterJob,
  { pod: named, workers }: MachineFlags,
): Promise<readonly NumberedPod[]> {
  if (named !== undefined && workers !== undefined) {
    throw new JobmanError('--pod and --workers both select pods; use only one of the two.', exitCode.usage);
  }
  const pods = await runningPods(cli, cluster, job, named);
  if (workers === undefined || workers === 'all') return pods;
  const found = pods.filter(({ number }) => workers.some(([from, to]) => from <= number && number <= to));
  const missing = workers.find(([from, to]) => !found.some(({ number }) => from <= number && number <= to));
  if (missing === undefined) return found;
  const numbers = pods.map(({ number }) => number).join(', ');
  throw new JobmanError(`No pod ${missing[0]} of ${job.name} runs; these do: ${numbers}.`, exitCode.conflict);
}

function numberPods(pods: readonly ClusterPod[]): readonly NumberedPod[] {
  const newest = new Map(pods.map((pod, index) => [pod.index ?? index, pod]));
  return [...newest].map(([number, pod]) => ({ number, pod })).toSorted((one, other) => one.number - other.number);
}

function isRunning({ phase, deleting }: ClusterPod): boolean {
  return phase === 'Running' && !deleting;
}

/** Throws JobmanError: not found for an unknown name, conflict for a container that does not run. */
function runningContainer(cli: Cli, pod: ClusterPod, named: string | undefined): ClusterContainer {
  const { container: found, note } = chooseContainer(pod, named);
  if (note !== null) cli.note(note);
  if (found.state === 'running') return found;
  const why = found.reason === null ? '' : ` (${found.reason})`;
  throw new JobmanError(
    `The container ${found.name} of ${pod.name} is not running: it is ${found.state}${why}.`,
    exitCode.conflict,
  );
}
