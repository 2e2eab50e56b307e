// Attaches this terminal or this input to the pod of a new job; exits with the program's exit code.

import type { Cluster, ClusterTarget, ClusterAttachRequest, JobIdentity } from '../../app/cluster/cluster.ts';
import type { ClusterContainer, ClusterJob, ClusterPod } from '../../app/cluster/objects.ts';
import type { Session } from '../../app/worker-access.ts';
import { clusterPhase, clusterResult, isClusterFinished } from '../../app/cluster/job-result.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { second, type Duration } from '../../core/model/time.ts';
import { reportError, printError, type Cli } from '../context.ts';
import { pause } from '../../app/concurrency.ts';
import { untilInterrupted } from '../interrupt.ts';
import { escapeLine } from '../../app/format.ts';
import { outputRules, printJobLogs } from '../logs/print.ts';
import type { Jobs } from '../../app/jobs.ts';
import { mainContainer, podsOf, observeJob } from '../../app/cluster/observe-job.ts';
import { sessionExitCode } from '../hosts/run-on-workers.ts';

const pollInterval: Duration = 0.5 * second;
const exitCodeTimeout: Duration = 10 * second;
/** A longer removal is left to the cluster. */
const removalTimeout: Duration = 40 * second;

/** `leave` ends the wait for the pod. With `remove` the Job is deleted when the session ends, for any reason. */
export async function runInteractive(
  cli: Cli,
  cluster: Cluster,
  created: JobIdentity,
  {
    jobs,
    leave,
    remove,
    isTerminal,
  }: {
    /** In the namespace of the job. */
    readonly jobs: Jobs;
    readonly leave: { readonly signal: AbortSignal; readonly release: () => void };
    readonly remove: boolean;
    readonly isTerminal: boolean;
  },
): Promise<number> {
  const { name } = created;
  let code: number = exitCode.failed;
  let isRemoved = true;
  try {
    code = isTerminal
      ? await runAttached(cli, cluster, created, leave)
      : await runWithInput(cli, jobs, cluster, created, leave.signal);
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    code = reportError(error, cli);
  } finally {
    leave.release();
    // Also after a bug in jobman: the Job was for this terminal only.
    if (remove) isRemoved = await untilInterrupted(cli, (signal) => removeJob(cli, cluster, created, signal));
  }
  if (!remove) cli.note(`Job ${name} stays in the cluster: jobman logs ${name}, jobman delete ${name}`);
  return isRemoved ? code : Math.max(code, exitCode.unreachable);
}

/** False, with a message, if the Job was not deleted in time. Ctrl-C ends the wait, not the deletion. */
async function removeJob(cli: Cli, cluster: Cluster, job: JobIdentity, signal: AbortSignal): Promise<boolean> {
  const { name } = job;
  try {
    await cluster.remove(job, { signal: AbortSignal.any([signal, AbortSignal.timeout(removalTimeout)]) });
    cli.note(`Job ${name} is deleted.`);
    return true;
  } catch (error) {
    if (error instanceof JobmanError && error.code === exitCode.notFound) {
      cli.note(error.message);
      return true;
    }
    const why = signal.aborted ? 'you left' : error instanceof Error ? error.message : String(error);
    printError(cli, `Job ${name} may still be in the cluster (${why}): jobman delete ${name}`);
    return false;
  }
}

async function runAttached(
  cli: Cli,
  cluster: Cluster,
  created: JobIdentity,
  { signal, release }: { readonly signal: AbortSignal; readonly release: () => void },
): Promise<number> {
  let lastNote = '';
  for (;;) {
    if (signal.aborted) return exitCode.interrupted;
    const job = await readJob(cluster, created);
    const { pod, container } = await newestPod(cluster, job);
    if (pod !== undefined && container?.state === 'running') {
      // From now on Ctrl-C is a key of the program.
      release();
      cli.note('If you see no prompt, press Enter.');
      const target = { pod: pod.name, container: container.name };
      const code = await attachTerminal(cli, (request) => cluster.attach(target, request));
      // The terminal is closed, so Ctrl-C is a signal again. It must not end jobman before the Job is deleted.
      return code === exitCode.ok
        ? untilInterrupted(cli, (gone) => exitCodeOf(cli, cluster, job, pod.name, gone))
        : code;
    }
    if (isClusterFinished(job) || container?.state === 'terminated') {
      const of = pod?.name ?? '';
      if (container !== undefined)
        for await (const bytes of cluster.logs(of, container.name, {})) cli.io.stdout.write(bytes);
      cli.note(clusterResult(await observeJob(cluster, job), { now: cli.io.now() }).message);
      return container === undefined ? exitCode.failed : containerExitCode(container);
    }
    const { message } = clusterResult(await observeJob(cluster, job), { now: cli.io.now() });
    const bare = message.replaceAll(/\d+/g, '');
    if (bare !== lastNote) cli.note(message);
    lastNote = bare;
    await pause(pollInterval, signal);
  }
}

async function readJob(cluster: Cluster, { name, uid }: JobIdentity): Promise<ClusterJob> {
  const job = await cluster.job(name);
  if (job?.uid !== uid) throw new JobmanError(`Job ${name} was deleted meanwhile.`, exitCode.failed);
  return job;
}

