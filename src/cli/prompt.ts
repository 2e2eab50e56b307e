import type { Client, ConfirmationRequired, Ref } from '../app/client.ts';
import { exitCode, JobmanError, usageError } from '../app/errors.ts';
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

/** One line of input, or `fallback` for an empty one and with --yes. Throws a usage error without a terminal. */
export async function ask(cli: Cli, question: string, flag: string, fallback: string): Promise<string> {
  if (cli.yes) return fallback;
  if (!canAsk(cli)) {
    throw usageError(`${flag} is missing, and there is no terminal to ask on.`, [
      'For example: jobman init --accelerator v4-16 --command "python3 train.py"',
    ]);
  }
  cli.io.stderr.write(fallback === '' ? `${question} ` : `${question} [${fallback}]: `);
  const answer = await cli.io.stdin.line();
  if (answer === null) throw new JobmanError('No answer; nothing was written.', exitCode.interrupted);
  return answer.trim() || fallback;
}
