// Questions. Asked on a terminal only; elsewhere the answer is the safe one, and the flag that says yes is named.

import type { Client, Ref } from '../app/client.ts';
import { usageError } from '../app/errors.ts';
import type { Cli } from './context.ts';
import { wrap } from './render/cell.ts';
import type { JobSpec } from '../core/spec.ts';

/**
 * True when the user says yes, or said so with --yes; false when they say anything else. Throws a usage error where
 * nobody can be asked: `refused` says what was not done.
 */
export async function confirm(cli: Cli, question: string, refused: string): Promise<boolean> {
  if (cli.yes) return true;
  if (!cli.io.stdin.isTerminal || !cli.io.stderr.isTerminal) {
    throw usageError(`${refused} Say --yes to do it without a question.`);
  }
  const lines = wrap(`${question} [y/N]`, cli.io.stderr.size().columns);
  cli.io.stderr.write(`${lines.join('\n')} `);
  const answer = await cli.io.stdin.line();
  return /^(y|yes)$/i.test(answer?.trim() ?? '');
}

/**
 * True when it may go on: the grants cover it and nobody else uses it, or the user says yes. Throws a usage error where nobody
 * can be asked. `doing` is what would be done (`create it`), `undone` what was not (`Nothing was created`).
 */
export async function isGranted(
  cli: Cli,
  client: Client,
  asked: JobSpec | Ref,
  doing: string,
  undone: string,
): Promise<boolean> {
  const beyond = await client.beyond(asked);
  if (beyond === null) return true;
  const cost = beyond.cost === null ? '' : `. It costs ${beyond.cost}`;
  const said = `${beyond.sentence}${cost}`;
  if (beyond.mayContinue === true) {
    if (cli.yes) return true;
    if (!cli.io.stdin.isTerminal || !cli.io.stderr.isTerminal) {
      cli.note(`note: ${said}.`);
      return true;
    }
    if (await confirm(cli, `${said}. ${doing}?`, undone)) return true;
    cli.note(`${undone}. ${beyond.remedy}`);
    return false;
  }
  const refused = `${undone}: ${said}. ${beyond.remedy}`;
  if (await confirm(cli, `${said}. ${doing} all the same?`, refused)) return true;
  cli.note(`${undone}.`);
  return false;
}
