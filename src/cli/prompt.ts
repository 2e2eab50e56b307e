// Questions. Asked on a terminal only; elsewhere the answer is the safe one, and the flag that says yes is named.

import { exitCode, JobmanError } from '../app/errors.ts';
import type { Cli } from './context.ts';
import { wrap } from './render/cell.ts';

/**
 * True when the user says yes, or said so with --yes; false when they say anything else. Throws a usage error where
 * nobody can be asked: `refused` says what was not done.
 */
export async function confirm(cli: Cli, question: string, refused: string): Promise<boolean> {
  if (cli.yes) return true;
  if (!cli.io.stdin.isTerminal || !cli.io.stderr.isTerminal) {
    throw new JobmanError(`${refused} Say --yes to do it without a question.`, exitCode.usage);
  }
  const lines = wrap(`${question} [y/N]`, cli.io.stderr.size().columns);
  cli.io.stderr.write(`${lines.join('\n')} `);
  const answer = await cli.io.stdin.line();
  return /^(y|yes)$/i.test(answer?.trim() ?? '');
}
