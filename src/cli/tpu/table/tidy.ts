// Commands of `tpu` that tidy up.

import { grouped } from '../../command.ts';
import { mark } from '../../flags.ts';
import { tpuCommand } from '../row.ts';

export const tidy = grouped('Tidy up', [
  tpuCommand({
    names: ['clean'],
    usage: '[user] [-re]',
    summary: 'Take what is over off the list, and close its windows',
    about: 'What a running job was resumed from stays, unless -re is said.',
    examples: [
      ['tpu clean ada', 'what has finished, failed or been killed'],
      ['tpu clean ada -re', 'also what was resumed or begun again since'],
    ],
    takes: { user: true },
    flags: { re: mark('Also jobs that were resumed or begun again') },
    load: async () => (await import('../commands/tidy.ts')).clean,
  }),
  tpuCommand({
    names: ['clear', 'clear-all'],
    summary: 'Take what has finished or failed off the list',
    examples: [['tpu clear ada', 'nothing is lost: `jobman list --all` has it still']],
    takes: { user: true },
    load: async () => (await import('../commands/tidy.ts')).clearing('all'),
  }),
  tpuCommand({
    names: ['clear-finished'],
    summary: 'Take what has finished off the list',
    examples: [['tpu clear-finished ada', 'and leave what failed']],
    takes: { user: true },
    load: async () => (await import('../commands/tidy.ts')).clearing('finished'),
  }),
  tpuCommand({
    names: ['clear-error'],
    summary: 'Take what has failed off the list',
    examples: [['tpu clear-error ada', 'and leave what finished']],
    takes: { user: true },
    load: async () => (await import('../commands/tidy.ts')).clearing('failed'),
  }),
  tpuCommand({
    names: ['kill-window', '-kw'],
    summary: 'Close a window and take it off the list; its job is ended',
    examples: [['tpu -kw 101 ada', 'window 101']],
    takes: { user: true, windows: 'some' },
    load: async () => (await import('../commands/tidy.ts')).killWindow,
  }),
  tpuCommand({
    names: ['-czw', 'clear-zombie-windows'],
    summary: 'Close windows that have no job',
    examples: [['tpu -czw ada', 'only windows that jobman opened; never window 0']],
    takes: { user: true },
    load: async () => (await import('../commands/tidy.ts')).zombieWindows,
  }),
  tpuCommand({
    names: ['-czj', 'clear-zombie-jobs'],
    summary: 'Take jobs off the list that are over and have no window',
    examples: [['tpu -czj ada', 'jobs that are over only']],
    takes: { user: true },
    load: async () => (await import('../commands/tidy.ts')).zombieJobs,
  }),
]);
