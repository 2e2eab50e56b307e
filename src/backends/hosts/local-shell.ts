// Local shell: runs the scripts of this machine.

import { randomUUID } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import { createLimiter } from '../../app/concurrency.ts';
import { runLocalScript, type RunRequest, type RunResult } from '../../remote/transport.ts';

type LocalShell = Parameters<typeof runLocalScript>[1];

interface WaitingScript {
  readonly request: RunRequest;
  readonly answer: (result: RunResult) => void;
}

const maxScriptsTogether = 16;
const maxShells = 4;

/**
 * Observations that are requested together share a shell, because the start of a program blocks this process, for 20 ms
 * on a busy machine: a new controller observes a thousand jobs at once.
 */
export function createScriptRunner(shell: LocalShell): (ref: unknown, request: RunRequest) => Promise<RunResult> {
  const withShell = createLimiter(maxShells);
  let waiting: WaitingScript[] = [];

  async function runWaiting(): Promise<void> {
    await setImmediate();
    const scripts = waiting;
    waiting = [];
    for (let from = 0; from < scripts.length; from += maxScriptsTogether) {
      const some = scripts.slice(from, from + maxScriptsTogether);
      void withShell(() => runTogether(some, shell));
    }
  }

  return (_ref, request) => {
    if (request.isRepeatable !== true) return runLocalScript(request, shell);
    return new Promise((answer) => {
      waiting.push({ request, answer });
      if (waiting.length === 1) void runWaiting();
    });
  };
}

/** A script without an answer of its own, or that fails, runs once more, alone. */
async function runTogether(scripts: readonly WaitingScript[], shell: LocalShell): Promise<void> {
  const end = `end-${randomUUID()}`;
  const sum = (numberOf: (request: RunRequest) => number) =>
    scripts.reduce((total, { request }) => total + numberOf(request), 0);
  const all = await (scripts.length === 1
    ? null
    : runLocalScript(
        {
          script: scripts.map(({ request }) => `(\n${request.script}\n)\necho "${end} $?"\n`).join(''),
          timeoutMs: Math.max(...scripts.map(({ request }) => request.timeoutMs)),
          maxOutputBytes: sum((request) => request.maxOutputBytes),
        },
        shell,
      ));
  // Bytes as characters, so that no text is changed.
  const output = all?.kind === 'ended' ? Buffer.from(all.stdout).toString('latin1') : '';
  const answers = output.split(new RegExp(`${end} (\\d+)\n`, 'u'));
  const runs = scripts.map(async ({ request, answer }, index) => {
    const [text = '', code] = answers.slice(2 * index);
    if (code !== '0') return answer(await runLocalScript(request, shell));
    const [stdout, stderr] = [Buffer.from(text, 'latin1'), Buffer.alloc(0)];
    return answer({ kind: 'ended', exitCode: 0, stdout, stderr, truncated: false });
  });
  await Promise.all(runs);
}
