// Every command of `tpu`, in the order of the help. Help, completion and parsing use these rows; a test compares
// docs/tpu.md with them.

import { capitalize } from '../../app/format.ts';
import type { Example, Program } from '../command.ts';
import type { GlobalFlags } from '../context.ts';
import { globalFlags, boolFlag, stringFlag } from '../flags.ts';
import { separateGlobals, scan } from '../scan.ts';
import type { TpuCommand } from './command.ts';
import { jobCommands, cleanupCommands } from './table/jobs.ts';
import { labCommands, scriptCommands, settingsCommands } from './table/users.ts';
import { tpuCommands } from './table/tpus.ts';

/** The global flags avoid one-letter forms: commands use most letters themselves. */
const tpuGlobals = {
  user: stringFlag('Your name on a shared login; TPU_USER does the same', 'name'),
  ...globalFlags,
  quiet: boolFlag('Print only results'),
  settings: stringFlag('A settings file that overrides your settings', 'file'),
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
  ...settingsCommands,
  ...labCommands,
  ...scriptCommands,
];

export const tpuProgram: Program<TpuCommand> = {
  name: 'tpu',
  usage: '<command> [arguments in any order]',
  commands: table,
  groups: ['Jobs', 'Clean up', 'TPUs', 'Settings', 'Lab', 'Scripts'],
  families: {},
  globals: ['Global flags', tpuGlobals],
  listsGlobalFlags: true,
  inputRows: (command) => ['Arguments, in any order', argumentRows(command)],
  footer: [
    '`tpu help <command>` shows the arguments of a command, with examples.',
    'Name a user as NAME, user=NAME or id=N; the default is you. Name a TPU by its alias or full name, a window as N or w=N.',
    'An argument that could mean two things is an error.',
    '',
    'Exit codes: 0 done, 1 failed, 2 invalid usage, 3 not found, 4 conflict, 5 unreachable, 130 interrupted.',
  ],
};

function argumentRows({ takes, args, flags }: TpuCommand): readonly Example[] {
  const rows: Example[] = [];
  if (takes.user !== undefined) rows.push(['name, user=, id=', 'The user; default: you']);
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
  for (const [name, { summary, also = [] }] of Object.entries(flags))
    rows.push([[name, ...also].map((form) => (form.includes('-') ? `--${form}` : `-${form}`)).join(', '), summary]);
  if (takes.letters !== undefined) rows.push([`-${takes.letters}`, 'The columns: any of these letters']);
  return rows;
}

const locks = 'No lock is needed: every command is one transaction.';
const monitor = 'The controller checks jobs and starts by itself: `jobman controller status`.';
const configAliases = 'Config aliases belong to a user: `tpu add-config-alias`, `tpu show-config-alias`.';
const jobs = '`tpu check` shows the jobs of one user, `jobman list` the jobs of all.';
const kill = '`tpu kill` ends a job.';
const run = '`tpu run` starts a job.';

/** Removed commands of the older `tpu` program, commands of other programs, and names that users guess. */
const replacements: Readonly<Record<string, string>> = {
  init: 'No setup is needed; `tpu init-lab` shares a folder with a group.',
  lock: locks,
  unlock: locks,
  rl: locks,
  'lock-data': locks,
  'unlock-data': locks,
  'rm-lock': locks,
  'set-monitor-config': monitor,
  '-smc': monitor,
  'get-monitor-config': monitor,
  '-gmc': monitor,
  '-Ml': monitor,
  '-Mc': monitor,
  '-agc': configAliases,
  '-mgc': configAliases,
  maj: jobs,
  caj: jobs,
  rs: '`tpu ack` checks the jobs now.',
  'restart-run': '`tpu restart` restarts the machines of a TPU, `tpu run` runs a directory on it.',
  'change-ip': 'Jobs continue when the address of the login machine changes.',
  'debug-stats': '`tpu doctor` finds inconsistencies.',
  'debug-kill': kill,
  gtis: '`tpu find` shows the booking sheet.',
  twsi: '`tpu book` and `tpu release` change the booking sheet.',
  status: '`tpu check` shows the status of your jobs, `tpu check-status <tpu>` the state of a TPU.',
  jobs,
  ps: jobs,
  cancel: kill,
  rm: '`tpu delete` deletes a TPU, `tpu clean` removes finished jobs from the list.',
  ssh: '`jobman ssh` opens a shell on a worker of a job.',
  stop: kill,
  start: run,
  submit: run,
  users: '`tpu list-users` lists the users.',
};

export function replacementHint(command: string): string | undefined {
  return Object.hasOwn(replacements, command) ? replacements[command] : undefined;
}

/** For the test that checks the hints against the existing commands. */
export const removedCommands: readonly string[] = Object.keys(replacements);
