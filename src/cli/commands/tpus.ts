// tpus: what exists in the clouds, whose it is, and what it costs for nothing.

import { exitCode } from '../../app/errors.ts';
import type { TpuList, TpuQuery, TpuRow } from '../../app/tpus.ts';
import { sayTrouble, type Cli, type GlobalFlags } from '../context.ts';
import { moment } from '../../app/moment.ts';
import { missedText, tpuLines, tpuSum, whoseText } from '../render/tpus.ts';
import { columnsOf } from '../screen.ts';

export interface TpusFlags {
  readonly all: boolean | undefined;
  readonly zone: string | undefined;
  readonly project: string | undefined;
}

export async function tpus(cli: Cli, flags: TpusFlags & GlobalFlags): Promise<number> {
  const { io } = cli;
  const list = await cli.services.tpus(queryOf(flags));
  if (cli.json) {
    let text = '';
    for (const row of list.rows) text += `${JSON.stringify(tpuJson(row))}\n`;
    io.stdout.write(text);
  } else {
    const columns = columnsOf(io.stdout);
    io.stdout.write(
      tpuLines(list.rows, columns, io.now())
        .map((line) => `${line}\n`)
        .join(''),
    );
    if (list.rows.length > 0) cli.note(tpuSum(list));
    else if (list.missed.length === 0) cli.note('No TPU exists there.');
  }
  return sayMissed(cli, list);
}

/** What could not be asked is said on standard error, and is the exit code: a part must not be taken for the whole. */
export function sayMissed(cli: Cli, { missed }: Pick<TpuList, 'missed'>): number {
  for (const one of missed) {
    if (one.asleep) cli.note(`note: ${missedText(one)}`);
    else sayTrouble(cli, missedText(one));
  }
  return missed.some(({ asleep }) => !asleep) ? exitCode.unreachable : exitCode.ok;
}

function queryOf({ all, zone, project }: TpusFlags): TpuQuery {
  return {
    all: all === true,
    ...(zone === undefined ? {} : { zone }),
    ...(project === undefined ? {} : { project }),
  };
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
