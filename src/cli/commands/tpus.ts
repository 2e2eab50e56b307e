// tpus: what exists in the clouds, whose it is, and what it costs for nothing.

import { exitCode } from '../../app/errors.ts';
import type { TpuList, TpuQuery, TpuRow } from '../../app/tpus.ts';
import { given } from '../../core/given.ts';
import { sayTrouble, type Cli, type GlobalFlags } from '../context.ts';
import { moment } from '../../app/moment.ts';
import { confirm } from '../prompt.ts';
import { inertWord } from '../render/inert.ts';
import { missedText, tpuLines, tpuSum, whoseText } from '../render/tpus.ts';
import { columnsOf } from '../screen.ts';
import type { TpusFlags } from '../table/flags.ts';

export async function tpus(cli: Cli, flags: TpusFlags & GlobalFlags): Promise<number> {
  const { io } = cli;
  if (flags.forget !== undefined) return forget(cli, flags.forget);
  const list = await cli.services.tpus(queryOf(flags));
  if (cli.json) cli.printObjects(list.rows.map(tpuJson));
  else {
    cli.printAll(tpuLines(list.rows, columnsOf(io.stdout), io.now()));
    if (list.rows.length > 0) cli.note(tpuSum(list));
    else if (list.missed.length === 0) cli.note('No TPU exists there.');
    const shared = list.rows.find(({ whose }) => whose.kind === 'shared');
    if (shared !== undefined) cli.note(`To delete a TPU that was made with tpu apply: tpu delete ${shared.name}`);
  }
  return sayMissed(cli, list);
}

/** The project is no longer asked about because of finished jobs; a new job in it brings it back. */
async function forget(cli: Cli, project: string): Promise<number> {
  const isForgotten = await cli.services.forgetProject(project, (resources) => {
    const what = `${resources.join(', ')} may still exist and cost money`;
    return confirm(cli, `${inertWord(what)}. Forget it?`, `${inertWord(what)}; nothing was changed.`);
  });
  if (!isForgotten) return exitCode.failed;
  const sentence = `tpus and gc no longer ask about ${project}, unless a job that is not finished uses it.`;
  cli.answer({ project, message: sentence }, inertWord(sentence));
  return exitCode.ok;
}

/**
 * Says on standard error which projects and zones did not answer. Only where none answered is that the exit code: one project
 * out of reach must not fail a script that works on the others.
 */
export function sayMissed(
  cli: Cli,
  { missed, isAnswered, forgettable }: Pick<TpuList, 'missed' | 'isAnswered' | 'forgettable'>,
): number {
  for (const one of missed) {
    if (one.asleep) cli.note(`note: ${missedText(one)}`);
    else sayTrouble(cli, missedText(one));
  }
  const silent = [...new Set(missed.filter(({ asleep }) => !asleep).map(({ project }) => project))];
  if (silent.length === 0) return exitCode.ok;
  // A project that a job or a setting still needs cannot be forgotten.
  const [first] = silent.filter((project) => forgettable.includes(project));
  if (first !== undefined)
    cli.note(
      `To stop asking about ${silent.length === 1 ? 'that project' : 'such a project'}: jobman tpus --forget ${first}`,
    );
  return isAnswered ? exitCode.ok : exitCode.unreachable;
}

function queryOf({ all, zone, project }: TpusFlags): TpuQuery {
  return { all: all === true, ...given({ zone, project }) };
}

/** The row with moments as RFC 3339, and whose it is in one word beside the parts of that. */
export function tpuJson(row: TpuRow): object {
  return {
    ...row,
    whose: { ...row.whose, text: whoseText(row) },
    createdAt: moment(row.createdAt),
    readySince: moment(row.readySince),
  };
}
