// A script on one worker, for as long as somebody waits for it. Its text goes in by the shell's standard input, and so do
// secrets: neither stands in a list of processes or in a file. When nobody waits any more, what runs there is ended.

import type { WorkerAnswer } from '../../../lab/tpu-desk.ts';
import { second } from '../../../core/time.ts';
import type { Duration } from '../../../core/time.ts';
import { keepFirst } from '../../../remote/keep-first.ts';
import { quote } from '../../../remote/quote.ts';
import type { SshTransport } from '../../../remote/ssh.ts';

/** Bytes of a worker's output that are kept. */
const outputMost = 1_000_000;

export interface ScriptRequest {
  readonly script: string;
  readonly secrets?: Readonly<Record<string, string>>;
  readonly timeoutMs: Duration;
  readonly signal: AbortSignal;
}

/** Never rejects for what the worker or the line does. `transport` may be a way that cannot be found. */
export async function runScript(
  worker: number,
  transport: () => Promise<SshTransport>,
  { script, secrets = {}, timeoutMs, signal }: ScriptRequest,
): Promise<WorkerAnswer> {
  const silent = (says: string): WorkerAnswer => ({ kind: 'no_answer', worker, says });
  let way: SshTransport;
  try {
    way = await transport();
  } catch (error) {
    return silent(error instanceof Error ? error.message : String(error));
  }
  if (signal.aborted) return silent('interrupted');
  const kept = keepFirst(outputMost);
  const session = way.session(
    {
      program: { kind: 'argv', argv: ['/bin/sh', '-s'] },
      receives: true,
      onBytes: (chunk) => {
        kept.add(chunk);
      },
    },
    null,
  );
  let ended: string | undefined;
  const give = (says: string) => (): void => {
    ended ??= says;
    session.stop();
  };
  const timer = setTimeout(give(`it did not end within ${Math.round(timeoutMs / second)} s`), timeoutMs);
  const interrupt = give('interrupted');
  signal.addEventListener('abort', interrupt);
  try {
    await session.write(new TextEncoder().encode(wholeScript(script, secrets)));
    session.end();
    const end = await session.ended;
    if (ended !== undefined) return silent(ended);
    if (end.kind === 'no_answer') return silent(end.reason);
    const output = new TextDecoder().decode(kept.bytes());
    return { kind: 'ended', worker, code: end.exitCode ?? 128, output };
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', interrupt);
  }
}

/** Read to its end before any of it runs, so that a line cut in the middle runs nothing and no command eats the rest of it. */
function wholeScript(script: string, secrets: Readonly<Record<string, string>>): string {
  const exports = Object.entries(secrets).map(([name, value]) => `export ${name}=${quote(value)}\n`);
  return `{\n${exports.join('')}${script}\n} </dev/null\nexit\n`;
}
