// Commands of `tpu` about one user.

import { capital } from '../../../app/reason-words.ts';
import { userSettings } from '../../../lab/user-settings.ts';
import { grouped } from '../../command.ts';
import { tpuCommand } from '../row.ts';
import { alias, anyDirectory, directory } from './shared.ts';

const setting = {
  name: 'key',
  summary: 'name of the setting',
  propose: () => userSettings.map(({ key, meaning }) => ({ word: key, summary: meaning })),
} as const;
const settingsList = [
  'Settings',
  userSettings.map(({ key, form, meaning }) => [key, `${meaning.replaceAll('`', '')} ${capital(form)}.`] as const),
] as const;

export const you = grouped('You', [
  tpuCommand({
    names: ['set-cur'],
    usage: '[n] [user]',
    summary: 'Make this folder your working directory n; without n, 1',
    examples: [['tpu set-cur 1 ada', 'what `tpu run` takes unless dir= is said']],
    takes: { user: true },
    args: [anyDirectory],
    load: async () => (await import('../commands/directories.ts')).setCur,
  }),
  tpuCommand({
    names: ['set-dir'],
    usage: '<path> <n> [user]',
    summary: 'Make another folder your working directory n',
    examples: [['tpu set-dir ~/code/vit 2 ada', 'directory 2']],
    takes: { user: true },
    args: [directory, { name: 'path', needed: true, summary: 'path of the folder', like: /[/~.]/ }],
    load: async () => (await import('../commands/directories.ts')).setDir,
  }),
  tpuCommand({
    names: ['get-dir'],
    usage: '<n> [user]',
    summary: 'Print the path of working directory n',
    examples: [['cd "$(tpu get-dir 2 ada)"', 'go there']],
    takes: { user: true },
    args: [directory],
    changes: false,
    load: async () => (await import('../commands/directories.ts')).getDir,
  }),
  tpuCommand({
    names: ['ls', 'lsdir'],
    summary: 'Your working directories',
    examples: [['tpu ls ada', 'by number']],
    takes: { user: true },
    changes: false,
    load: async () => (await import('../commands/directories.ts')).listDirs,
  }),
  tpuCommand({
    names: ['del-dir'],
    usage: '<n> [user]',
    summary: 'Forget working directory n; the folder stays',
    examples: [['tpu del-dir 2 ada', 'number 2 is free then']],
    takes: { user: true },
    args: [directory],
    load: async () => (await import('../commands/directories.ts')).delDir,
  }),
  tpuCommand({
    names: ['swap-dir'],
    usage: '<n> <m> [user]',
    summary: 'Swap two working directories',
    examples: [['tpu swap-dir 1 2 ada', 'what was 2 is the usual one now']],
    takes: { user: true },
    args: [directory, { ...directory, name: 'with' }],
    load: async () => (await import('../commands/directories.ts')).swapDir,
  }),
  tpuCommand({
    names: ['-a', '-alias', 'add-config-alias'],
    summary: 'Have a short word for a key of your configs',
    examples: [['tpu -a lr config.training.learning_rate ada', 'then: tpu run v2-32-6 ada lr=0.01']],
    takes: { user: true },
    args: [alias, { name: 'key', needed: true, summary: 'key of the config', like: /^config\b/ }],
    load: async () => (await import('../commands/config-aliases.ts')).addConfigAlias,
  }),
  tpuCommand({
    names: ['-sa', '-la', 'show-config-alias'],
    summary: 'Your short words for keys of configs',
    examples: [['tpu -sa ada', 'with what each stands for']],
    takes: { user: true },
    changes: false,
    load: async () => (await import('../commands/config-aliases.ts')).listConfigAliases,
  }),
  tpuCommand({
    names: ['del-config-alias'],
    summary: 'Take such a word away',
    examples: [['tpu del-config-alias lr ada', '']],
    takes: { user: true },
    args: [{ ...alias, of: 'config aliases' }],
    load: async () => (await import('../commands/config-aliases.ts')).delConfigAlias,
  }),
  tpuCommand({
    names: ['set-settings'],
    summary: 'Change one of your settings',
    list: settingsList,
    examples: [
      ['tpu set-settings monitor_after_run False ada', 'no monitor after `tpu run`'],
      ['tpu set-settings time_zone cn ada', 'or local, us, or a name such as Europe/Berlin'],
    ],
    takes: { user: true },
    args: [
      { ...setting, needed: true, like: /^[a-z]+(_[a-z]+)+$/ },
      { name: 'value', needed: true, summary: 'value' },
    ],
    load: async () => (await import('../commands/settings.ts')).setSettings,
  }),
  tpuCommand({
    names: ['get-settings'],
    summary: 'Your settings with what each means',
    list: settingsList,
    examples: [['tpu get-settings ada', 'all of them']],
    takes: { user: true },
    args: [setting],
    changes: false,
    load: async () => (await import('../commands/settings.ts')).getSettings,
  }),
  tpuCommand({
    names: ['reset-settings'],
    summary: 'Put your settings back to what a new user has, or one of them',
    list: settingsList,
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
