// ssh-config: the workers of jobs as hosts of ssh_config(5), for editors and for everything else that goes over ssh.

import { exitCode, JobmanError } from '../../app/errors.ts';
import type { SshHost } from '../../app/by-hand.ts';
import { forEach, refsOf, type Cli } from '../context.ts';

export async function sshConfig(
  cli: Cli,
  flags: { readonly jobName?: string | undefined },
  ...args: readonly string[]
): Promise<number> {
  const client = await cli.services.client();
  const refs = await refsOf(client, args, flags.jobName);
  return forEach(cli, refs, async (ref) => {
    const { id } = await client.show(ref);
    const door = await cli.services.workers(id, 'own');
    try {
      for (const host of await door.sshHosts()) {
        if (cli.json) cli.print(JSON.stringify(hostJson(id, host)));
        else cli.print(hostBlock(id, host));
      }
    } finally {
      door.close();
    }
    return exitCode.ok;
  });
}

/** `jobman-42-0`, and for the first worker also `jobman-42`. */
function aliases(id: string, worker: number): readonly string[] {
  const short = `jobman-${Number(id)}`;
  return worker === 0 ? [`${short}-0`, short] : [`${short}-${worker}`];
}

/** Throws JobmanError for a value that would begin another line of the file. */
function hostBlock(id: string, { worker, host, options }: SshHost): string {
  const lines = [['HostName', host] as const, ...options].map(([name, value]) => {
    if (/\p{Cc}/u.test(value))
      throw new JobmanError(`${name} of worker ${worker} of job ${id} holds a control character.`, exitCode.failed, [
        `It is ${JSON.stringify(value)}.`,
      ]);
    return `  ${name} ${value}`;
  });
  return [`Host ${aliases(id, worker).join(' ')}`, ...lines, ''].join('\n');
}

/** Only IdentityFile may stand more than once; it is a list then. */
function hostJson(id: string, { worker, host, options }: SshHost): object {
  const identities = options.flatMap(([name, value]) => (name === 'IdentityFile' ? [value] : []));
  const more = identities.length > 1 ? { IdentityFile: identities } : {};
  return { job: id, worker, aliases: aliases(id, worker), HostName: host, ...Object.fromEntries(options), ...more };
}
