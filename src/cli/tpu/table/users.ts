// Commands of `tpu` about the settings of a user, about the lab, and for scripts.

import { capitalize } from '../../../app/format.ts';
import { userSettings } from '../../../lab/user-settings.ts';
import { grouped } from '../../command.ts';
import { shells } from '../../completion/proposals.ts';
import { boolFlag, valueFlag, stringFlag } from '../../flags.ts';
import { parseCount } from '../../parse.ts';
import { type TpuHandler, tpuCommand, tpuQuery } from '../command.ts';
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

export const settingsCommands = grouped('Settings', [
  tpuCommand(['set-cur'], 'Make the current folder your working directory n (default 1)', {
    usage: '[n] [user]',
    examples: [['tpu set-cur 1 ada', 'the directory that `tpu run` uses without dir=']],
    takes: { user: true },
    args: [anyDirectory],
    load: async () => (await import('../commands/users.ts')).setCur,
  }),
  tpuCommand(['set-dir'], 'Make a folder your working directory n', {
    usage: '<path> <n> [user]',
    examples: [['tpu set-dir ~/code/vit 2 ada', 'directory 2']],
    takes: { user: true },
    args: [directory, { name: 'path', needed: true, summary: 'path of the folder', pattern: /[/~.]/ }],
    load: async () => (await import('../commands/users.ts')).setDir,
  }),
  tpuQuery(['get-dir'], 'Print the path of working directory n', {
    usage: '<n> [user]',
    examples: [['cd "$(tpu get-dir 2 ada)"', 'go there']],
    takes: { user: true },
    args: [directory],
    load: async () => (await import('../commands/users.ts')).getDir,
  }),
  tpuQuery(['ls', 'lsdir'], 'List your working directories', {
    examples: [['tpu ls ada', 'by number']],
    takes: { user: true },
    load: async () => (await import('../commands/users.ts')).listDirs,
  }),
  tpuCommand(['del-dir'], 'Remove working directory n from the list; the folder stays', {
    usage: '<n> [user]',
    examples: [['tpu del-dir 2 ada', 'number 2 is free again']],
    takes: { user: true },
    args: [directory],
    load: async () => (await import('../commands/users.ts')).delDir,
  }),
  tpuCommand(['swap-dir'], 'Swap two working directories', {
    usage: '<n> <m> [user]',
    examples: [['tpu swap-dir 1 2 ada', 'directory 2 becomes the default']],
    takes: { user: true },
    args: [directory, { ...directory, name: 'with' }],
    load: async () => (await import('../commands/users.ts')).swapDir,
  }),
  tpuCommand(['add-config-alias', '-a', '-alias'], 'Add an alias for a config key', {
    examples: [['tpu -a lr config.training.learning_rate ada', 'then: tpu run v2-32-6 ada lr=0.01']],
    takes: { user: true },
    args: [alias, { name: 'key', needed: true, summary: 'config key', pattern: /^config\b/ }],
    load: async () => (await import('../commands/users.ts')).addConfigAlias,
  }),
  tpuQuery(['show-config-alias', '-sa', '-la'], 'List your config aliases', {
    examples: [['tpu -sa ada', 'with their keys']],
    takes: { user: true },
    load: async () => (await import('../commands/users.ts')).listConfigAliases,
  }),
  tpuCommand(['del-config-alias'], 'Remove a config alias', {
    examples: [['tpu del-config-alias lr ada', "ada's alias lr"]],
    takes: { user: true },
    args: [{ ...alias, suggests: 'config aliases' }],
    load: async () => (await import('../commands/users.ts')).delConfigAlias,
  }),
  tpuCommand(['set-settings'], 'Change one of your settings', {
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
    load: async () => (await import('../commands/users.ts')).setSettings,
  }),
  tpuQuery(['get-settings'], 'Show your settings', {
    extraRows: settingsList,
    examples: [['tpu get-settings ada', 'all settings']],
    takes: { user: true },
    args: [setting],
    load: async () => (await import('../commands/users.ts')).getSettings,
  }),
  tpuCommand(['reset-settings'], 'Reset your settings, or one of them, to the default', {
    extraRows: settingsList,
    examples: [['tpu reset-settings time_zone ada', 'only this setting']],
    takes: { user: true },
    args: [setting],
    load: async () => (await import('../commands/users.ts')).resetSettings,
  }),
  tpuCommand(['reset-window-num', 'reset-window'], 'Number new windows from n; numbers in use are skipped', {
    examples: [['tpu reset-window-num 1 ada', 'from 1']],
    takes: { user: true },
    args: [{ name: 'n', number: true, needed: true, summary: 'number of the next window' }],
    load: async () => (await import('../commands/users.ts')).resetWindowNum,
  }),
]);

