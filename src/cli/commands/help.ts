// help: the words of a command line that asks for help without a flag.

import { exitCode, JobmanError } from '../../app/errors.ts';
import type { Program } from '../command.ts';
import type { Cli } from '../context.ts';
import { helpFor } from '../help.ts';
import { columnsOf } from '../screen.ts';

/** The help of a command, of commands that share their first word, or of everything. */
export function helpOf(program: Program): (cli: Cli, flags: object, ...words: readonly string[]) => Promise<number> {
  return async (cli, _flags, ...words) => {
    const lines = helpFor(program, words.join(' '), columnsOf(cli.io.stdout));
    if (lines === undefined) {
      throw new JobmanError(`there is no command \`${words.join(' ')}\`.`, exitCode.usage, [
        '`jobman --help` lists them.',
      ]);
    }
    cli.io.stdout.write(`${lines.join('\n')}\n`);
    return exitCode.ok;
  };
}
