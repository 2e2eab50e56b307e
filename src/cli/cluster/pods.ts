// Pods at hand: those of a job that something can be done in now, and the container of each that is meant.

import type { Cluster, ClusterContainer, ClusterJob, ClusterPod, ClusterTarget } from '../../app/cluster/cluster.ts';
import { mainContainer as mainOf } from '../../app/cluster/job-object.ts';
import { clusterVerdict } from '../../app/cluster/verdict.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import type { Cli } from '../context.ts';
import type { WorkerChoice } from '../parse.ts';
import { podsOf, sightOf } from './verdict.ts';

interface PodAtHand {
  /** Of an indexed Job its own; else its place among all, from 0, by age. */
  readonly number: number;
  readonly pod: ClusterPod;
}

/** A number, a name or the end of one; without it all that run. */
export interface PodChoice {
  readonly pod?: string | undefined;
}

/** The pods that run, by their numbers, the newest of each. Throws JobmanError (conflict) when what is wanted does not run. */
export async function podsAtHand(
  cli: Cli,
  cluster: Cluster,
  job: ClusterJob,
  { pod: wanted }: PodChoice,
): Promise<readonly PodAtHand[]> {
  const all = numbered(await podsOf(cluster, job));
  const why = async (): Promise<string> => clusterVerdict(await sightOf(cluster, job), cli.io.now()).sentence;
  if (wanted === undefined) {
    const running = all.filter(({ pod }) => isRunning(pod));
    if (running.length > 0) return running;
    throw new JobmanError(`${job.name} has no pod that runs. ${await why()}`, exitCode.conflict);
  }
  const found = all.find(({ number, pod }) =>
    /^\d{1,6}$/.test(wanted) ? number === Number(wanted) : pod.name === wanted || pod.name.endsWith(`-${wanted}`),
  );
  if (found === undefined) {
    const names = all.map(({ number, pod }) => `${number} (${pod.name})`).join(', ');
    throw new JobmanError(
      `${job.name} has no pod ${wanted}; it has ${names === '' ? `none. ${await why()}` : `${names}.`}`,
      exitCode.notFound,
    );
  }
  if (isRunning(found.pod)) return [found];
  const { name, phase, reason, deleting } = found.pod;
  const state = deleting ? 'being deleted' : phase + (reason === null ? '' : ` (${reason})`);
  throw new JobmanError(`The pod ${name} is not running: it is ${state}. ${await why()}`, exitCode.conflict);
}

interface TargetChoice extends PodChoice {
  readonly workers?: WorkerChoice | undefined;
  readonly container?: string | undefined;
}

/** Of the pods that run, the ones that `--pod` or `--workers` names. Throws JobmanError (conflict) when one of them does not run. */
export async function chosenPods(
  cli: Cli,
  cluster: Cluster,
  job: ClusterJob,
  { pod: named, workers }: TargetChoice,
): Promise<readonly PodAtHand[]> {
  if (named !== undefined && workers !== undefined) {
    throw new JobmanError('--pod and --workers both select pods; use only one of the two.', exitCode.usage);
  }
  const pods = await podsAtHand(cli, cluster, job, { pod: named });
  if (workers === undefined || workers === 'all') return pods;
  const found = pods.filter(({ number }) => workers.some(([from, to]) => from <= number && number <= to));
  const lacking = workers.find(([from, to]) => !found.some(({ number }) => from <= number && number <= to));
  if (lacking === undefined) return found;
  const numbers = pods.map(({ number }) => number).join(', ');
  throw new JobmanError(`No pod ${lacking[0]} of ${job.name} runs; these do: ${numbers}.`, exitCode.conflict);
}

/** The container of each that is named, by the pod's number. */
export function targetsOf(
  cli: Cli,
  pods: readonly PodAtHand[],
  container: string | undefined,
): ReadonlyMap<number, ClusterTarget> {
  return new Map(
    pods.map(({ number, pod }) => [number, { pod: pod.name, container: containerAtHand(cli, pod, container).name }]),
  );
}

/** The containers in which a command is to do something, by the numbers of their pods. */
export async function chosenTargets(
  cli: Cli,
  cluster: Cluster,
  job: ClusterJob,
  choice: TargetChoice,
): Promise<ReadonlyMap<number, ClusterTarget>> {
  return targetsOf(cli, await chosenPods(cli, cluster, job, choice), choice.container);
}

function numbered(pods: readonly ClusterPod[]): readonly PodAtHand[] {
  const newest = new Map(pods.map((pod, place) => [pod.index ?? place, pod]));
  return [...newest].map(([number, pod]) => ({ number, pod })).toSorted((one, other) => one.number - other.number);
}

function isRunning({ phase, deleting }: ClusterPod): boolean {
  return phase === 'Running' && !deleting;
}

/** The named container, else the one that jobman makes, else the first, with a note about the others. Throws JobmanError (not found). */
export function containerOf(cli: Cli, pod: ClusterPod, named: string | undefined): ClusterContainer {
  const found = named === undefined ? mainContainer(pod.containers) : pod.containers.find(({ name }) => name === named);
  const names = pod.containers.map(({ name }) => name).join(', ');
  if (found === undefined) {
    throw new JobmanError(`${pod.name} has no container ${named ?? ''}; it has ${names}.`, exitCode.notFound);
  }
  if (named === undefined && pod.containers.filter(({ init }) => !init).length > 1) {
    cli.note(`${pod.name} has several containers (${names}); this is ${found.name}. --container names another.`);
  }
  return found;
}

/** The one that jobman makes, else the first that is not over before the others begin. */
export function mainContainer(containers: readonly ClusterContainer[]): ClusterContainer | undefined {
  return mainOf(containers.filter(({ init }) => !init));
}

/** The same, where it runs. Throws JobmanError: not found for a name that is none, conflict for one that does not run. */
function containerAtHand(cli: Cli, pod: ClusterPod, named: string | undefined): ClusterContainer {
  const found = containerOf(cli, pod, named);
  if (found.state === 'running') return found;
  const why = found.reason === null ? '' : ` (${found.reason})`;
  throw new JobmanError(
    `The container ${found.name} of ${pod.name} is not running: it is ${found.state}${why}.`,
    exitCode.conflict,
  );
}
