// Commands of `tpu` about jobs, and commands that clean up.

import { grouped } from '../../command.ts';
import { choiceFlag, boolFlag, valueFlag, stringFlag } from '../../flags.ts';
import { parseCount } from '../../parse.ts';
import { tpuCommand, tpuQuery } from '../command.ts';
import { anyDirectory, askNotes, columnLetters, notes, parseBoolean, presets, claimFlags } from './shared.ts';

const tail = valueFlag('Show only the last lines', 'lines', parseCount, '--tail');
const rule = choiceFlag('What follows a preemption or a failure: see `tpu check-rules`', presets);

const restartDefinition = {
  usage: 'windows=N [tpu=T] [user]',
  about: 'Runs the copy of the code that staging.sh made for the job.',
  takes: { user: true, tpu: 'optional', windows: 'some' },
  flags: claimFlags,
} as const;

export const jobCommands = grouped('Jobs', [
  tpuCommand(['run'], 'Run a working directory on a TPU', {
    usage: '[tpu|type|-auto] [user] [dir=1] [lr=0.01]... [tag=T] [rule=R] [ssn=notes] [-apply] [-q] [-f] [--log-stage]',
    about:
      'Runs `source staging.sh ka=NAME` in the directory; NAME is the full name of the TPU.\n\n' +
      'Without a TPU the command uses the TPU in ka.sh of the directory, with a type or -auto a free TPU. If the TPU is in ' +
      'use, the command asks first.\n\n' +
      'Every other key is a config: one of your aliases (`tpu -sa`) or config.a.b=value. The program gets its value unchanged.',
    examples: [
      ['tpu run v2-32-6 ada', "ada's working directory 1 on the TPU with this alias"],
      ['tpu run v2-32-p1 bob dir=2 tag=deep lr=0.01 -q', 'directory 2, with a tag and a config; without the monitor'],
      ['tpu run lab-tpu-v2-32-1 ada rule=resume', 'full name of the TPU; resume after a GRPC error'],
      ['tpu run v2-32 ada', 'on a free v2-32'],
    ],
    exitCodes: {
      2: 'invalid usage; nothing was started',
      4: 'the TPU is not ready, or is in use',
    },
    takes: {
      user: true,
      tpu: 'optional',
      types: 'accelerators',
      configs: true,
      keys: {
        tag: stringFlag('A tag, shown with the window', 'T'),
        rule,
        monitor: valueFlag('Recover the job by its rule; with False, never', 'True', parseBoolean),
        ssn: notes,
      },
    },
    args: [anyDirectory],
    flags: {
      ...claimFlags,
      ssn: askNotes,
      'log-stage': boolFlag('Pass the number of resumes to the program: --config.stage=n'),
      auto: boolFlag('Use any free TPU'),
    },
    load: async () => (await import('../commands/run.ts')).run,
  }),
  tpuCommand(['resume'], 'Resume a job from its last checkpoint, on the same or another TPU', {
    ...restartDefinition,
    examples: [
      ['tpu resume windows=101 ada', 'on the same TPU'],
      ['tpu resume windows=101 tpu=v2-32-6 ada', 'on another TPU'],
    ],
    load: async () => (await import('../commands/run.ts')).resume,
  }),
  tpuCommand(['rerun'], 'Run a job again from the beginning, on the same or another TPU', {
    ...restartDefinition,
    examples: [
      ['tpu rerun windows=101 ada', 'on the same TPU'],
      ['tpu rerun w=101 tpu=v2-32-6 ada', 'on another TPU'],
    ],
    load: async () => (await import('../commands/run.ts')).rerun,
  }),
  tpuCommand(['kill', 'kill-job', '-k', '-kj'], 'Kill a job and its processes on all workers', {
    usage: 'w=N|<tpu> [user]',
    about:
      "With a TPU it kills the user's jobs on that TPU. It shows other programs that hold the TPU, and asks before it ends them.",
    examples: [
      ['tpu kill w=101 ada', 'the job of window 101'],
      ['tpu -kj 101 102 ada', 'two jobs'],
      ['tpu kill v2-32-6 ada', "ada's jobs on that TPU"],
    ],
    takes: { user: true, tpu: 'optional', windows: 'any' },
    load: async () => (await import('../commands/kill.ts')).kill,
  }),
  tpuQuery(['check'], 'Show your jobs once', {
    usage: '[user] [-wdtsv]',
    about:
      'Letters choose the columns: w window, tag and origin; d directory; t TPU; s status; v the last lines of the log. ' +
      "Without letters the user's settings choose them.",
    examples: [
      ['tpu check ada', "ada's jobs"],
      ['tpu check ada -dsv', 'directory, status and last lines only'],
    ],
    takes: { user: true, letters: columnLetters },
    load: async () => (await import('../commands/check.ts')).check,
  }),
  tpuQuery(['monitor'], 'Show your jobs and update them until you press q', {
    usage: '[user] [-wdtsv]',
    about: 'The letters are those of `tpu check`. Press one while the monitor runs to show or hide its column.',
    examples: [
      ['tpu monitor ada', "ada's jobs"],
      ['tpu monitor ada -dsv', 'directory, status and last lines only'],
    ],
    takes: { user: true, letters: columnLetters },
    load: async () => (await import('../commands/check.ts')).monitor,
  }),
  tpuQuery(['log', 'logs'], 'Print the output of a job', {
    usage: '<window> [user] [-f] [--tail lines]',
    examples: [['tpu log 101 ada -f', 'follow the output of window 101']],
    takes: { user: true, windows: 'one', keys: { tail } },
    flags: { f: boolFlag('Follow the output', 'follow') },
    load: async () => (await import('../commands/windows.ts')).log,
  }),
  tpuCommand(['news'], 'Show what happened to your jobs since the last `tpu news`', {
    usage: '[user] [--peek]',
    examples: [['tpu news ada --peek', 'without marking the events as shown']],
    takes: { user: true },
    flags: { peek: boolFlag('Show the same events again next time') },
    load: async () => (await import('../commands/check.ts')).news,
  }),
  tpuQuery(['attach'], "Open a window of the user's tmux session", {
    needsLoginMachine: true,
    examples: [['tpu attach 101 ada', 'window 101 of ada']],
    takes: { user: true, windows: 'optional' },
    load: async () => (await import('../commands/windows.ts')).attach,
  }),
  tpuCommand(['add-tag'], 'Tag a job', {
    examples: [['tpu add-tag 101 baseline ada', 'the tag is shown next to window 101']],
    takes: { user: true, windows: 'one' },
    args: [{ name: 'tag', needed: true, summary: 'tag' }],
    load: async () => (await import('../commands/windows.ts')).addTag,
  }),
  tpuQuery(['check-rules'], 'Show what each rule does after a preemption or a failure', {
    examples: [['tpu check-rules', 'one row for each rule']],
    load: async () => (await import('../commands/help.ts')).checkRules,
  }),
  tpuCommand(['ack'], 'Check the jobs of one or all users now', {
    about: 'The controller checks all jobs regularly; `ack` only saves the wait for the next check.',
    examples: [['tpu ack', 'all jobs']],
    takes: { user: true },
    load: async () => (await import('../commands/windows.ts')).ack,
  }),
]);

