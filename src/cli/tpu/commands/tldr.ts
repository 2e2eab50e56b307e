// tldr: the commands of a usual day on one page.

import { exitCode } from '../../../app/errors.ts';
import type { Example } from '../../command.ts';
import { inColumns } from '../../render/in-columns.ts';
import { columnsOf } from '../../screen.ts';
import type { TpuCli } from '../tpu-cli.ts';

/** By what somebody wants. A test reads each of them as a line would be read. */
export const days: readonly (readonly [heading: string, rows: readonly Example[]])[] = [
  [
    'Begin',
    [
      ['tpu add-user', 'who you are'],
      ['tpu set-cur 1 NAME', 'this folder is your working directory 1'],
      ['tpu find v2 v3 -p', 'which TPUs are free'],
      ['tpu run v2-32-6 NAME', 'run it'],
      ['tpu run v2-32-6 NAME dir=2 lr=0.01 tag=sweep', 'another directory, a config, a tag'],
    ],
  ],
  [
    'Watch',
    [
      ['tpu monitor NAME', 'your jobs as they change'],
      ['tpu check NAME', 'the same once'],
      ['tpu log 101 NAME', 'what the job of window 101 printed'],
      ['tpu news NAME', 'what happened since you last looked'],
    ],
  ],
  [
    'End and go on',
    [
      ['tpu kill w=101 NAME', 'end a job everywhere'],
      ['tpu resume windows=101 NAME', 'go on from its last checkpoint'],
      ['tpu resume windows=101 tpu=v2-32-2 NAME', 'the same on another TPU'],
      ['tpu rerun windows=101 NAME', 'begin it again'],
      ['tpu clean NAME', 'take what is over off the list'],
    ],
  ],
  [
    'When a TPU is in trouble',
    [
      ['tpu describe v2-32-6', 'what it is, and who uses it'],
      ['tpu solve v2-32-6', 'find out what is wrong, and put it right'],
      ['tpu reapply v2-32-6', 'delete it and create it anew'],
    ],
  ],
  [
    'Once',
    [
      ['tpu -a lr config.training.learning_rate NAME', 'a short word for a config: lr=0.01'],
      ['tpu -lta', 'all TPUs with their aliases'],
      ['tpu get-settings NAME', 'your settings'],
      ['tpu check-rules', 'what happens after a preemption or an error'],
    ],
  ],
];

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
