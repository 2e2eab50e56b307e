import type { ClusterAttachRequest, ClusterSession } from '../../app/cluster/cluster.ts';
import { escapeLine } from '../../app/format.ts';
import { printError, type Cli } from '../context.ts';
import { sessionExitCode } from '../hosts/run-on-workers.ts';

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
