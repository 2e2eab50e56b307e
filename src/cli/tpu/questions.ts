// Questions whose answer is a word. Asked on a terminal only.

import { exitCode, JobmanError } from '../../app/errors.ts';
import type { Cli } from '../context.ts';

/** True on a terminal. */
export function canAsk({ io }: Pick<Cli, 'io'>): boolean {
  return io.stdin.isTerminal && io.stderr.isTerminal;
}

/**
 * The answer without blanks at its ends; `otherwise` where nothing but Enter was typed. Throws JobmanError (130) at the end of
 * the input.
 */
export async function question({ io }: Pick<Cli, 'io'>, text: string, otherwise = ''): Promise<string> {
  io.stderr.write(`${text}${otherwise === '' ? '' : ` [${otherwise}]`}: `);
  const answer = await io.stdin.line();
  if (answer === null) throw new JobmanError('Nothing was done.', exitCode.interrupted);
  return answer.trim() || otherwise;
}
