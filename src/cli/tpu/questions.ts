// Questions whose answer is a word. Asked on a terminal only.

import { exitCode, JobmanError } from '../../app/errors.ts';
import type { Cli } from '../context.ts';
import { confirm } from '../prompt.ts';
import type { Words } from './words.ts';

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

/** As `confirm`, of a fact and the question about it: where nobody can be asked, the fact is what was refused. */
export function confirmDespite(cli: Cli, fact: string, asks: string): Promise<boolean> {
  return confirm(cli, `${fact} ${asks}`, fact);
}

/** Whether the next line that is typed says yes. */
export async function saysYes({ io }: Pick<Cli, 'io'>): Promise<boolean> {
  return /^(y|yes)$/i.test((await io.stdin.line())?.trim() ?? '');
}

/** The notes for the booking sheet; null where none are said. Throws JobmanError (2), with `refused`, where nobody can be asked. */
export async function notesOf(cli: Pick<Cli, 'io'>, { keys, flags }: Words, refused: string): Promise<string | null> {
  const said = keys['ssn'];
  if (said !== undefined || !flags.has('ssn')) return said ?? null;
  if (canAsk(cli)) return question(cli, 'Notes for the booking sheet');
  throw new JobmanError(refused, exitCode.usage);
}
