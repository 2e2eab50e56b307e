// Every command of `tpu`, in the order of the help. Help, completion and parsing use these rows; a test compares
// docs/tpu.md with them.

import { capitalize } from '../../app/format.ts';
import type { Example, Program } from '../command.ts';
import type { GlobalFlags } from '../context.ts';
import { globalFlags, boolFlag, stringFlag } from '../flags.ts';
import { separateGlobals, scan } from '../scan.ts';
import type { TpuCommand } from './command.ts';
import { jobCommands, cleanupCommands } from './table/jobs.ts';
import { labCommands, scriptCommands, userCommands } from './table/users.ts';
import { tpuCommands } from './table/tpus.ts';

/** The global flags avoid one-letter forms: commands use most letters themselves. */
const tpuGlobals = {
  user: stringFlag('Who you are, where several people share a login; TPU_USER says it for good', 'name'),
  ...globalFlags,
  quiet: boolFlag('Print results only'),
  settings: stringFlag('A file of settings that stands over the others', 'file'),
};

export interface TpuGlobals extends GlobalFlags {
  readonly user?: string;
  readonly help?: boolean;
}

/** Separates the global flags from all other arguments. After `--` nothing is a flag. Throws JobmanError (2). */
export function splitGlobals(argv: readonly string[]): {
  readonly flags: TpuGlobals;
  readonly rest: readonly string[];
} {
  const { own, rest } = separateGlobals(tpuGlobals, argv);
  // `scan` parsed exactly these flags, so the cast is safe.
  return { flags: scan(tpuGlobals, [], own).flags as unknown as TpuGlobals, rest };
}

export const table: readonly TpuCommand[] = [
  ...jobCommands,
  ...cleanupCommands,
  ...tpuCommands,
  ...userCommands,
  ...labCommands,
  ...scriptCommands,
];

export const tpuProgram: Program<TpuCommand> = {
  name: 'tpu',
  usage: '<command> [words in any order]',
  commands: table,
  groups: ['Jobs', 'Tidy up', 'TPUs', 'You', 'The lab', 'In scripts'],
  families: {},
  globals: ['With every command', tpuGlobals],
  listsGlobalFlags: true,
  inputRows: (command) => ['Words, in any order', argumentRows(command)],
  footer: [
    '`tpu help <command>` tells which words it takes and shows examples.',
    'A user is a name, `user=` or `id=`; without one it is you. A TPU is an alias or a full name; a window is a number or `w=`.',
    'A word that could mean two things is refused with both; nothing is guessed.',
    '',
    'Exit codes: 0 done, 1 it failed, 2 wrong usage, 3 not found, 4 conflict, 5 unreachable, 130 interrupted.',
  ],
};

function argumentRows({ takes, args, flags }: TpuCommand): readonly Example[] {
  const rows: Example[] = [];
  if (takes.user !== undefined) rows.push(['name, user=, id=', 'The user; without one, you']);
  if (takes.tpu !== undefined) rows.push(['alias, full name, tpu=', 'The TPU']);
  if (takes.types === 'accelerators') rows.push(['v2-32', 'Any free TPU of this type']);
  if (takes.types === 'families') rows.push(['v2, v234, v*, v2-32', 'Types of TPUs']);
  if (takes.windows !== undefined) rows.push(['101, w=101, -w 101', 'The window']);
  for (const { name, summary, number } of args)
    rows.push(number ? [`N, ${name}=N`, capitalize(summary)] : [`${name}, ${name}=`, `The ${summary}`]);
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

const noLockHint = 'There is no lock to take or to give back: every command is one transaction.';
const noMonitorHint =
  'There is no MONITOR: the controller looks after jobs, and starts by itself; `jobman controller status` tells of it.';

const replacements: Readonly<Record<string, string>> = {
  init: 'Nothing has to be set up; `tpu init-lab` makes a folder that a group shares, and touches no job.',
  lock: noLockHint,
  unlock: noLockHint,
  rl: noLockHint,
  'lock-data': noLockHint,
  'unlock-data': noLockHint,
  'rm-lock': noLockHint,
  'set-monitor-config': noMonitorHint,
  '-smc': noMonitorHint,
  'get-monitor-config': noMonitorHint,
  '-gmc': noMonitorHint,
  '-Ml': noMonitorHint,
  '-Mc': noMonitorHint,
  '-agc': 'Keys for configs are per user: `tpu -a`, `tpu -sa`.',
  '-mgc': 'Keys for configs are per user: `tpu -a`, `tpu -sa`.',
  maj: '`tpu monitor` shows the jobs of one user, `jobman list --watch` those of all.',
  caj: '`tpu check` shows the jobs of one user, `jobman list` those of all.',
  rs: '`tpu ack` has the jobs looked at now.',
  'restart-run': '`tpu restart` restarts the machines of a TPU, `tpu run` runs on it.',
  'change-ip': 'A login machine that has moved or restarted changes nothing of a job.',
  'debug-stats': '`tpu doctor` looks for what does not fit together.',
  'debug-kill': '`tpu kill` ends a job, `tpu doctor` looks for what does not fit together.',
  gtis: '`tpu find` shows what the booking sheet says.',
  twsi: '`tpu book` and `tpu release` write to the booking sheet.',
};

export function replacementHint(word: string): string | undefined {
  return Object.hasOwn(replacements, word) ? replacements[word] : undefined;
}

/** For the test that checks the hints against the existing commands. */
export const removedCommands: readonly string[] = Object.keys(replacements);
