// help: the words of a command line that asks for help without a flag.

import type { Program } from '../command.ts';
import type { Cli } from '../context.ts';
import { printHelp } from '../find-command.ts';

/** The help of a command, of commands that share their first word, or of everything. */
export function helpOf(program: Program) {
  return async ({ io }: Cli, _flags: object, ...words: readonly string[]): Promise<number> =>
    printHelp(io, program, words);
}
