// In the order of the help. A test compares docs/commands.md with this table.

import type { Program } from './command.ts';
import { globalFlags } from './flags.ts';
import { flagRows } from './help.ts';
import { change } from './table/change.ts';
import { installation } from './table/installation.ts';
import { inspect } from './table/inspect.ts';
import { start } from './table/start.ts';
import { work } from './table/work.ts';

export const commands = [...start, ...inspect, ...change, ...work, ...installation];

export const jobmanProgram: Program<(typeof commands)[number]> = {
  name: 'jobman',
  usage: '<command> [arguments]',
  commands,
  groups: ['Start', 'Look', 'Change', 'Work on it', 'This installation'],
  families: {
    controller: 'The loop that looks after jobs: start, stop, restart, status, run, install, uninstall',
    emulator: 'The built-in cloud: start, stop, status, serve, preempt and other happenings',
  },
  globals: ['Flags of every command', globalFlags],
  inputRows: ({ flags }) => ['Flags', flagRows(flags)],
  listsGlobalFlags: false,
  footer: [
    '`jobman <command> --help` tells its flags and shows examples.',
    'A job is named by its id (1 is 000001) or by its name. Several at once are fine.',
    'It is settled once it has succeeded, failed, been stopped or been cancelled.',
    '`tpu` is the command of a lab that shares its TPUs, and `jobman tpu` the same: `tpu help`.',
    '',
    'Exit codes: 0 done, 1 it failed, 2 wrong usage or manifest, 3 not found, 4 conflict, 5 unreachable, 130 interrupted.',
  ],
};
