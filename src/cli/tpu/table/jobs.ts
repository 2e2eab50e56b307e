// Commands of `tpu` about jobs, and commands that tidy up.

import { grouped } from '../../command.ts';
import { choiceFlag, boolFlag, valueFlag, stringFlag } from '../../flags.ts';
import { parseCount } from '../../parse.ts';
import { tpuCommand } from '../command.ts';
import { anyDirectory, askNotes, columnLetters, notes, parseBoolean, presets, claimFlags } from './shared.ts';

const tail = valueFlag('Its last lines', 'lines', parseCount, 'tail', '-n', '--tail');
const rule = choiceFlag('What follows when its TPU is taken or fails: see `tpu check-rules`', presets);

const restartDefinition = {
  usage: 'windows=N [tpu=T] [user]',
  takes: { user: true, tpu: 'optional', windows: 'some' },
  flags: claimFlags,
} as const;

export const jobCommands = grouped('Jobs', [
  tpuCommand({
    names: ['run'],
    usage: '[tpu|type|-auto] [user] [dir=1] [lr=0.01]... [tag=T] [rule=R] [ssn=notes] [-apply] [-q] [-f] [--log-stage]',
    summary: 'Run a working directory on a TPU',
    about:
      'Sources staging.sh of the directory, with `ka=` and the TPU. Without a TPU it is the one that ka.sh of the directory\n' +
      'names; with a type in its place, or -auto, one that is free. It asks once before it takes what another is using.\n' +
      'Every other key is a config: one of your aliases (`tpu -sa`), or config.a.b=value; values arrive as they are typed.',
    examples: [
      ['tpu run v2-32-6 ada', 'working directory 1 of ada on the TPU with that alias'],
      [
        'tpu run v2-32-p1 bob dir=2 tag=sweep lr=0.01 -q',
        'directory 2, with a tag and a config; no monitor afterwards',
      ],
      ['tpu run lab-tpu-v2-32-1 ada rule=resume', 'by its full name; it goes on after a GRPC error'],
      ['tpu run v2-32 ada', 'on a free v2-32'],
    ],
    exitCodes: {
      2: 'something is wrong with the line; nothing was begun',
      4: 'the TPU is in use, and you did not say yes',
    },
    takes: {
      user: true,
      tpu: 'optional',
      types: 'accelerators',
      configs: true,
      keys: {
        tag: stringFlag('A word to know it by', 'T'),
        rule,
        monitor: valueFlag('False: no rule answers its end', 'True', parseBoolean),
        ssn: notes,
      },
    },
    args: [anyDirectory],
    flags: {
      ...claimFlags,
      ssn: askNotes,
      'log-stage': boolFlag('Tell the program how often it was resumed: --config.stage=n'),
      auto: boolFlag('Any TPU that is free'),
    },
    load: async () => (await import('../commands/run.ts')).run,
  }),
  tpuCommand({
    names: ['resume'],
    summary: 'Go on with a job from its last checkpoint, here or on another TPU',
    about: 'It runs the code that was frozen when the job began, told where the checkpoints are (--config.load_from).',
    examples: [
      ['tpu resume windows=101 ada', 'on the same TPU'],
      ['tpu resume windows=101 tpu=v2-32-6 ada', 'on another one'],
    ],
    ...restartDefinition,
    load: async () => (await import('../commands/run.ts')).resume,
  }),
  tpuCommand({
    names: ['rerun'],
    summary: 'Begin a job again from the start, here or on another TPU',
    about: 'It runs the code that was frozen when the job began.',
    examples: [
      ['tpu rerun windows=101 ada', 'on the same TPU'],
      ['tpu rerun w=101 tpu=v2-32-6 ada', 'on another one'],
    ],
    ...restartDefinition,
    load: async () => (await import('../commands/run.ts')).rerun,
  }),
  tpuCommand({
    names: ['kill', 'kill-job', '-k', '-kj'],
    usage: 'w=N|<tpu> [user]',
    summary: "End a job and its processes on every host; with a TPU, the user's jobs on it",
    about: 'What else holds the TPU is shown, and ended only when you say so.',
    examples: [
      ['tpu kill w=101 ada', 'the job of window 101'],
      ['tpu -kj 101 102 ada', 'two of them'],
      ['tpu kill v2-32-6 ada', "ada's jobs on that TPU"],
    ],
    takes: { user: true, tpu: 'optional', windows: 'any' },
    load: async () => (await import('../commands/kill.ts')).kill,
  }),
  tpuCommand({
    names: ['check'],
    usage: '[user] [-wdtsv]',
    summary: 'Your jobs, once',
    about:
      'w shows window, tag and what was resumed from what, d the directory, t the TPU, s the status, v the last lines too.\n' +
      'Without letters the settings of the user decide. Looking changes nothing.',
    examples: [
      ['tpu check ada', 'what there is'],
      ['tpu check ada -dsv', 'directory, status and last lines only'],
    ],
    takes: { user: true, letters: columnLetters },
    changes: false,
    load: async () => (await import('../commands/check.ts')).check,
  }),
  tpuCommand({
    names: ['monitor'],
    usage: '[user] [-wdtsv]',
    summary: 'Your jobs, as they change; q leaves',
    about: 'The letters are those of `tpu check`; typed while it runs they show and hide.',
    examples: [
      ['tpu monitor ada', 'until you leave'],
      ['tpu monitor ada -dsv', 'directory, status and last lines only'],
    ],
    takes: { user: true, letters: columnLetters },
    changes: false,
    load: async () => (await import('../commands/check.ts')).monitor,
  }),
  tpuCommand({
    names: ['log'],
    usage: '<window> [user] [-f] [-n lines]',
    summary: 'What a job printed',
    examples: [['tpu log 101 ada -f', 'and goes on as lines come']],
    takes: {
      user: true,
      windows: 'one',
      keys: { n: tail },
    },
    flags: { f: boolFlag('Go on as lines come', 'follow') },
    changes: false,
    load: async () => (await import('../commands/windows.ts')).log,
  }),
  tpuCommand({
    names: ['news'],
    usage: '[user] [--peek]',
    summary: 'What happened to your jobs since you last looked',
    examples: [['tpu news ada --peek', 'and have it told again next time']],
    takes: { user: true },
    flags: { peek: boolFlag('Look, and leave it as news') },
    load: async () => (await import('../commands/check.ts')).news,
  }),
  tpuCommand({
    names: ['attach'],
    summary: "Go to the user's tmux session, to that window",
    examples: [['tpu attach 101 ada', 'window 101 of ada']],
    takes: { user: true, windows: 'optional' },
    changes: false,
    load: async () => (await import('../commands/windows.ts')).attach,
  }),
  tpuCommand({
    names: ['add-tag'],
    summary: 'Give a job a tag',
    examples: [['tpu add-tag 101 baseline ada', 'shown beside window 101 from now on']],
    takes: { user: true, windows: 'one' },
    args: [{ name: 'tag', needed: true, summary: 'tag' }],
    load: async () => (await import('../commands/windows.ts')).addTag,
  }),
  tpuCommand({
    names: ['check-rules'],
    summary: 'What each rule does after which end',
    examples: [['tpu check-rules', 'the table in force']],
    changes: false,
    load: async () => (await import('../commands/help.ts')).checkRules,
  }),
  tpuCommand({
    names: ['ack'],
    summary: 'Have all jobs looked at now, or those of a user, and resumed if they have to be',
    about: 'They are looked at by themselves as well; this only saves the wait.',
    examples: [['tpu ack', 'now, whosever they are']],
    takes: { user: true },
    load: async () => (await import('../commands/windows.ts')).ack,
  }),
]);

export const cleanupCommands = grouped('Tidy up', [
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
    flags: { re: boolFlag('Also jobs that were resumed or begun again') },
    load: async () => (await import('../commands/tidy.ts')).clean,
  }),
  tpuCommand({
    names: ['clear', 'clear-all'],
    summary: 'Take what has finished or failed off the list',
    examples: [['tpu clear ada', 'nothing is lost: `jobman list --all` has it still']],
    takes: { user: true },
    load: async () => (await import('../commands/tidy.ts')).clearCommand('all'),
  }),
  tpuCommand({
    names: ['clear-finished'],
    summary: 'Take what has finished off the list',
    examples: [['tpu clear-finished ada', 'and leave what failed']],
    takes: { user: true },
    load: async () => (await import('../commands/tidy.ts')).clearCommand('finished'),
  }),
  tpuCommand({
    names: ['clear-error'],
    summary: 'Take what has failed off the list',
    examples: [['tpu clear-error ada', 'and leave what finished']],
    takes: { user: true },
    load: async () => (await import('../commands/tidy.ts')).clearCommand('failed'),
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
