// run: what is left to do for a job, now and in the foreground.

import { exitCode, JobmanError } from '../../app/errors.ts';
import { refsOf, type Cli, type GlobalFlags } from '../context.ts';
import { wake } from '../controller.ts';
import { isGranted } from '../granted.ts';
import { leaveOnSignal } from '../leave.ts';

export interface RunFlags {
  readonly cmdOnly?: boolean | undefined;
  readonly jobName?: string | undefined;
}

/** A job that is under way is only followed. One that is not is started, with --cmd-only on the workers it holds ready. */
export async function runJob(cli: Cli, flags: RunFlags & GlobalFlags, ...refs: readonly string[]): Promise<number> {
  if (cli.behind.length > 0)
    throw new JobmanError('`jobman run` runs a job that exists, and takes no program.', exitCode.usage, [
      `For a new job, write \`${cli.behind.join(' ')}\` as command.cmd of a manifest: jobman create train.yaml`,
      'In a Kubernetes cluster: jobman submit -i IMAGE -- PROGRAM',
    ]);
  const client = await cli.services.client();
  const [only, second] = await refsOf(client, refs, flags.jobName);
  if (only === undefined || second !== undefined) throw new JobmanError('Run one job at a time.', exitCode.usage);
  const [{ followToEnd }, { id, desired, phase, attempts }] = await Promise.all([
    import('../follow/to-end.ts'),
    client.show(only),
  ]);
  const isUnderWay = desired === 'run' && phase !== 'succeeded' && phase !== 'failed';
  const leave = leaveOnSignal(cli);
  try {
    if (!isUnderWay || flags.cmdOnly === true) {
      if (!(await isGranted(cli, client, id, 'Start it', `Job ${id} was not started`))) return exitCode.failed;
      const answer = await client.ask(id, 'start', { by: cli.io.user, commandOnly: flags.cmdOnly === true });
      if (!answer.ok) throw new JobmanError(answer.message, answer.code);
      cli.note(answer.message);
    }
    await wake(cli, client);
    // Output of earlier attempts is not shown.
    const after = attempts.at(-1)?.ended === null ? undefined : attempts.length;
    return await followToEnd(cli, client, id, leave.signal, false, after);
  } finally {
    leave.release();
  }
}
