// clean: removes the files of settled jobs.

import type { AskAnswer, Ref } from '../../app/client.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { onEither, type PlaceFlags } from '../cluster/either.ts';
import { forEach, sayAnswer, type Cli, type GlobalFlags } from '../context.ts';
import { confirm } from '../prompt.ts';

export interface CleanFlags extends PlaceFlags {
  readonly all?: boolean | undefined;
  readonly jobName?: string | undefined;
}

export async function clean(cli: Cli, flags: CleanFlags & GlobalFlags, ...args: readonly Ref[]): Promise<number> {
  const client = await cli.services.client();
  const worstOf = (answers: readonly AskAnswer[]): number =>
    Math.max(exitCode.ok, ...answers.map((answer) => sayAnswer(cli, answer)));
  const cleanOne = async (ref: Ref): Promise<number> => worstOf(await client.clean(ref, cli.io.user));
  if (flags.all !== true) {
    return onEither(cli, flags, args, {
      changes: true,
      evenAway: true,
      record: (_, refs) => forEach(cli, refs, cleanOne),
      async cluster(cluster, job) {
        const { cleanOfCluster } = await import('../cluster/kept.ts');
        return cleanOfCluster(cli, cluster, job);
      },
      evenHidden: true,
      async kept(keeper, job) {
        const { cleanKept } = await import('../cluster/kept.ts');
        return cleanKept(cli, keeper, job);
      },
    });
  }
  if (args.length > 0 || flags.jobName !== undefined)
    throw new JobmanError('Say jobs or --all, not both.', exitCode.usage);
  const question = 'Remove the logs and copies of all your settled jobs?';
  if (await confirm(cli, question, 'Nothing was removed.')) {
    const answers = await client.clean(null, cli.io.user);
    const worst = worstOf(answers);
    const keeper = await cli.services.keeper();
    const kept = (await keeper.jobs({})).filter(({ goneAt, job }) => goneAt !== null && job.owner === cli.io.user);
    if (answers.length === 0 && kept.length === 0) cli.note('No settled job of yours has files left.');
    if (kept.length === 0) return worst;
    const { cleanKept } = await import('../cluster/kept.ts');
    let code = worst;
    for (const job of kept) code = Math.max(code, await cleanKept(cli, keeper, job));
    return code;
  }
  cli.note('Nothing was removed.');
  return exitCode.failed;
}
