import { emulatorVerbs, emulatorArguments, settingArguments, shells } from '../completion/proposals.ts';
import { command, grouped, type Propose } from '../command.ts';
import { boolFlag, parseChoice, valueFlag } from '../flags.ts';
import { parseDurationOrNever } from '../parse.ts';
import { emulatorServeFlags } from './flags.ts';

const shell = {
  name: 'shell',
  summary: 'bash, zsh or fish',
  needed: true,
  parse: parseChoice(shells),
  propose: () => shells,
} as const;
const commandNames: Propose = ({ program }) =>
  program.commands.filter(({ hidden }) => hidden !== true).map(({ names: [name] }) => name);

export const installation = grouped('This installation', [
  command({
    names: ['controller status'],
    summary: 'Whether the controller runs',
    usage: '',
    examples: [['jobman controller status', 'its process, version and log']],
    exitCodes: { 1: 'it does not run' },
    load: async () => (await import('../commands/controller.ts')).status,
  }),
  command({
    names: ['controller start'],
    summary: 'Start the controller in the background',
    usage: '',
    examples: [['jobman controller start', 'commands that need it do this by themselves']],
    load: async () => (await import('../commands/controller.ts')).start,
  }),
  command({
    names: ['controller stop'],
    summary: 'Stop the controller; programs on workers run on',
    usage: '',
    examples: [['jobman controller stop', 'the next command that needs one starts another']],
    load: async () => (await import('../commands/controller.ts')).stop,
  }),
  command({
    names: ['controller restart'],
    summary: 'Stop the controller and start another; programs on workers run on',
    usage: '',
    examples: [['jobman controller restart', 'with the settings, the environment and the SSH agent of this terminal']],
    load: async () => (await import('../commands/controller.ts')).restart,
  }),
  command({
    names: ['controller run'],
    summary: 'Run the controller in the foreground',
    usage: '[--idle-exit 10m]',
    examples: [
      ['jobman controller run', 'until Ctrl-C, or until nothing is left to watch'],
      ['jobman controller run --idle-exit never', 'for a service manager'],
    ],
    flags: {
      idleExit: valueFlag('Leave when nothing was left to watch for this long', 'time|never', parseDurationOrNever),
    },
    load: async () => (await import('../commands/controller.ts')).run,
  }),
  command({
    names: ['controller install'],
    summary: 'Let the controller outlive logout and reboot',
    usage: '',
    examples: [['jobman controller install', "a user service, or cron's @reboot"]],
    load: async () => (await import('../commands/controller.ts')).install,
  }),
  command({
    names: ['controller uninstall'],
    summary: 'Undo `controller install`',
    usage: '',
    examples: [['jobman controller uninstall', 'what was installed is removed']],
    load: async () => (await import('../commands/controller.ts')).uninstall,
  }),
  command({
    names: ['emulator status'],
    summary: 'Whether the built-in cloud runs, and what is in it',
    usage: '',
    examples: [['jobman emulator status', 'its address and its nodes']],
    exitCodes: { 1: 'it does not run' },
    load: async () => (await import('../commands/emulator.ts')).status,
  }),
  command({
    names: ['emulator start'],
    summary: 'Start the built-in cloud in the background',
    usage: '',
    examples: [['jobman emulator start', 'a job in project `emulator` does this by itself']],
    load: async () => (await import('../commands/emulator.ts')).start,
  }),
  command({
    names: ['emulator stop'],
    summary: 'Stop the built-in cloud',
    usage: '',
    examples: [['jobman emulator stop', 'its state stays on disk']],
    load: async () => (await import('../commands/emulator.ts')).stop,
  }),
  command({
    names: ['emulator serve'],
    summary: 'Run the built-in cloud in the foreground',
    usage: '[--port n] [--speed factor] [--seed n] [--state folder] [--hosts kind] [--schedule file]',
    about: 'It prints READY and its address once it answers. docs/emulator.md tells how a rehearsal file is written.',
    examples: [
      ['jobman emulator serve --port 8080 --speed 10', 'ten times as fast as the real one'],
      ['jobman emulator serve --seed 7 --schedule storm.yaml', 'what is in that file happens to it'],
    ],
    flags: emulatorServeFlags,
    load: async () => (await import('../commands/emulator.ts')).serve,
  }),
  command({
    names: ['emulator act'],
    hidden: true,
    summary: 'Let something happen in the built-in cloud',
    usage: '<verb> [target] [--option value]...',
    about:
      "A target is a job's id or name, a node's name, or one of their workers: 1/3 is worker 3 of job 000001. From stockout\n" +
      'on a verb leaves a condition: for a time (--for 10m), for so many strikes (--times 3), or until it is cleared.\n' +
      'docs/emulator.md shows each with its options.',
    extraRows: ['Verbs', emulatorVerbs],
    examples: [
      ['jobman emulator preempt 1', 'the cloud takes the TPU of job 000001'],
      ['jobman emulator stockout us-central2-b --for 10m', 'nothing to be had in that zone for ten minutes'],
    ],
    args: [{ name: 'word', summary: 'The verb, its target and its options', many: true, propose: emulatorArguments }],
    load: async () => (await import('../commands/emulator.ts')).act,
  }),
  command({
    names: ['settings'],
    summary: 'The settings in force, and where each comes from; set or unset one',
    usage: '[set <key> <value> | unset <key>]',
    about:
      'They are in $JOBMAN_HOME/settings.json (~/.jobman/settings.json unless JOBMAN_HOME is set), which may also be written by\n' +
      'hand, with the keys that you want. docs/settings.md explains each. A value that is wrong changes nothing.',
    examples: [
      ['jobman settings', 'each value, and whether a variable, settings.json or the default says it'],
      ['jobman settings set tpu.project my-project', 'for manifests that name none'],
      ['jobman settings unset tpu.project', 'the default is in force again'],
    ],
    args: [{ name: 'word', summary: 'set or unset, a key, a value', many: true, propose: settingArguments }],
    load: async () => (await import('../commands/settings.ts')).settings,
  }),
  command({
    names: ['import'],
    summary: 'Take over the jobs of the TPU manager before this one',
    usage: '<folder> [--apply]',
    about:
      'The folder is the jobs/ of that program, in either of its layouts. Each job becomes one that has ended, with its\n' +
      'manifest and its logs; resume and rerun begin it here. Without --apply it only says what it would take, and what not\n' +
      'and why.\n' +
      'What was taken over before is not taken twice. Its data.json for `tpu` is taken over by `tpu import`.',
    examples: [
      ['jobman import ~/jobman/jobs', 'a dry run'],
      ['jobman import ~/jobman/jobs --apply', 'do it'],
    ],
    flags: { apply: boolFlag('Do it') },
    args: [{ name: 'folder', summary: 'The folder jobs/', needed: true }],
    load: async () => (await import('../commands/import.ts')).importJobs,
  }),
  command({
    names: ['completion'],
    summary: 'Print a script that completes commands, flags and job ids',
    usage: 'bash|zsh|fish',
    examples: [
      ['source <(jobman completion bash)', 'in ~/.bashrc'],
      ['source <(jobman completion zsh)', 'in ~/.zshrc'],
      ['jobman completion fish | source', 'in ~/.config/fish/config.fish'],
    ],
    args: [shell],
    load: async () => (await import('../commands/help.ts')).completion,
  }),
  command({
    names: ['help'],
    summary: 'Show the help of a command',
    usage: '[command]',
    examples: [
      ['jobman help', 'all commands'],
      ['jobman help logs', 'the same as jobman logs --help'],
    ],
    args: [{ name: 'command', summary: 'The words of the command', many: true, propose: commandNames }],
    load: async (program) => (await import('../commands/help.ts')).helpOf(program),
  }),
  command({
    names: ['version'],
    summary: 'Print the version',
    usage: '',
    examples: [['jobman version', 'the same as jobman --version']],
    load: async () => (await import('../commands/help.ts')).version,
  }),
]);