export const cleanupCommands = grouped('Clean up', [
  tpuCommand(['clean'], 'Remove finished jobs from the list; close their windows and windows without a job', {
    usage: '[user] [-re]',
    about: 'Windows whose work a running job continues stay on the list, unless you pass -re.',
    examples: [
      ['tpu clean ada', 'succeeded, failed and killed jobs'],
      ['tpu clean ada -re', 'also windows that were resumed or rerun'],
    ],
    takes: { user: true },
    flags: { re: boolFlag('Also windows that were resumed or rerun') },
    load: async () => (await import('../commands/tidy.ts')).clean,
  }),
  tpuCommand(['clear', 'clear-all'], 'Remove finished jobs from the list and close their windows', {
    examples: [['tpu clear ada', '`jobman list --all` still shows them']],
    takes: { user: true },
    load: async () => (await import('../commands/tidy.ts')).clearCommand('all'),
  }),
  tpuCommand(['clear-finished'], 'Remove succeeded jobs from the list', {
    examples: [['tpu clear-finished ada', 'failed jobs stay']],
    takes: { user: true },
    load: async () => (await import('../commands/tidy.ts')).clearCommand('succeeded'),
  }),
  tpuCommand(['clear-error'], 'Remove failed jobs from the list', {
    examples: [['tpu clear-error ada', 'succeeded jobs stay']],
    takes: { user: true },
    load: async () => (await import('../commands/tidy.ts')).clearCommand('failed'),
  }),
  tpuCommand(['kill-window', '-kw'], 'Close a window, kill its job and remove it from the list', {
    examples: [['tpu -kw 101 ada', 'window 101']],
    takes: { user: true, windows: 'some' },
    load: async () => (await import('../commands/tidy.ts')).killWindow,
  }),
  tpuCommand(['clear-zombie-windows', '-czw'], 'Close tmux windows whose job is not on the list', {
    examples: [['tpu -czw ada', 'only windows that jobman opened; never window 0']],
    takes: { user: true },
    load: async () => (await import('../commands/tidy.ts')).zombieWindows,
  }),
  tpuCommand(['clear-zombie-jobs', '-czj'], 'Remove finished jobs without a tmux window from the list', {
    examples: [['tpu -czj ada', 'unfinished jobs stay']],
    takes: { user: true },
    load: async () => (await import('../commands/tidy.ts')).zombieJobs,
  }),
]);
