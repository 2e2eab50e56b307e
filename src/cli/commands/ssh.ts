// ssh: the system's own ssh on a worker, on this terminal.

import type { Cli, GlobalFlags } from '../context.ts';
import { jobAndWords } from '../hosts/choose.ts';

export interface SshFlags {
  readonly worker: number | undefined;
  readonly jobName: string | undefined;
}

export async function ssh(cli: Cli, flags: SshFlags & GlobalFlags, ...args: readonly string[]): Promise<number> {
  const client = await cli.services.client();
  const { view, words } = await jobAndWords(client, args, flags.jobName);
  const argv = await cli.services.sshArgv(view.id, flags.worker ?? 0, words);
  return cli.services.onTerminal(argv);
}
