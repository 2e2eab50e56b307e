// A session over a channel of an SSH connection: the program's streams apart and whole, its input, and its end.

import type { ClientChannel } from 'ssh2';
import type { Session, SessionEnd, SessionRequest } from '../app/by-hand.ts';
import { dataMost, sessionScript, stopMost, word } from './session.ts';
import { afterBeginMark, asProgram } from './transport.ts';

/** A shell that waits for its program, and why its line broke once it has. */
export interface OpenShell {
  readonly channel: ClientChannel;
  readonly why: () => string;
}

/** Runs the program of `request` in a shell that `open` gives. */
export function sessionOver(
  open: () => Promise<OpenShell | { readonly problem: string }>,
  request: Omit<SessionRequest, 'inside'>,
): Session {
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
    const end = await receive(channel, request, begin);
    clearTimeout(patience);
    if (end !== undefined) return { kind: 'ended', ...end };
    const reason = shell.why();
    return { kind: 'no_answer', reason: reason === '' ? 'the line was closed' : reason, sent: true };
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

/** How much of what is printed before a program begins is kept, in bytes. */
const reasonMost = 4_096;

/** Hands on all that comes; resolves with how the program ended, or undefined when the line broke before it was told. */
async function receive(
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
