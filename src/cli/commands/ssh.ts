// ssh: the system's own ssh on a worker, on this terminal.

import { exitCode, JobmanError } from '../../app/errors.ts';
import { onEither } from '../cluster/either.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { refAndWords } from '../hosts/choose.ts';

export interface SshFlags {
  readonly worker?: number | undefined;
  readonly jobName?: string | undefined;
}

export async function ssh(cli: Cli, flags: SshFlags & GlobalFlags, ...args: readonly string[]): Promise<number> {
  const { refs, words } = refAndWords(args, flags.jobName);
  const anywhere = { jobName: flags.jobName, namespace: undefined, context: undefined };
  return onEither(cli, anywhere, refs, {
    async record(client, [ref = '']) {
      const { id } = await client.show(ref);
      return cli.services.onTerminal(await cli.services.sshArgv(id, flags.worker ?? 0, words));
    },
    cluster(_cluster, { name }) {
      throw new JobmanError(
        `${name} is a job of a cluster, whose pods have no ssh. A shell in one: jobman exec -j ${name} -it -- sh`,
        exitCode.usage,
      );
    },
  });
}
