// ssh: the system's own ssh on a worker, on this terminal.

import { exitCode, JobmanError } from '../../app/errors.ts';
import { refOfName, type Cli, type GlobalFlags } from '../context.ts';

export interface SshFlags {
  readonly worker: number | undefined;
  readonly jobName: string | undefined;
}

export async function ssh(cli: Cli, flags: SshFlags & GlobalFlags, ...args: readonly string[]): Promise<number> {
  const client = await cli.services.client();
  const [first, ...rest] = args;
  const ref = flags.jobName === undefined ? first : await refOfName(client, flags.jobName);
  if (ref === undefined)
    throw new JobmanError('Which job? Say its id or name; `jobman list` shows them.', exitCode.usage);
  const command = flags.jobName === undefined ? rest : args;
  const { id } = await client.show(ref);
  const argv = await cli.services.sshArgv(id, flags.worker ?? 0, command);
  return cli.services.onTerminal(argv);
}
