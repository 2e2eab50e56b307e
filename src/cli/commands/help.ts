// help: the words of a command line that asks for help without a flag.

import { exitCode, JobmanError } from '../../app/errors.ts';
import { isNamed } from '../entry.ts';
import { groups, helpText } from '../help.ts';
import { columnsOf } from '../screen.ts';
import { table } from '../table.ts';
import type { Cli } from '../context.ts';

/** The help of a command, of a group of commands, or of everything. */
export async function help(cli: Cli, _flags: object, ...words: readonly string[]): Promise<number> {
  const path = words.join(' ');
  if (path !== '' && !Object.hasOwn(groups, path) && !table.some((entry) => isNamed(entry, path))) {
    throw new JobmanError(`there is no command \`${path}\`.`, exitCode.usage, ['`jobman --help` lists them.']);
  }
  cli.io.stdout.write(helpText(path, columnsOf(cli.io.stdout)));
  return exitCode.ok;
}
