// In the order of the help. A test compares docs/commands.md with this table.

import type { Program } from './command.ts';
import { globalFlags } from './flags.ts';
import { flagRows } from './help.ts';
import { control } from './table/control.ts';
import { create } from './table/create.ts';
import { monitor } from './table/monitor.ts';
import { setup } from './table/setup.ts';
import { usage } from './table/usage.ts';
import { users } from './table/users.ts';
import { workers } from './table/workers.ts';

export const commands = [...create, ...monitor, ...usage, ...control, ...workers, ...users, ...setup];

export const jobmanProgram: Program<(typeof commands)[number]> = {
  name: 'jobman',
  usage: '<command> [arguments]',
  commands,
  groups: ['Create', 'Monitor', 'Usage', 'Control', 'Workers', 'Users', 'Setup'],
  families: {
    controller:
      'Manage the background process that runs jobs: start, stop, restart, status, logs, run, install, uninstall',
    emulator: 'Manage the TPU emulator and inject faults: start, stop, status, serve, preempt, stockout, ...',
  },
  globals: ['Global flags', globalFlags],
  inputRows: ({ flags }) => ['Flags', flagRows(flags)],
  listsGlobalFlags: false,
  footer: [
    '`jobman <command> --help` shows its flags and examples.',
    'Name a job by its id (1 is 000001) or its name; most commands take several jobs. If several jobs have the name, ' +
      'a command that only reads takes the newest. A command that changes a job takes the unfinished one; if there is ' +
      'not exactly one, it asks for an id.',
    'A job is finished once it has succeeded, failed, been stopped or been cancelled.',
    'A lab that shares TPUs uses the command `tpu` (also `jobman tpu`): see `tpu help`.',
    '',
    'Exit codes: 0 done, 1 failed, 2 invalid usage or manifest, 3 not found, 4 conflict, 5 unreachable, 130 interrupted.',
  ],
};
