// clean: removes the files of settled jobs.

import type { AskAnswer, Ref } from '../../app/client.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { forEachRef, refsOf, type Cli, type GlobalFlags } from '../context.ts';
import { confirm } from '../prompt.ts';
import { sayAnswer } from './ask.ts';

export interface CleanFlags {
  readonly all: boolean | undefined;
}

export async function clean(cli: Cli, flags: CleanFlags & GlobalFlags, ...args: readonly Ref[]): Promise<number> {
  const client = await cli.services.client();
  const worstOf = (answers: readonly AskAnswer[]): number =>
    Math.max(exitCode.ok, ...answers.map((answer) => sayAnswer(cli, answer)));
  const cleanOne = async (ref: Ref): Promise<number> => worstOf(await client.clean(ref, cli.io.user));
  if (flags.all !== true) return forEachRef(cli, await refsOf(client, args, undefined), cleanOne);
  if (args.length > 0) throw new JobmanError('Say jobs or --all, not both.', exitCode.usage);
  const question = 'Remove the logs and copies of all your settled jobs?';
  if (await confirm(cli, question, 'Nothing was removed.')) {
    const answers = await client.clean(null, cli.io.user);
    if (answers.length === 0) cli.note('No settled job of yours has files left.');
    return worstOf(answers);
  }
  cli.note('Nothing was removed.');
  return exitCode.failed;
}
