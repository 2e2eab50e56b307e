import type { SshFlags } from '../table/flags.ts';
import type { SshHostOutput } from '../outputs.ts';
import type { SshHost } from '../../app/worker-access.ts';
import { exitCode, JobmanError, usageError } from '../../app/errors.ts';
import { runSsh } from '../jobs/machines.ts';
import { forEachJob } from '../jobs/resolve.ts';
import { type Cli, forEach, type GlobalFlags, refuseJson, splitRef, refsOf } from '../context.ts';

export async function ssh(cli: Cli, flags: SshFlags & GlobalFlags, ...args: readonly string[]): Promise<number> {
  refuseJson(cli.json, '`jobman ssh`');
  const { refs, rest } = splitRef(args, flags.jobName);
  return forEachJob(cli, { jobName: flags.jobName }, refs, 'change', (job, jobs) =>
    runSsh(cli, jobs, job, flags.worker ?? 0, rest),
  );
}

export async function sshConfig(
  cli: Cli,
  flags: { readonly jobName?: string | undefined },
  ...args: readonly string[]
): Promise<number> {
  const client = await cli.services.client();
  const refs = await refsOf(client, args, flags.jobName);
  return forEach(cli, refs, async (ref) => {
    const access = await cli.services.workers(ref, 'own');
    const { job } = access.ticket;
    try {
      if (access.ssh === null)
        throw usageError(
          'Through a server there is no configuration for ssh, because the keys of the workers stay on the server.',
          [
            `A shell: jobman ssh ${Number(job)} · For an editor: jobman port-forward ${Number(job)} 2222:22, with your own key`,
          ],
        );
      for (const host of await access.ssh.hosts()) {
        if (cli.json) cli.printJson(hostJson(job, host));
        else cli.print(hostBlock(job, host));
      }
    } finally {
      access.close();
    }
    return exitCode.ok;
  });
}

function aliases(id: string, worker: number): readonly string[] {
  const short = `jobman-${Number(id)}`;
  return worker === 0 ? [`${short}-0`, short] : [`${short}-${worker}`];
}

/** Throws JobmanError for a control character, which could begin another line of the file. */
function hostBlock(id: string, { worker, host, options }: SshHost): string {
  const lines = [['HostName', host] as const, ...options].map(([name, value]) => {
    if (/\p{Cc}/u.test(value))
      throw new JobmanError(`${name} of worker ${worker} of job ${id} contains a control character.`, exitCode.failed, [
        `Value: ${JSON.stringify(value)}.`,
      ]);
    return `  ${name} ${value}`;
  });
  return [`Host ${aliases(id, worker).join(' ')}`, ...lines, ''].join('\n');
}

function hostJson(job: string, { worker, host, options }: SshHost): SshHostOutput {
  const values = Map.groupBy(options, ([name]) => name);
  const byName = Object.fromEntries([...values].map(([name, pairs]) => [name, pairs.map(([, value]) => value)]));
  return { job, worker, aliases: aliases(job, worker), host, options: byName };
}
