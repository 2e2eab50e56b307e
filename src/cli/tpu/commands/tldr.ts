// tldr: the commands of a usual day on one page.

import { exitCode } from '../../../app/errors.ts';
import { inColumns } from '../../render/in-columns.ts';
import { columnsOf } from '../../screen.ts';
import { days } from '../tldr.ts';
import type { TpuCli } from '../tpu-cli.ts';

export async function tldr(desk: TpuCli): Promise<number> {
  const columns = columnsOf(desk.io.stdout);
  const lines = days.flatMap(([heading, rows], index) => [
    ...(index === 0 ? [] : ['']),
    heading,
    ...inColumns(rows, columns),
  ]);
  for (const line of lines) desk.print(line);
  return exitCode.ok;
}
