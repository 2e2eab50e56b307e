/** This machine as a host that is reached through a shell, with the streams that only remote hosts need. */
import { spawn } from 'node:child_process';
import {
  runLocalScript,
  skipToBeginMarker,
  wrapScript,
  type StreamRequest,
  type Transport,
} from '../../src/remote/transport.ts';

type LocalOptions = Parameters<typeof runLocalScript>[1];

export function createLocalTransport(options: LocalOptions): Transport {
  return {
    run: (request) => runLocalScript(request, options),
    stream: (request) => streamLocalScript(request, options),
  };
}

function streamLocalScript(
  { script, onBytes, onEnd }: StreamRequest,
  { env, cwd, shell = ['/bin/sh', '-s'] }: LocalOptions,
): () => void {
  const [program = '', ...args] = shell;
  const child = spawn(program, args, { env: env as NodeJS.ProcessEnv, cwd, stdio: 'pipe', detached: true });
  const body = skipToBeginMarker();
  let isCancelled = false;
  let errors = '';
  child.stdin.on('error', () => undefined).write(wrapScript(script));
  child.stderr.on('data', (chunk: Buffer) => void (errors += chunk.toString()));
  void (async () => {
    for await (const chunk of child.stdout as AsyncIterable<Buffer>) {
      const bytes = body(chunk);
      if (bytes.length > 0 && !isCancelled) await onBytes(bytes);
    }
  })();
  child.once('close', (exitCode) => {
    if (isCancelled) return;
    if (exitCode === null) onEnd({ kind: 'dropped', reason: 'the shell was killed' });
    else onEnd({ kind: 'ended', exitCode, stderr: errors });
  });
  return () => {
    isCancelled = true;
    child.stdin.end();
    setTimeout(() => {
      if (child.exitCode === null && child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
    }, 1_000).unref();
  };
}
