// Interactive: a job that was submitted for this terminal, or for this input. It is attached once its pod runs; its program's exit code
// is the command's.

import type { Cluster, ClusterContainer, ClusterJob, ClusterPod, ClusterTarget } from '../../app/cluster/cluster.ts';
import { clusterPhase, clusterVerdict, isClusterSettled } from '../../app/cluster/verdict.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { second, type Duration } from '../../core/time.ts';
import { complainAbout, sayTrouble, type Cli } from '../context.ts';
import { pause, untilLeft } from '../leave.ts';
import { inertWord } from '../../app/figures.ts';
import { onTerminal } from './exec.ts';
import { followClusterLogs } from './logs.ts';
import { mainContainer } from './pods.ts';
import { podsOf, sightOf } from './verdict.ts';

const lookEvery: Duration = 0.5 * second;
/** Limit for the exit code of a program whose terminal is closed. */
const endMost: Duration = 10 * second;
/** A longer removal is left to the cluster. */
const removalMost: Duration = 40 * second;

/** `leave` ends the wait for the pod. With `remove` the Job is deleted when the session ends, for any reason. */
export async function runInteractive(
  cli: Cli,
  cluster: Cluster,
  name: string,
  {
    leave,
    remove,
    isTerminal,
  }: {
    readonly leave: { readonly signal: AbortSignal; readonly release: () => void };
    readonly remove: boolean;
    readonly isTerminal: boolean;
  },
): Promise<number> {
  let code: number = exitCode.failed;
  let isRemoved = true;
  try {
    code = isTerminal ? await attached(cli, cluster, name, leave) : await fed(cli, cluster, name, leave.signal);
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    code = complainAbout(error, cli);
  } finally {
    leave.release();
    // Also after a defect of this program: the Job was for this terminal only.
    if (remove) isRemoved = await untilLeft(cli, (signal) => removed(cli, cluster, name, signal));
  }
  if (!remove) cli.note(`${name} stays in the cluster: jobman logs ${name}, jobman delete ${name}`);
  return isRemoved ? code : Math.max(code, exitCode.unreachable);
}

/** Deletes the Job. False where it was not seen gone, which is said; Ctrl-C ends the wait and not the deletion. */
async function removed(cli: Cli, cluster: Cluster, name: string, signal: AbortSignal): Promise<boolean> {
  try {
    await cluster.remove(name, { signal: AbortSignal.any([signal, AbortSignal.timeout(removalMost)]) });
    cli.note(`${name} is deleted.`);
    return true;
  } catch (error) {
    const why = signal.aborted ? 'you left' : error instanceof Error ? error.message : String(error);
    sayTrouble(cli, `${name} may still be in the cluster (${why}): jobman delete ${name}`);
    return false;
  }
}

async function attached(
  cli: Cli,
  cluster: Cluster,
  name: string,
  { signal, release }: { readonly signal: AbortSignal; readonly release: () => void },
): Promise<number> {
  let said = '';
  for (;;) {
    if (signal.aborted) return exitCode.interrupted;
    const job = await cluster.job(name);
    if (job === null) throw new JobmanError(`${name} was deleted meanwhile.`, exitCode.failed);
    const { pod, container } = await newestPod(cluster, job);
    if (pod !== undefined && container?.state === 'running') {
      // From now on Ctrl-C is a key of the program.
      release();
      cli.note('If there is no prompt, press Enter.');
      const target = { pod: pod.name, container: container.name };
      const code = await onTerminal(cli, (request) => cluster.attach(target, request));
      // The terminal is closed, so Ctrl-C is a signal again. It must not end this program before the Job is deleted.
      return code === exitCode.ok ? untilLeft(cli, (gone) => exitCodeOf(cli, cluster, job, pod.name, gone)) : code;
    }
    if (isClusterSettled(job) || container?.state === 'terminated') {
      const of = pod?.name ?? '';
      if (container !== undefined)
        for await (const bytes of cluster.logs(of, container.name, {})) cli.io.stdout.write(bytes);
      cli.note(clusterVerdict(await sightOf(cluster, job), cli.io.now()).sentence);
      return container === undefined ? exitCode.failed : codeOfContainer(container);
    }
    const { sentence } = clusterVerdict(await sightOf(cluster, job), cli.io.now());
    const bare = sentence.replaceAll(/\d+/g, '');
    if (bare !== said) cli.note(sentence);
    said = bare;
    await pause(lookEvery, signal);
  }
}