/** Prints the log: it also has the output from before the input was connected. */
async function runWithInput(
  cli: Cli,
  jobs: Jobs,
  cluster: Cluster,
  created: JobIdentity,
  leave: AbortSignal,
): Promise<number> {
  const { name } = created;
  const found = await jobs.find({ text: name, isName: true }, 'read');
  const job = await readJob(cluster, created);
  const [over, broken] = [new AbortController(), new AbortController()];
  let failed: unknown;
  const input = forwardInput(cli, cluster, job, AbortSignal.any([leave, over.signal])).catch((error: unknown) => {
    failed = error;
    broken.abort();
  });
  const end = await printJobLogs(cli, jobs, found, {
    query: { follow: true },
    rules: outputRules(cli),
    leave: AbortSignal.any([leave, broken.signal]),
  });
  over.abort();
  await input;
  if (failed !== undefined) throw failed;
  if (end.kind === 'left') return exitCode.interrupted;
  const { container } = await newestPod(cluster, job);
  if (container?.state === 'terminated') return containerExitCode(container);
  return clusterPhase((await cluster.job(name)) ?? job) === 'succeeded' ? exitCode.ok : exitCode.failed;
}

/** Ends with the input, the program, or the signal. Throws JobmanError. */
async function forwardInput(cli: Cli, cluster: Cluster, job: ClusterJob, signal: AbortSignal): Promise<void> {
  let target: ClusterTarget | undefined;
  while (target === undefined) {
    if (signal.aborted) return;
    const { pod, container } = await newestPod(cluster, job);
    if (container?.state === 'terminated') return;
    if (pod !== undefined && container?.state === 'running') target = { pod: pod.name, container: container.name };
    else await pause(pollInterval, signal);
  }
  const session = cluster.attach(target, { terminal: null, onBytes: () => undefined });
  signal.addEventListener('abort', () => session.stop(), { once: true });
  void (async () => {
    try {
      for await (const bytes of cli.io.stdin.bytes(signal)) await session.write(bytes);
    } catch {
      // Unreadable input counts as ended.
    }
    session.end();
  })();
  const end = await session.ended;
  if (end.kind === 'ended' || signal.aborted) return;
  if (end.refusal !== undefined) throw end.refusal;
  printError(cli, `The input of the program ended early: ${escapeLine(end.reason)}`);
}

async function exitCodeOf(
  cli: Cli,
  cluster: Cluster,
  job: ClusterJob,
  name: string,
  signal: AbortSignal,
): Promise<number> {
  const until = cli.io.now() + exitCodeTimeout;
  for (;;) {
    const pod = (await podsOf(cluster, job)).find((one) => one.name === name);
    const container = pod === undefined ? undefined : mainContainer(pod.containers);
    if (container?.state === 'terminated') return containerExitCode(container);
    if (pod === undefined || cli.io.now() > until || signal.aborted) {
      cli.note(`The exit code of the program in ${name} is not known.`);
      return signal.aborted ? exitCode.interrupted : exitCode.failed;
    }
    await pause(pollInterval, signal);
  }
}

async function newestPod(
  cluster: Cluster,
  job: ClusterJob,
): Promise<{ readonly pod?: ClusterPod | undefined; readonly container?: ClusterContainer | undefined }> {
  const pod = (await podsOf(cluster, job)).at(-1);
  return { pod, container: pod === undefined ? undefined : mainContainer(pod.containers) };
}

function containerExitCode({ exitCode: code, signal }: ClusterContainer): number {
  return code ?? (signal === null ? exitCode.failed : 128 + signal);
}

const ctrlC = 0x03;

/** Connects this terminal to the program until it ends. Ctrl-C goes to the program. */
export async function attachTerminal(cli: Cli, start: (request: ClusterAttachRequest) => Session): Promise<number> {
  const { io } = cli;
  const session = start({
    terminal: io.stdout.size(),
    async onBytes(bytes) {
      io.stdout.write(bytes);
      await io.stdout.flush();
      if (io.stdout.closed) session.stop();
    },
  });
  const stopResizing = io.stdout.onResize(() => session.resize(io.stdout.size()));
  const stopListening = io.onSignal(() => session.stop());
  const release = await io.stdin.raw();
  const over = new AbortController();
  void (async () => {
    /** Keys that the program has not received. With any of them, Ctrl-C ends the session: the connection is broken. */
    let waiting = 0;
    for await (const keys of io.stdin.bytes(over.signal)) {
      if (waiting > 0 && keys.includes(ctrlC)) session.stop();
      waiting += 1;
      void session.write(keys).then(() => (waiting -= 1));
    }
    session.end();
  })().catch(() => session.end());
  try {
    const end = await session.ended;
    if (end.kind === 'unreachable') {
      release();
      if (end.refusal !== undefined) throw end.refusal;
      printError(cli, escapeLine(end.reason));
    }
    return sessionExitCode({ end, timedOut: false });
  } finally {
    release();
    over.abort();
    stopResizing();
    stopListening();
  }
}
