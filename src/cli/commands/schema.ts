// schema: what a manifest may hold, for editors.

import { exitCode } from '../../app/errors.ts';
import { manifestSchema } from '../../manifest/schema.ts';
import type { Cli } from '../context.ts';

export async function schema(cli: Cli): Promise<number> {
  cli.print(JSON.stringify(manifestSchema(), null, 2));
  return exitCode.ok;
}
