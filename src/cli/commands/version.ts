// version: which jobman this is.

import { exitCode } from '../../app/errors.ts';
import type { Cli } from '../context.ts';

export async function version(cli: Cli): Promise<number> {
  const { version: own } = cli.io;
  cli.print(cli.json ? JSON.stringify({ version: own }) : `jobman ${own}`);
  return exitCode.ok;
}
