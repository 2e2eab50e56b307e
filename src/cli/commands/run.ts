// run: what is left to do for a job, now and in the foreground.

import { exitCode, JobmanError } from '../../app/errors.ts';
import { refsOf, type Cli, type GlobalFlags } from '../context.ts';

export interface RunFlags {
  readonly cmdOnly: boolean | undefined;
  readonly jobName: string | undefined;
}

export async function runJob(cli: Cli, flags: RunFlags & GlobalFlags, ref?: string): Promise<number> {
  const client = await cli.services.client();
  const [only, second] = await refsOf(client, ref === undefined ? [] : [ref], flags.jobName);
  if (only === undefined || second !== undefined) throw new JobmanError('Run one job at a time.', exitCode.usage);
  const { id } = await client.show(only);
  return cli.services.runNow(id, { commandOnly: flags.cmdOnly === true, say: cli.note });
}