export const labCommands = grouped('Lab', [
  tpuCommand(['add-user'], 'Add a user', {
    usage: '[name] [session=S] [sheet=S] [id=N] [tz=zone] [dir=path] [login=L]',
    about:
      'Asks for each value that you do not give. Without a terminal the name is required, and the others get defaults.',
    examples: [
      ['tpu add-user', 'asks for each value'],
      ['tpu add-user name=ada session=ada sheet=Ada tz=cn dir=~/code/vit --yes', 'without questions'],
    ],
    exitCodes: { 2: 'the name is not allowed', 4: 'the name, id, session or login is taken' },
    takes: {
      keys: {
        session: stringFlag("tmux session of the user's windows", 'session', 'tmux'),
        sheet: stringFlag('Name in the booking sheet', 'name'),
        id: valueFlag('A permanent number; default: the lowest free one', 'N', parseCount),
        tz: stringFlag('Time zone: local, us, cn or a name such as Europe/Berlin', 'zone', 'time_zone'),
        dir: stringFlag('Working directory 1', 'path'),
        login: stringFlag("The user's own login names, separated by commas", 'logins'),
      },
    },
    args: [{ name: 'name', summary: 'name' }],
    load: async () => (await import('../commands/users.ts')).addUser,
  }),
  tpuCommand(['set-logins'], 'Set the logins of a user', {
    usage: '[user] login=L',
    about: 'Replaces all logins of the user; login=- removes them. A login acts as its user without a question.',
    examples: [
      ['tpu set-logins ada login=ada,ada1', 'both logins are ada'],
      ['tpu set-logins ada login=-', 'ada has no login of her own'],
    ],
    exitCodes: { 4: 'a login belongs to another user' },
    takes: { user: true },
    args: [{ name: 'login', needed: true, summary: 'login names, separated by commas', pattern: /^$/ }],
    load: async () => (await import('../commands/users.ts')).setLogins,
  }),
  tpuCommand(['del-user'], 'Remove a user; jobs and folders stay', {
    usage: '<user>',
    examples: [['tpu del-user ada', 'asks first']],
    takes: { user: true },
    load: async () => (await import('../commands/users.ts')).delUser,
  }),
  tpuQuery(['list-users', '-lu'], 'List the users', {
    examples: [['tpu list-users', 'with their ids, tmux sessions and names in the booking sheet']],
    load: async () => (await import('../commands/users.ts')).listUsers,
  }),
  tpuCommand(['init-lab'], 'Share $JOBMAN_HOME with a group of logins', {
    needsLoginMachine: true,
    usage: 'group=name',
    examples: [['tpu init-lab group=lab', 'once, when you set up the lab']],
    takes: { keys: { group: stringFlag('System group', 'name', '--group', '-g') } },
    load: async () => (await import('../commands/lab.ts')).initLab,
  }),
  tpuCommand(['import'], 'Import users, TPUs and jobs of the older `tpu` program', {
    needsLoginMachine: true,
    usage: '<data.json> [--apply]',
    about: 'Without --apply it only shows what it would import, what it would skip, and why.',
    examples: [['tpu import data.json', 'changes nothing']],
    args: [{ name: 'file', needed: true, summary: 'file' }],
    flags: { apply: boolFlag('Import') },
    load: async () => (await import('../commands/lab.ts')).importData,
  }),
  tpuQuery(['doctor'], 'Check the lab for inconsistencies, and show how to repair them', {
    needsLoginMachine: true,
    examples: [['tpu doctor', 'changes nothing']],
    load: async () => (await import('../commands/lab.ts')).doctor,
  }),
  tpuQuery(['tldr'], 'Show the most common commands', {
    examples: [['tpu tldr', 'one page']],
    load: async (program) => (await import('../commands/help.ts')).tldr(program),
  }),
  tpuQuery(['completion'], 'Print a shell completion script', {
    examples: [['source <(tpu completion bash)', 'or zsh; fish: tpu completion fish | source']],
    args: [
      {
        name: 'shell',
        needed: true,
        summary: 'shell: bash, zsh or fish',
        propose: () => shells.map((value) => ({ value, summary: 'a shell' })),
      },
    ],
    load: async () => (await import('../commands/help.ts')).completion,
  }),
]);

/** Scripts use the fast path in run-tpu.ts instead. */
async function loadReportCommand(verb: 'upd-log' | 'finish-job'): Promise<TpuHandler> {
  const { runReportCommand } = await import('../commands/window-reports.ts');
  return (cli, args) => runReportCommand(verb, args.raw, cli.services);
}

export const scriptCommands = grouped('Scripts', [
  tpuCommand(['upd-log'], 'Report the log folder and the code folder of a run', {
    usage: '<session:window> <log folder> <stage folder> <tpu> <time>',
    examples: [['tpu upd-log $current_window $LOGDIR $STAGEDIR $VM_NAME $now', 'in run_remote.sh']],
    exitCodes: { 3: 'no job has this window', 4: 'the script belongs to another window' },
    takes: { raw: true },
    load: () => loadReportCommand('upd-log'),
  }),
  tpuCommand(['finish-job'], 'Report that a run has succeeded', {
    usage: '<session:window>',
    examples: [['tpu finish-job $current_window', 'in run_remote.sh']],
    exitCodes: { 3: 'no job has this window', 4: 'the script belongs to another window' },
    takes: { raw: true },
    load: () => loadReportCommand('finish-job'),
  }),
  tpuCommand(['__begin'], 'Begin an attempt', {
    hidden: true,
    examples: [],
    takes: { raw: true },
    load: async () => (await import('../commands/attempt-hooks.ts')).begin,
  }),
  tpuCommand(['__closed'], 'Report that the window of an attempt was closed', {
    hidden: true,
    usage: '<job> <attempt>',
    examples: [],
    takes: { raw: true },
    load: async () => (await import('../commands/attempt-hooks.ts')).closed,
  }),
  tpuCommand(['__end'], 'End an attempt', {
    hidden: true,
    usage: '<code>',
    examples: [],
    takes: { raw: true },
    load: async () => (await import('../commands/attempt-hooks.ts')).end,
  }),
]);
