// Every command of `tpu`, in the order of the help. The help, tldr, the completion and the reading of words come from these rows;
// docs/tpu.md is held to them by a test.

import { capital } from '../../app/reason-words.ts';
import type { Example, Program } from '../command.ts';
import { tpuGlobals } from './globals.ts';
import type { TpuCommand } from './row.ts';
import { jobs } from './table/jobs.ts';
import { lab } from './table/lab.ts';
import { scripts } from './table/scripts.ts';
import { tidy } from './table/tidy.ts';
import { tpus } from './table/tpus.ts';
import { you } from './table/you.ts';

export const table: readonly TpuCommand[] = [...jobs, ...tidy, ...tpus, ...you, ...lab, ...scripts];

export const tpuProgram: Program<TpuCommand> = {
  name: 'tpu',
  usage: '<command> [words in any order]',
  commands: table,
  groups: ['Jobs', 'Tidy up', 'TPUs', 'You', 'The lab', 'In scripts'],
  families: {},
  globals: ['With every command', tpuGlobals],
  isListingGlobals: true,
  taken: (command) => ['Words, in any order', wordRows(command)],
  closing: [
    '`tpu help <command>` tells which words it takes and shows examples.',
    'A user is a name, `user=` or `id=`; without one it is you. A TPU is an alias or a full name; a window is a number or `w=`.',
    'A word that could mean two things is refused with both; nothing is guessed.',
    '',
    'Exit codes: 0 done, 1 it failed, 2 wrong usage, 3 not found, 4 conflict, 5 unreachable, 130 interrupted.',
  ],
};

/** Everything that the command takes, each with its meaning. */
function wordRows({ takes, args, flags }: TpuCommand): readonly Example[] {
  const rows: Example[] = [];
  if (takes.user !== undefined) rows.push(['name, user=, id=', 'The user; without one, you']);
  if (takes.tpu !== undefined) rows.push(['alias, full name, tpu=', 'The TPU']);
  if (takes.types === 'accelerators') rows.push(['v2-32', 'Any free TPU of this type']);
  if (takes.types === 'families') rows.push(['v2, v234, v*, v2-32', 'Types of TPUs']);
  if (takes.windows !== undefined) rows.push(['101, w=101, -w 101', 'The window']);
  for (const { name, summary, number } of args)
    rows.push(number ? [`N, ${name}=N`, capital(summary)] : [`${name}, ${name}=`, `The ${summary}`]);
  for (const [name, { summary, value = '', also = [] }] of Object.entries(takes.keys ?? {})) {
    const forms = also.filter((form) => form.startsWith('-')).map((form) => `${form} ${value}`);
    rows.push([[`${name}=${value}`, ...forms].join(', '), summary]);
  }
  if (takes.configs === true) rows.push(['lr=0.01, config.a.b=v', 'A config of the program']);
  for (const [name, { summary, also = [] }] of Object.entries(flags)) {
    rows.push([[name, ...also].map((form) => (form.includes('-') ? `--${form}` : `-${form}`)).join(', '), summary]);
  }
  if (takes.letters !== undefined) rows.push([`-${takes.letters}`, 'What is shown: any of these letters']);
  return rows;
}
