// Scripts over an SSH connection: one that is run to its end, and one whose output is followed.

import type { ClientChannel } from 'ssh2';
import { second } from '../core/time.ts';
import { keepFirst } from './keep-first.ts';
import { hearQuiet } from './ssh-connection.ts';
import type { Connection, Problem } from './ssh-connection.ts';
import { afterBeginMark, asProgram } from './transport.ts';
import type { RunRequest, RunResult, StreamRequest } from './transport.ts';

/** A shell that waits for its program, and the connection that it is reached over. */
export interface Shell {
  readonly channel: ClientChannel;
  readonly connection: Connection;
}

type OpenShell = () => Promise<Shell | Problem>;

/**
 * Runs a script to its end. One that may be run again is asked over another connection when its own falls quiet, since what
 * is to be known is then known sooner; once, and within the same time.
 */
export async function runOver(host: string, openShell: OpenShell, request: RunRequest): Promise<RunResult> {
  return new Promise((resolve) => {
    let sent = false;
    let isOver = false;
    let channel: ClientChannel | undefined;
    const finish = (result: RunResult): void => {
      if (isOver) return;
      isOver = true;
      clearTimeout(timer);
      resolve(result);
    };
    const timer = setTimeout(() => {
      const reason = `${host} did not answer within ${Math.round(request.timeoutMs / second)} s`;
      finish({ kind: 'no_answer', reason, sent, timedOut: true });
      channel?.close();
    }, request.timeoutMs);
    async function ask(triesLeft: number): Promise<void> {
      const shell = await openShell();
      if ('problem' in shell) {
        // Of a script that was sent before, over the line that fell quiet, nothing is known.
        finish({ kind: 'no_answer', reason: shell.problem, sent, timedOut: false });
        return;
      }
      if (isOver) {
        shell.channel.close();
        return;
      }
      const own = shell.channel;
      channel = own;
      const kept = { stdout: keepFirst(request.outputMost), stderr: keepFirst(request.outputMost) };
      let isLeft = false;
      const whole = receive(own, {
        async stdout(chunk) {
          kept.stdout.add(chunk);
          if (!isOver && !isLeft) await request.onOutput?.(chunk);
        },
        stderr: (chunk) => {
          kept.stderr.add(chunk);
        },
      });
      if (request.isRepeatable === true && triesLeft > 0) {
        const unhear = hearQuiet(shell.connection, () => {
          unhear();
          if (isOver || isLeft) return;
          isLeft = true;
          own.close();
          void ask(triesLeft - 1);
        });
        own.once('close', unhear);
      }
      sent = true;
      own.end(asProgram(request.script));
      const exitCode = await whole;
      if (isLeft) return;
      if (exitCode === undefined) {
        finish({ kind: 'no_answer', reason: shell.connection.why, sent: true, timedOut: false });
        return;
      }
      finish({
        kind: 'ended',
        exitCode,
        stdout: kept.stdout.bytes(),
        stderr: kept.stderr.bytes(),
        cut: kept.stdout.isCut() || kept.stderr.isCut(),
      });
    }

    void ask(1);
  });
}

/**
 * Runs a script and hands over its output. A line that falls quiet drops it: whoever follows an output goes on from where
 * he is, and the sooner he tells of the silence the better.
 */
export function streamOver(host: string, openShell: OpenShell, request: StreamRequest): () => void {
  let isOff = false;
  let channel: ClientChannel | undefined;
  void openShell().then((shell) => {
    if ('problem' in shell) {
      if (!isOff) request.onEnd({ kind: 'dropped', reason: shell.problem });
      return;
    }
    ({ channel } = shell);
    if (isOff) {
      channel.close();
      return;
    }
    const own = channel;
    const unhear = hearQuiet(shell.connection, () => {
      if (isOff) return;
      isOff = true;
      own.close();
      request.onEnd({ kind: 'dropped', reason: `${host} has stopped answering` });
    });
    own.once('close', unhear);
    const words = keepFirst(4_096);
    const whole = receive(channel, {
      async stdout(chunk) {
        if (!isOff) await request.onBytes(chunk);
      },
      stderr: (chunk) => {
        words.add(chunk);
      },
    });
    // The input stays open: its end is how the script there learns that we have gone.
    channel.write(asProgram(request.script));
    void whole.then((exitCode) => {
      if (isOff) return;
      if (exitCode === undefined) request.onEnd({ kind: 'dropped', reason: shell.connection.why });
      else request.onEnd({ kind: 'ended', exitCode, stderr: new TextDecoder().decode(words.bytes()) });
    });
  });
  return () => {
    isOff = true;
    channel?.close();
  };
}

/**
 * Takes a channel's output, one chunk at a time: while one is awaited no more is asked of the host. Resolves when all
 * was taken, with the exit code, or undefined when the line broke before there was one. 128 stands for a shell that was
 * itself ended by a signal.
 */
function receive(
  channel: ClientChannel,
  taker: { stdout(chunk: Uint8Array): Promise<void>; stderr(chunk: Uint8Array): void },
): Promise<number | undefined> {
  const body = afterBeginMark();
  let exitCode: number | undefined;
  let taking: Promise<void> = Promise.resolve();
  channel.on('data', (chunk: Buffer) => {
    const bytes = body(chunk);
    if (bytes.length === 0) return;
    channel.pause();
    taking = taking
      .then(() => taker.stdout(bytes))
      .finally(() => {
        channel.resume();
      });
  });
  channel.stderr.on('data', (chunk: Buffer) => {
    taker.stderr(chunk);
  });
  channel.on('exit', (code: number | null) => {
    exitCode = code ?? 128;
  });
  channel.on('error', () => undefined);
  return new Promise((resolve, reject) => {
    channel.once('close', () => {
      taking.then(() => {
        resolve(exitCode);
      }, reject);
    });
  });
}
