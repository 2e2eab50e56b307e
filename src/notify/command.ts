// Command: a program of the user that gets a message. Only the settings contribute text for the shell: facts of jobs
// arrive as JSON on its standard input and in environment variables.

import { commandEnvironment, messageJson } from '../app/notifications/message-text.ts';
import type { Message, SendResult } from '../app/notifications/outbox.ts';
import { second, type Duration } from '../core/model/time.ts';
import { errorText } from './secret.ts';

/** Runs a program for a bounded time, and then kills it with its children. Never rejects. */
export type RunCommand = (request: {
  readonly argv: readonly string[];
  readonly stdin: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly timeoutMs: Duration;
  readonly maxOutputBytes: number;
}) => Promise<{
  readonly exitCode: number | null;
  readonly signal: string | null;
  readonly stdout: Uint8Array;
  readonly stderr: Uint8Array;
  readonly timedOut: boolean;
  readonly error: string | null;
}>;

const defaultTimeout: Duration = 30 * second;

/** Runs the command of a channel for one message. Never rejects. It starts in the user's home folder. */
export async function sendToCommand(
  command: string,
  message: Message,
  context: {
    readonly run: RunCommand;
    readonly env: Readonly<Record<string, string | undefined>>;
    readonly userHome: string;
  },
  timeoutMs: Duration = defaultTimeout,
): Promise<SendResult> {
  const { exitCode, signal, stdout, stderr, timedOut, error } = await context.run({
    argv: ['/bin/sh', '-c', command],
    stdin: `${messageJson(message)}\n`,
    env: { ...context.env, ...commandEnvironment(message) },
    cwd: context.userHome,
    timeoutMs,
    maxOutputBytes: 16 * 1024,
  });
  if (exitCode === 0) return { kind: 'sent', detail: 'exit code 0' };
  const ended = timedOut
    ? `it did not end within ${timeoutMs / second} s and was killed`
    : (error ?? (exitCode === null ? `it was killed by ${signal ?? 'a signal'}` : `exit code ${exitCode}`));
  const output = Buffer.from(stderr.length > 0 ? stderr : stdout)
    .toString('utf8')
    .trim()
    .slice(-250);
  return { kind: 'failed', error: errorText(output === '' ? ended : `${ended}: ${output}`, []) };
}
