import type { ConfirmationNeeded } from '../app/client.ts';
import { exitCode, JobmanError, usageError } from '../app/errors.ts';
import { formatReason } from '../app/format.ts';
import { confirmationRefusal } from '../app/new-job.ts';
import type { Cli } from './context.ts';
import { abortOnSignal } from './interrupt.ts';
import { wrap } from './render/cell.ts';
import type { ConfirmationToken } from '../core/policy/guards.ts';

/** True if a person can see the question and answer it. */
export function canAsk({ io }: Pick<Cli, 'io'>): boolean {
  return io.stdin.isTerminal && io.stderr.isTerminal;
}

/** True for yes or --yes. Throws a usage error without a terminal: `refused` says what was not done. */
export async function confirm(
  cli: Cli,
  question: string,
  refused: string,
  reasons: readonly string[] = [refused],
  how = 'Confirm',
): Promise<boolean> {
  if (cli.yes) return true;
  if (!canAsk(cli)) {
    throw new JobmanError(`${refused} ${how} with --yes.`, exitCode.conflict, [], {
      errorCode: 'confirmation_required',
      reasons,
    });
  }
  const lines = wrap(`${question} [y/N]`, cli.io.stderr.size().columns - 1);
  cli.io.stderr.write(`${lines.join('\n')} `);
  const answer = await cli.io.stdin.line();
  return /^(y|yes)$/i.test(answer?.trim() ?? '');
}

/**
 * Sends a request until no reason is left to confirm, and asks for each. Null if the user answers no. Throws a usage error
 * without a terminal, and JobmanError if the request is refused. `doing` names the action (`Create it`), `notDone` its
 * absence (`Nothing was created`).
 */
export async function untilConfirmed<Answer extends { readonly confirmation?: ConfirmationNeeded }>(
  cli: Cli,
  doing: string,
  notDone: string,
  send: (confirmed: readonly ConfirmationToken[]) => Promise<Answer>,
): Promise<Exclude<Answer, { readonly kind: 'confirmation_required' }> | null> {
  let confirmed: readonly ConfirmationToken[] = [];
  for (;;) {
    const answer = await send(confirmed);
    if (answer.confirmation === undefined) return answer as Exclude<Answer, { readonly kind: 'confirmation_required' }>;
    const { reasons } = answer.confirmation;
    if (!(await confirmReasons(cli, answer.confirmation, doing, notDone))) return null;
    confirmed = [...confirmed, ...reasons.map(({ token }) => token).filter((token) => token !== null)];
  }
}

async function confirmReasons(
  cli: Cli,
  { reasons, notice }: ConfirmationNeeded,
  doing: string,
  notDone: string,
): Promise<boolean> {
  const refusal = confirmationRefusal(reasons, notDone);
  if (refusal !== null) throw refusal;
  const sentences = reasons.map(formatReason);
  const [remedies, mayProceed] = [
    [...new Set(reasons.map(({ remedy }) => remedy))].join(' '),
    reasons.every((reason) => reason.mayProceed),
  ];
  if (mayProceed && !cli.yes && !canAsk(cli)) {
    cli.note(`note: ${sentences.join(' ')}`);
    return true;
  }
  if (notice !== null && !cli.yes) cli.note(notice);
  const question = `${sentences.join(' ')} ${doing}${mayProceed ? '' : ' anyway'}?`;
  if (await confirm(cli, question, `${notDone}: ${sentences.join(' ')} ${remedies}`, sentences)) return true;
  cli.note(mayProceed ? `${notDone}. ${remedies}` : `${notDone}.`);
  return false;
}

/** One trimmed line, or `fallback` for an empty one. Throws JobmanError (130) at the end of the input. */
export async function ask({ io }: Pick<Cli, 'io'>, question: string, fallback = ''): Promise<string> {
  const shown = fallback === '' ? question : `${question} [${fallback}]`;
  io.stderr.write(shown.endsWith('?') ? `${shown} ` : `${shown}: `);
  const answer = await io.stdin.line();
  if (answer === null) throw new JobmanError('No answer; nothing was changed.', exitCode.interrupted);
  return answer.trim() || fallback;
}

/** One line that is not shown. Throws JobmanError for a pasted text of several lines, and (130) after Ctrl-C or Ctrl-D. */
async function askHidden({ io }: Pick<Cli, 'io'>, question: string): Promise<string> {
  io.stderr.write(`${question}: `);
  let typed = '';
  let release = (): void => undefined;
  try {
    await new Promise<void>((resolve, reject) => {
      release = io.stdin.keys((keys) => {
        for (const { index, 0: key } of keys.matchAll(/./gsu)) {
          if (key === '\r' || key === '\n') {
            const isWhole = keys.slice(index).trim() === '';
            return isWhole ? resolve() : reject(usageError('The value has several lines: use --file or a pipe.'));
          }
          if (key === '\u0003' || key === '\u0004')
            return reject(new JobmanError('No value; nothing was changed.', exitCode.interrupted));
          if (key === '\u007f' || key === '\b') typed = typed.replace(/.$/su, '');
          else if (key >= ' ' || key === '\t') typed += key;
        }
      });
    });
  } finally {
    release();
    io.stderr.write('\n');
  }
  return typed;
}

/** Asks again after each answer that `check` refuses with a JobmanError. */
export async function askUntilValid<Value>(
  cli: Cli,
  question: string,
  fallback: string,
  check: (answer: string) => Value | Promise<Value>,
): Promise<Value> {
  for (;;) {
    const answer = await ask(cli, question, fallback);
    try {
      return await check(answer);
    } catch (error) {
      if (!(error instanceof JobmanError)) throw error;
      cli.printStderr(error.message);
    }
  }
}

/** A value that is not shown: from a terminal one line, otherwise all of standard input. Throws as `askHidden` does. */
export async function readHidden(cli: Cli, question: string, maxBytes: number): Promise<Uint8Array> {
  if (cli.io.stdin.isTerminal) return Buffer.from(await askHidden(cli, question));
  const { signal, release } = abortOnSignal(cli);
  const chunks: Uint8Array[] = [];
  let size = 0;
  try {
    for await (const chunk of cli.io.stdin.bytes(signal)) {
      chunks.push(chunk);
      size += chunk.length;
      if (size > maxBytes) break;
    }
  } finally {
    release();
  }
  if (signal.aborted) throw new JobmanError('Interrupted. Nothing was changed.', exitCode.interrupted);
  return Buffer.concat(chunks);
}
