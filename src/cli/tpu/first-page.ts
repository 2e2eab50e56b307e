// The page that `tpu` alone shows.

import { fitted, inColumns } from '../render/in-columns.ts';

/** The first steps of a new user. */
export function firstPage(version: string, columns: number | null): readonly string[] {
  return [
    `tpu, of jobman ${version}`,
    '',
    'The first time',
    ...inColumns(
      [
        ['tpu add-user', 'who you are, and where your code is'],
        ['tpu set-cur 1 NAME', 'this folder is your working directory 1'],
        ['tpu run v2-32-6 NAME', 'run it on that TPU'],
        ['tpu monitor NAME', 'watch your jobs'],
      ],
      columns,
    ),
    '',
    ...fitted('`tpu tldr` shows the commands of a usual day, `tpu help` all of them, `tpu help run` one.', columns),
  ];
}
