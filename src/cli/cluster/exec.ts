// Exec in pods: one command in a container of each running pod of a job, or a terminal in one of them.

import type {
  Cluster,
  ClusterAttachRequest,
  ClusterJob,
  ClusterSession,
  ClusterTarget,
} from '../../app/cluster/cluster.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { sayTrouble, type Cli } from '../context.ts';
import { codeOf, programOf, type RunFlags, runOn } from '../hosts/run-on.ts';
import type { WorkerChoice } from '../parse.ts';
import { inertWord } from '../../app/figures.ts';
import type { PlaceFlags } from './either.ts';
import { chosenPods, targetsOf } from './pods.ts';

export interface ExecFlags extends RunFlags, PlaceFlags {
  readonly workers?: WorkerChoice | undefined;
  readonly tty?: boolean | undefined;
  readonly container?: string | undefined;
  readonly pod?: string | undefined;
  readonly jobName?: string | undefined;
}

/** Resolves with the program's exit code, of several the greatest. */
export async function execInPods(
  cli: Cli,
  cluster: Cluster,
  job: ClusterJob,
  words: readonly string[],
  flags: ExecFlags,
): Promise<number> {
  const program = programOf(words, job.name);
  if (flags.inContainer === true) {
    throw new JobmanError(
      '--in-container is for a TPU job; every command in a pod runs in a container, and --container says which.',
      exitCode.usage,
    );
  }
  const isTerminal = flags.tty === true;
  if (isTerminal) expectTerminal(cli, flags);
  const pods = await chosenPods(cli, cluster, job, flags);
  const isForOne = isTerminal || flags.stdin === true;
  if (isForOne && pods.length !== 1) {
    const names = pods.map(({ number, pod }) => `${number} (${pod.name})`).join(', ');
    throw new JobmanError(
      `${isTerminal ? '--tty' : '--stdin'} is for one pod, and ${pods.length} of ${job.name} run: ${names}. Say which with --pod.`,
      exitCode.usage,
    );
  }
  const targets = targetsOf(cli, pods, flags.container);
  const [first] = targets.values();
  if (isTerminal && first !== undefined) {
    return onTerminal(cli, (request) => cluster.exec(first, { ...request, program, receives: true }));
  }
  const target = (number: number): ClusterTarget => {
    const found = targets.get(number);
    if (found === undefined) throw new Error(`no pod has the number ${number}`);
    return found;
  };
  const door = {
    start: (number: number, request: Parameters<Parameters<typeof runOn>[1]['start']>[1]) =>
      cluster.exec(target(number), { ...request, terminal: null }),
  };
  const names = new Map([...targets].map(([number, { pod }]) => [number, pod]));
  return runOn(cli, door, { workers: [...targets.keys()], program, flags, pods: names });
}

function expectTerminal({ io, json }: Cli, { timeout }: ExecFlags): void {
  if (!io.stdin.isTerminal || !io.stdout.isTerminal) {
    throw new JobmanError(
      '--tty needs a terminal on both sides; without one leave it out (-i, not -it).',
      exitCode.usage,
    );
  }
  if (json || timeout !== undefined) {
    throw new JobmanError(
      '--tty hands the terminal on as it is; it cannot go with --json or --timeout.',
      exitCode.usage,
    );
  }
}

const ctrlC = 0x03;

/** This terminal is the program's until it ends: every key goes there, and its size with it. */
export async function onTerminal(cli: Cli, start: (request: ClusterAttachRequest) => ClusterSession): Promise<number> {
  const { io } = cli;
  const session = start({
    terminal: io.stdout.size(),
    async onBytes(bytes) {
      io.stdout.write(bytes);
      await io.stdout.flush();
      if (io.stdout.closed) session.stop();
    },
  });
  const unhearSize = io.stdout.onResize(() => session.resize(io.stdout.size()));
  const unhear = io.onSignal(() => session.stop());
  const release = await io.stdin.raw();
  const over = new AbortController();
  void (async () => {
    /** Keys that nobody has taken yet: the line does not stand. */
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
    if (end.kind === 'no_answer') {
      release();
      if (end.refusal !== undefined) throw end.refusal;
      sayTrouble(cli, inertWord(end.reason));
    }
    return codeOf({ end, timedOut: false });
  } finally {
    release();
    over.abort();
    unhearSize();
    unhear();
  }
}
