// completion: the script that a shell reads once.

import { exitCode } from '../../app/errors.ts';
import { completionScript } from '../completion/scripts.ts';
import type { Shell } from '../completion/shells.ts';
import type { Cli } from '../context.ts';

export async function completion(cli: Cli, _flags: object, shell: Shell): Promise<number> {
  cli.io.stdout.write(completionScript(shell));
  return exitCode.ok;
}
