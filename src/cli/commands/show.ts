// show, also called details.

import { exitCode } from '../../app/errors.ts';
import { forEachRef, refsOf, type Cli, type GlobalFlags } from '../context.ts';
import { replaceKilled } from '../controller.ts';
import { viewJson } from '../../app/json.ts';
import { showLines } from '../render/show.ts';
import { isSettled } from '../settled.ts';
import { columnsOf } from '../screen.ts';

export interface ShowFlags {
  readonly jobName: string | undefined;
}

export async function show(cli: Cli, flags: ShowFlags & GlobalFlags, ...args: readonly string[]): Promise<number> {
  const { io, screen } = cli;
  const client = await cli.services.client();
  const refs = await refsOf(client, args, flags.jobName);
  let isFirst = true;
  let isAlive = false;
  const code = await forEachRef(cli, refs, async (ref) => {
    const view = await client.show(ref);
    isAlive ||= !isSettled(view);
    if (cli.json) {
      cli.print(JSON.stringify(viewJson(view)));
      return exitCode.ok;
    }
    const columns = columnsOf(io.stdout);
    const lines = showLines(view, { columns, ink: screen.out, unicode: screen.unicode, now: io.now() });
    // A blank line between jobs, where there are several.
    io.stdout.write(`${isFirst ? '' : '\n'}${lines.join('\n')}\n`);
    isFirst = false;
    return exitCode.ok;
  });
  if (isAlive) await replaceKilled(cli, client, true);
  return code;
}
