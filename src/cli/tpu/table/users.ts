// Commands of `tpu` about one user and the lab, and commands that scripts call.

import { capitalize } from '../../../app/format.ts';
import { userSettings } from '../../../lab/user-settings.ts';
import { grouped } from '../../command.ts';
import { shells } from '../../completion/proposals.ts';
import { boolFlag, valueFlag, stringFlag } from '../../flags.ts';
import { parseCount } from '../../parse.ts';
import { type TpuHandler, tpuCommand } from '../command.ts';
import { alias, anyDirectory, directory } from './shared.ts';

const setting = {
  name: 'key',
  summary: 'name of the setting',
  propose: () => userSettings.map(({ key, description }) => ({ value: key, summary: description })),
} as const;
const settingsList = [
  'Settings',
  userSettings.map(
    ({ key, expected, description }) => [key, `${description.replaceAll('`', '')} ${capitalize(expected)}.`] as const,
  ),
] as const;

export const userCommands = grouped('You', [
  tpuCommand({
    names: ['set-cur'],
    usage: '[n] [user]',
    summary: 'Make this folder your working directory n; without n, 1',
    examples: [['tpu set-cur 1 ada', 'what `tpu run` takes unless dir= is said']],
    takes: { user: true },
    args: [anyDirectory],
    load: async () => (await import('../commands/users.ts')).setCur,
  }),
  tpuCommand({
    names: ['set-dir'],
    usage: '<path> <n> [user]',
    summary: 'Make another folder your working directory n',
    examples: [['tpu set-dir ~/code/vit 2 ada', 'directory 2']],
    takes: { user: true },
    args: [directory, { name: 'path', needed: true, summary: 'path of the folder', pattern: /[/~.]/ }],
    load: async () => (await import('../commands/users.ts')).setDir,
  }),
  tpuCommand({
    names: ['get-dir'],
    usage: '<n> [user]',
    summary: 'Print the path of working directory n',
    examples: [['cd "$(tpu get-dir 2 ada)"', 'go there']],
    takes: { user: true },
    args: [directory],
    changes: false,
    load: async () => (await import('../commands/users.ts')).getDir,
  }),
  tpuCommand({
    names: ['ls', 'lsdir'],
    summary: 'Your working directories',
    examples: [['tpu ls ada', 'by number']],
    takes: { user: true },
    changes: false,
    load: async () => (await import('../commands/users.ts')).listDirs,
  }),
  tpuCommand({
    names: ['del-dir'],
    usage: '<n> [user]',
    summary: 'Forget working directory n; the folder stays',
    examples: [['tpu del-dir 2 ada', 'number 2 is free then']],
    takes: { user: true },
    args: [directory],
    load: async () => (await import('../commands/users.ts')).delDir,
  }),
  tpuCommand({
    names: ['swap-dir'],
    usage: '<n> <m> [user]',
    summary: 'Swap two working directories',
    examples: [['tpu swap-dir 1 2 ada', 'what was 2 is the usual one now']],
    takes: { user: true },
    args: [directory, { ...directory, name: 'with' }],
    load: async () => (await import('../commands/users.ts')).swapDir,
  }),
  tpuCommand({
    names: ['-a', '-alias', 'add-config-alias'],
    summary: 'Have a short word for a key of your configs',
    examples: [['tpu -a lr config.training.learning_rate ada', 'then: tpu run v2-32-6 ada lr=0.01']],
    takes: { user: true },
    args: [alias, { name: 'key', needed: true, summary: 'key of the config', pattern: /^config\b/ }],
    load: async () => (await import('../commands/settings.ts')).addConfigAlias,
  }),
  tpuCommand({
    names: ['-sa', '-la', 'show-config-alias'],
    summary: 'Your short words for keys of configs',
    examples: [['tpu -sa ada', 'with what each stands for']],
    takes: { user: true },
    changes: false,
    load: async () => (await import('../commands/settings.ts')).listConfigAliases,
  }),
  tpuCommand({
    names: ['del-config-alias'],
    summary: 'Take such a word away',
    examples: [['tpu del-config-alias lr ada', '']],
    takes: { user: true },
    args: [{ ...alias, suggests: 'config aliases' }],
    load: async () => (await import('../commands/settings.ts')).delConfigAlias,
  }),
  tpuCommand({
    names: ['set-settings'],
    summary: 'Change one of your settings',
    extraRows: settingsList,
    examples: [
      ['tpu set-settings monitor_after_run False ada', 'no monitor after `tpu run`'],
      ['tpu set-settings time_zone cn ada', 'or local, us, or a name such as Europe/Berlin'],
    ],
    takes: { user: true },
    args: [
      { ...setting, needed: true, pattern: /^[a-z]+(_[a-z]+)+$/ },
      { name: 'value', needed: true, summary: 'value' },
    ],
    load: async () => (await import('../commands/settings.ts')).setSettings,
  }),
  tpuCommand({
    names: ['get-settings'],
    summary: 'Your settings with what each means',
    extraRows: settingsList,
    examples: [['tpu get-settings ada', 'all of them']],
    takes: { user: true },
    args: [setting],
    changes: false,
    load: async () => (await import('../commands/settings.ts')).getSettings,
  }),
  tpuCommand({
    names: ['reset-settings'],
    summary: 'Put your settings back to what a new user has, or one of them',
    extraRows: settingsList,
    examples: [['tpu reset-settings time_zone ada', 'this one only']],
    takes: { user: true },
    args: [setting],
    load: async () => (await import('../commands/settings.ts')).resetSettings,
  }),
  tpuCommand({
    names: ['reset-window-num', 'reset-window'],
    summary: 'Count windows from n on; a number that is taken is passed over',
    examples: [['tpu reset-window-num 1 ada', 'from 1']],
    takes: { user: true },
    args: [{ name: 'n', number: true, needed: true, summary: 'number that the next window gets' }],
    load: async () => (await import('../commands/settings.ts')).resetWindowNum,
  }),
]);

export const labCommands = grouped('The lab', [
  tpuCommand({
    names: ['add-user'],
    usage: '[name] [session=S] [sheet=S] [id=N] [tz=us|cn|zone] [dir=path] [login=L]',
    summary: 'Add a user: asks for all that is not said',
    about:
      'Away from a terminal nothing is asked: the name is needed, and the rest is what would have been proposed.\n' +
      'Nothing is written before everything is known, and no tmux session is touched.',
    examples: [
      ['tpu add-user', 'asks'],
      ['tpu add-user name=ada session=ada sheet=Ada tz=cn dir=~/code/vit --yes', 'all at once'],
    ],
    exitCodes: { 2: 'the name would be read as something else', 4: 'the name, id, session or login is taken' },
    takes: {
      keys: {
        session: stringFlag('The tmux session of their windows', 'session', 'tmux'),
        sheet: stringFlag('Their name in the booking sheet', 'name'),
        id: valueFlag('A number for life; the lowest that is free without it', 'N', parseCount),
        tz: stringFlag('local, us, cn or a name such as Europe/Berlin', 'zone', 'time_zone'),
        dir: stringFlag('Working directory 1', 'path'),
        login: stringFlag('Login names that are theirs, parted by commas', 'logins'),
      },
    },
    args: [{ name: 'name', summary: 'name' }],
    load: async () => (await import('../commands/users.ts')).addUser,
  }),
  tpuCommand({
    names: ['del-user'],
    usage: '<user>',
    summary: 'Take a user off the list; jobs and folders stay',
    examples: [['tpu del-user ada', 'asks first']],
    takes: { user: true },
    load: async () => (await import('../commands/users.ts')).delUser,
  }),
  tpuCommand({
    names: ['list-users', '-lu'],
    summary: 'Who shares the TPUs',
    examples: [['tpu list-users', 'with id, session and name in the sheet']],
    changes: false,
    load: async () => (await import('../commands/users.ts')).listUsers,
  }),
  tpuCommand({
    names: ['init-lab'],
    usage: 'group=name',
    summary: 'Make $JOBMAN_HOME a folder that a group of logins shares',
    examples: [['tpu init-lab group=lab', 'once, by whoever sets the lab up']],
    takes: { keys: { group: stringFlag('The group of the system', 'name', '--group', '-g') } },
    load: async () => (await import('../commands/lab.ts')).initLab,
  }),
  tpuCommand({
    names: ['import'],
    usage: '<data.json> [--apply]',
    summary: 'Take over the users, TPUs and jobs of the program before this one',
    about: 'Without --apply it only says what it would take, and what not and why.',
    examples: [['tpu import data.json', 'a dry run']],
    args: [{ name: 'file', needed: true, summary: 'file' }],
    flags: { apply: boolFlag('Do it') },
    load: async () => (await import('../commands/lab.ts')).importData,
  }),
  tpuCommand({
    names: ['doctor'],
    summary: 'What does not fit together in the record, and how to put it right',
    examples: [['tpu doctor', 'changes nothing']],
    changes: false,
    load: async () => (await import('../commands/lab.ts')).doctor,
  }),
  tpuCommand({
    names: ['tldr'],
    summary: 'The commands of a usual day',
    examples: [['tpu tldr', 'one page']],
    changes: false,
    load: async () => (await import('../commands/help.ts')).tldr,
  }),
  tpuCommand({
    names: ['completion'],
    summary: 'Print what makes a shell complete the words of `tpu`',
    examples: [['source <(tpu completion bash)', 'or zsh; fish: tpu completion fish | source']],
    args: [
      {
        name: 'shell',
        needed: true,
        summary: 'shell: bash, zsh or fish',
        propose: () => shells.map((value) => ({ value, summary: 'a shell' })),
      },
    ],
    changes: false,
    load: async () => (await import('../commands/help.ts')).completion,
  }),
]);

/** For the help and for users who type the command. Scripts use the fast path in run-tpu.ts. */
async function loadReportCommand(verb: 'upd-log' | 'finish-job'): Promise<TpuHandler> {
  const { runReportCommand } = await import('../commands/window-reports.ts');
  return (cli, args) => runReportCommand(verb, args.raw, cli.services);
}

export const scriptCommands = grouped('In scripts', [
  tpuCommand({
    names: ['upd-log'],
    usage: '<session:window> <log folder> <stage folder> <tpu> <time>',
    summary: 'Tell where a run writes its log and has its code; run_remote.sh calls it',
    examples: [['tpu upd-log $current_window $LOGDIR $STAGEDIR $VM_NAME $now', 'as in run_remote.sh']],
    exitCodes: { 3: 'there is no such window' },
    takes: { raw: true },
    load: () => loadReportCommand('upd-log'),
  }),
  tpuCommand({
    names: ['finish-job'],
    usage: '<session:window>',
    summary: 'Tell that a run has succeeded; run_remote.sh calls it',
    examples: [['tpu finish-job $current_window', 'as in run_remote.sh']],
    exitCodes: { 3: 'there is no such window' },
    takes: { raw: true },
    load: () => loadReportCommand('finish-job'),
  }),
  tpuCommand({
    names: ['__begin'],
    hidden: true,
    summary: "What a job's script asks when it begins",
    examples: [],
    takes: { raw: true },
    load: async () => (await import('../commands/attempt-hooks.ts')).begin,
  }),
  tpuCommand({
    names: ['__closed'],
    hidden: true,
    usage: '<job> <attempt>',
    summary: 'What the window of an attempt says when it was closed',
    examples: [],
    takes: { raw: true },
    load: async () => (await import('../commands/attempt-hooks.ts')).closed,
  }),
  tpuCommand({
    names: ['__end'],
    hidden: true,
    usage: '<code>',
    summary: "What a job's script asks when it ends",
    examples: [],
    takes: { raw: true },
    load: async () => (await import('../commands/attempt-hooks.ts')).end,
  }),
]);
