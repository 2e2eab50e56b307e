// Commands of `tpu` about the lab.

import { grouped } from '../../command.ts';
import { shells } from '../../completion/shells.ts';
import { mark, value, word } from '../../flags.ts';
import { parseCount } from '../../parse.ts';
import { tpuCommand } from '../row.ts';

export const lab = grouped('The lab', [
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
    exits: { 2: 'the name would be read as something else', 4: 'the name, id, session or login is taken' },
    takes: {
      keys: {
        session: word('The tmux session of their windows', 'session', 'tmux'),
        sheet: word('Their name in the booking sheet', 'name'),
        id: value('A number for life; the lowest that is free without it', 'N', parseCount),
        tz: word('local, us, cn or a name such as Europe/Berlin', 'zone', 'time_zone'),
        dir: word('Working directory 1', 'path'),
        login: word('Login names that are theirs, parted by commas', 'logins'),
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
    takes: { keys: { group: word('The group of the system', 'name', '--group', '-g') } },
    load: async () => (await import('../commands/init-lab.ts')).initLab,
  }),
  tpuCommand({
    names: ['import'],
    usage: '<data.json> [--apply]',
    summary: 'Take over the users, TPUs and jobs of the program before this one',
    about: 'Without --apply it only says what it would take, and what not and why.',
    examples: [['tpu import data.json', 'a dry run']],
    args: [{ name: 'file', needed: true, summary: 'file' }],
    flags: { apply: mark('Do it') },
    load: async () => (await import('../commands/import.ts')).importData,
  }),
  tpuCommand({
    names: ['doctor'],
    summary: 'What does not fit together in the record, and how to put it right',
    examples: [['tpu doctor', 'changes nothing']],
    changes: false,
    load: async () => (await import('../commands/doctor.ts')).doctor,
  }),
  tpuCommand({
    names: ['tldr'],
    summary: 'The commands of a usual day',
    examples: [['tpu tldr', 'one page']],
    changes: false,
    load: async () => (await import('../commands/tldr.ts')).tldr,
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
        propose: () => shells.map((word) => ({ word, summary: 'a shell' })),
      },
    ],
    changes: false,
    load: async () => (await import('../commands/completion.ts')).completion,
  }),
]);
