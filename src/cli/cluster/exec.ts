import type { ExecFlags } from '../table/flags.ts';
import type { Cluster, ClusterAttachRequest, ClusterJob, ClusterSession } from '../../app/cluster/cluster.ts';
import { usageError } from '../../app/errors.ts';
import { printError, type Cli } from '../context.ts';
import { sessionExitCode, parseProgram, runOnWorkers } from '../hosts/run-on-workers.ts';
import { escapeLine } from '../../app/format.ts';
import { selectPods, targetsOf } from './pods.ts';

/** Resolves with the program's exit code, or with the highest of several. */
export async function execInPods(
  cli: Cli,
  cluster: Cluster,
  job: ClusterJob,
  args: readonly string[],
  flags: ExecFlags,
): Promise<number> {
  const program = parseProgram(args, job.name);
  if (flags.inContainer === true) {
    throw usageError(
      '--in-container is for a TPU job; every command in a pod runs in a container, and --container says which.',
    );
  }
  const isTerminal = flags.tty === true;
  if (isTerminal) expectTerminal(cli, flags);
  const pods = await selectPods(cli, cluster, job, flags);
  const isForOne = isTerminal || flags.stdin === true;
  if (isForOne && pods.length !== 1) {
    const names = pods.map(({ number, pod }) => `${number} (${pod.name})`).join(', ');
    throw usageError(
      `${isTerminal ? '--tty' : '--stdin'} is for one pod, and ${pods.length} of ${job.name} run: ${names}. Choose one with --pod.`,
    );
  }
  const { names, numbers, target } = targetsOf(cli, pods, flags.container);
  if (isTerminal) {
    return attachTerminal(cli, (request) =>
      cluster.exec(target(numbers[0] ?? 0), { ...request, program, hasInput: true }),
    );
  }
  const access: Parameters<typeof runOnWorkers>[1] = {
    start: (number, request) => cluster.exec(target(number), { ...request, terminal: null }),
  };
  return runOnWorkers(cli, access, { workers: numbers, program, flags, pods: names });
}

function expectTerminal({ io, json }: Cli, { timeout }: ExecFlags): void {
  if (!io.stdin.isTerminal || !io.stdout.isTerminal) {
    throw usageError('--tty needs a terminal on both sides; without one leave it out (-i, not -it).');
  }
  if (json || timeout !== undefined) {
    throw usageError('--tty hands the terminal on as it is; it cannot go with --json or --timeout.');
  }
}

const ctrlC = 0x03;

/** Connects this terminal to the program until it ends. Ctrl-C goes to the program. */
export async function attachTerminal(
  cli: Cli,
  start: (request: ClusterAttachRequest) => ClusterSession,
): Promise<number> {
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