/** The log has what was printed before the input was connected, too. */
async function fed(cli: Cli, cluster: Cluster, name: string, leave: AbortSignal): Promise<number> {
  const job = await cluster.job(name);
  if (job === null) throw new JobmanError(`${name} was deleted meanwhile.`, exitCode.failed);
  const [over, broken] = [new AbortController(), new AbortController()];
  let failed: unknown;
  const input = feed(cli, cluster, job, AbortSignal.any([leave, over.signal])).catch((error: unknown) => {
    failed = error;
    broken.abort();
  });
  const end = await followClusterLogs(cli, cluster, job, follow, AbortSignal.any([leave, broken.signal]));
  over.abort();
  await input;
  if (failed !== undefined) throw failed;
  if (end === 'left') return exitCode.interrupted;
  const { container } = await newestPod(cluster, job);
  if (container?.state === 'terminated') return codeOfContainer(container);
  return clusterPhase((await cluster.job(name)) ?? job) === 'succeeded' ? exitCode.ok : exitCode.failed;
}

const follow = { follow: true };

/** Hands our input to the program once it runs. Ends with the input, with the program, or with the signal. Throws JobmanError. */
async function feed(cli: Cli, cluster: Cluster, job: ClusterJob, signal: AbortSignal): Promise<void> {
  let target: ClusterTarget | undefined;
  while (target === undefined) {
    if (signal.aborted) return;
    const { pod, container } = await newestPod(cluster, job);
    if (container?.state === 'terminated') return;
    if (pod !== undefined && container?.state === 'running') target = { pod: pod.name, container: container.name };
    else await pause(lookEvery, signal);
  }
  const session = cluster.attach(target, { terminal: null, onBytes: () => undefined });
  signal.addEventListener('abort', () => session.stop(), { once: true });
  void (async () => {
    try {
      for await (const bytes of cli.io.stdin.bytes(signal)) await session.write(bytes);
    } catch {
      // Input that cannot be read has ended.
    }
    session.end();
  })();
  const end = await session.ended;
  if (end.kind === 'ended' || signal.aborted) return;
  if (end.refusal !== undefined) throw end.refusal;
  sayTrouble(cli, `The input of the program has ended early: ${inertWord(end.reason)}`);
}

async function exitCodeOf(
  cli: Cli,
  cluster: Cluster,
  job: ClusterJob,
  name: string,
  signal: AbortSignal,
): Promise<number> {
  const until = cli.io.now() + endMost;
  for (;;) {
    const pod = (await podsOf(cluster, job)).find((one) => one.name === name);
    const container = pod === undefined ? undefined : mainContainer(pod.containers);
    if (container?.state === 'terminated') return codeOfContainer(container);
    if (pod === undefined || cli.io.now() > until || signal.aborted) {
      cli.note(`The exit code of the program in ${name} is not known.`);
      return signal.aborted ? exitCode.interrupted : exitCode.failed;
    }
    await pause(lookEvery, signal);
  }
}

async function newestPod(
  cluster: Cluster,
  job: ClusterJob,
): Promise<{ readonly pod?: ClusterPod | undefined; readonly container?: ClusterContainer | undefined }> {
  const pod = (await podsOf(cluster, job)).at(-1);
  return { pod, container: pod === undefined ? undefined : mainContainer(pod.containers) };
}

function codeOfContainer({ exitCode: code, signal }: ClusterContainer): number {
  return code ?? (signal === null ? exitCode.failed : 128 + signal);
}
