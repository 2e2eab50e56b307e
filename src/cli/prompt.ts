import type { Client, ConfirmationRequired, Ref } from '../app/client.ts';
import { exitCode, JobmanError } from '../app/errors.ts';
import type { Cli } from './context.ts';
import { wrap } from './render/cell.ts';
import type { JobSpec } from '../core/model/spec.ts';

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
): Promise<boolean> {
  if (cli.yes) return true;
  if (!canAsk(cli)) {
    throw new JobmanError(`${refused} Confirm with --yes.`, exitCode.conflict, [], {
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
 * True if the grants cover the action and no other user uses the TPU, or if the user answers yes. Throws a usage error
 * without a terminal, and a JobmanError if the request is refused. `doing` names the action (`create it`), `notDone` its absence (`Nothing was created`).
 */
export async function confirmIfRequired(
  cli: Cli,
  client: Client,
  subject: JobSpec | Ref,
  doing: string,
  notDone: string,
): Promise<boolean> {
  const confirmation = await client.checkPolicy(subject);
  return confirmation === null || confirmRequired(cli, confirmation, doing, notDone);
}

export async function confirmRequired(
  cli: Cli,
  confirmation: ConfirmationRequired,
  doing: string,
  notDone: string,
): Promise<boolean> {
  if (confirmation.isRefused === true)
    throw new JobmanError(`${notDone}: ${confirmation.message}.`, exitCode.conflict, [confirmation.remedy]);
  const cost = confirmation.cost === null ? '' : `. It costs ${confirmation.cost}`;
  const message = `${confirmation.message}${cost}`;
  if (confirmation.mayProceed === true) {
    if (cli.yes) return true;
    if (!canAsk(cli)) {
      cli.note(`note: ${message}.`);
      return true;
    }
    if (await confirm(cli, `${message}. ${doing}?`, notDone)) return true;
    cli.note(`${notDone}. ${confirmation.remedy}`);
    return false;
  }
  const refused = `${notDone}: ${message}. ${confirmation.remedy}`;
  if (await confirm(cli, `${message}. ${doing} anyway?`, refused, [`${message}.`])) return true;
  cli.note(`${notDone}.`);
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
