// validate: everything that is wrong with a manifest, at once.

import { exitCode } from '../../app/errors.ts';
import { countText } from '../../app/figures.ts';
import type { Cli } from '../context.ts';
import { checkManifest } from '../manifest-file.ts';

export async function validate(cli: Cli, _flags: object, path: string): Promise<number> {
  const found = await checkManifest(cli, path, [], 'check');
  if ('problems' in found) {
    // With --json the problems are the result; for people they are what went wrong.
    if (cli.json) for (const problem of found.problems) cli.print(JSON.stringify({ file: path, ...problem }));
    else for (const line of found.lines) cli.complain(line);
    if (!cli.json) cli.complain(`${countText(found.lines.length, 'problem')}.`);
    return exitCode.usage;
  }
  const { spec, warnings } = found.manifest;
  for (const warning of warnings) cli.note(`warning: ${warning}`);
  if (!cli.json) cli.tell(`${path} is fine: job ${spec.name}.`);
  return exitCode.ok;
}
