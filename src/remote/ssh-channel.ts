// What runs over one channel of an SSH connection: a script to its end, a script whose output is followed, and a session.

import type { ClientChannel } from 'ssh2';
import type { Session, SessionEnd, SessionRequest } from '../app/by-hand.ts';
import { second } from '../core/time.ts';
import { keepFirst } from './process.ts';
import { dataMost, sessionScript, stopMost, word } from './session.ts';
import { hearQuiet, type Connection, type Problem } from './ssh-connection.ts';
import { afterBeginMark, asProgram, type RunRequest, type RunResult, type StreamRequest } from './transport.ts';

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
      const whole = receiveScript(own, {
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
    const whole = receiveScript(channel, {
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
function receiveScript(
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

export function sessionOver(open: OpenShell, request: Omit<SessionRequest, 'inside'>): Session {
  let channel: ClientChannel | undefined;
  let isStopped = false;
  let isOver = false;
  let patience: NodeJS.Timeout | undefined;

  const opened = open();
  // The shell there reads its script in blocks: what we say before it has all of it would be taken for a part of it.
  let begin: () => void = () => undefined;
  const begun = new Promise<void>((resolve) => (begin = resolve));

  async function toEnd(): Promise<SessionEnd> {
    const shell = await opened;
    if ('problem' in shell) return { kind: 'no_answer', reason: shell.problem, sent: false };
    if (isStopped) {
      shell.channel.close();
      return { kind: 'no_answer', reason: 'stopped before it had begun', sent: false };
    }
    ({ channel } = shell);
    channel.write(asProgram(sessionScript(request.program, request.receives)));
    const end = await receiveSession(channel, request, begin);
    clearTimeout(patience);
    if (end !== undefined) return { kind: 'ended', ...end };
    const reason = shell.connection.why || 'the line was closed';
    return { kind: 'no_answer', reason, sent: true };
  }

  const ended = toEnd().finally(() => {
    isOver = true;
  });

  async function write(bytes: Uint8Array): Promise<void> {
    const shell = await opened;
    if ('problem' in shell) return;
    await Promise.race([begun, ended]);
    if (isOver || isStopped) return;
    for (let from = 0; from < bytes.length; from += dataMost) {
      const part = bytes.subarray(from, from + dataMost);
      shell.channel.write(word.data(part.length));
      await Promise.race([ended, new Promise((resolve) => shell.channel.write(part, resolve))]);
    }
  }

  return {
    write,
    end() {
      void begun.then(() => {
        if (!isOver && !isStopped) channel?.write(word.end);
      });
    },
    stop() {
      if (isStopped || isOver) return;
      isStopped = true;
      if (channel === undefined) return;
      void begun.then(() => channel?.write(word.stop));
      // A program that does not answer even then is left to the watcher there, which sees the line end.
      patience = setTimeout(() => channel?.close(), stopMost);
    },
    ended,
  };
}

const reasonMost = 4_096;

/** Hands on all that comes; resolves with how the program ended, or undefined when the line broke before it was told. */
async function receiveSession(
  channel: ClientChannel,
  request: Pick<SessionRequest, 'onBytes'>,
  begun: () => void,
): Promise<{ readonly exitCode: number | null; readonly signal: string | null } | undefined> {
  let end: { readonly exitCode: number | null; readonly signal: string | null } | undefined;
  let taking: Promise<void> = Promise.resolve();
  let unsaid = (): Uint8Array => new Uint8Array(0);
  const take = (name: 'stdout' | 'stderr', stream: ClientChannel | ClientChannel['stderr']): void => {
    // The output of a login shell's start-up files is none of the program's.
    let isBegun = false;
    const body = afterBeginMark(() => {
      isBegun = true;
      begun();
    });
    let before = Buffer.alloc(0);
    if (name === 'stderr') unsaid = () => (isBegun ? new Uint8Array(0) : before);
    stream.on('data', (chunk: Buffer) => {
      const bytes = body(chunk);
      if (!isBegun && before.length < reasonMost) before = Buffer.concat([before, chunk]).subarray(0, reasonMost);
      if (bytes.length === 0) return;
      stream.pause();
      taking = taking
        .then(() => request.onBytes(bytes, name))
        .finally(() => {
          stream.resume();
        });
    });
  };
  take('stdout', channel);
  take('stderr', channel.stderr);
  channel.on('exit', (code: number | null, signal?: string) => {
    end = { exitCode: code, signal: code === null ? (signal ?? 'SIGKILL').replace(/^SIG/u, '') : null };
  });
  channel.on('error', () => undefined);
  // Our side stays open for the watcher's words, and is closed with the other.
  channel.on('end', () => {
    channel.end();
  });
  await new Promise<void>((resolve) => {
    channel.once('close', resolve);
  });
  await taking;
  // A program that never began leaves only the reason of whatever should have begun it.
  const reason = unsaid();
  if (reason.length > 0) await request.onBytes(reason, 'stderr');
  return end;
}
