// Users who share the TPUs, and their working directories: the folders they run code from, by number.

import { existsSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { exitCode, JobmanError } from '../../../app/errors.ts';
import { countText, inertWord } from '../../../app/figures.ts';
import { defaultAliases, newName } from '../../../lab/names.ts';
import {
  directoryOf,
  type LabUser,
  lowestFreeId,
  withDirectory,
  withoutDirectory,
  withSwapped,
} from '../../../lab/people.ts';
import { defaultUserSettings, userSetting } from '../../../lab/user-settings.ts';
import { confirm } from '../../prompt.ts';
import { numberOf, textOf, type TpuBody, type TpuCli, type Words, wordsInUse } from '../command.ts';
import { actingFor, userOf } from '../people.ts';
import { canAsk, printList, question } from '../terminal.ts';

interface Item<Value> {
  readonly asks: string;
  readonly said: string | undefined;
  readonly proposal: string;
  readonly read: (word: string) => Value;
}

/** Nothing is written before everything is known, and no tmux session is touched: the first window makes the session. */
export async function addUser(desk: TpuCli, words: Words): Promise<number> {
  const { record } = desk.lab;
  const [use, users] = await Promise.all([wordsInUse(desk), record.users()]);
  const { keys } = words;
  const isAsking = canAsk(desk) && !desk.yes;
  const said = words.texts['name'];
  if (said === undefined && !isAsking) {
    throw new JobmanError('Which name? Away from a terminal it has to be said: tpu add-user name=ada', exitCode.usage);
  }
  const find = <Value>(item: Item<Value>): Promise<Value> => valueOf(desk, item, isAsking);
  const name = await find({ asks: 'Name', said, proposal: '', read: (word) => newName('user', word, use) });
  const session = await find({
    asks: 'tmux session of their windows',
    said: keys['session'],
    proposal: name.replaceAll(/[:.]/g, '-'),
    read: (word) => free(users, 'session', newName('session', word, use)),
  });
  const sheetName = await find({
    asks: 'Name in the booking sheet',
    said: keys['sheet'],
    proposal: name,
    // The name decides whose a booking is.
    read: (word) => free(users, 'sheetName', word),
  });
  const lowest = String(lowestFreeId(users));
  const id = await find({
    asks: 'Id, a number for life',
    said: keys['id'],
    proposal: lowest,
    // Somebody else may be given it meanwhile: what is only proposed is the lowest that is free when it is written.
    read(word) {
      if (word === lowest && keys['id'] === undefined) return null;
      if (/^\d{1,6}$/.test(word)) return free(users, 'id', Number(word));
      throw new JobmanError(`"${word}" is no id: a whole number was expected.`, exitCode.usage);
    },
  });
  const zone = await find({
    asks: "Time zone: local (this machine's), us, cn or a name such as Europe/Berlin",
    said: keys['tz'],
    proposal: defaultUserSettings.time_zone,
    read(word) {
      const found = userSetting('time_zone').read(word);
      if (typeof found === 'string') return found;
      throw new JobmanError(
        `"${word}" is no time zone: local, us, cn, or a name such as Europe/Berlin.`,
        exitCode.usage,
      );
    },
  });
  const folder = await find({
    asks: 'Working directory 1 (- for none yet)',
    said: keys['dir'],
    // Away from a terminal nobody said that this folder is one to run from.
    proposal: isAsking ? desk.io.cwd : '-',
    read: (word) => folderFrom(desk, word),
  });
  const logins = await find({
    asks: 'Login names that are theirs alone, parted by commas (- for none)',
    said: keys['login'],
    proposal: '-',
    read: (word) => (word === '-' ? [] : word.split(',').filter((login) => login !== '')),
  });
  const added = await record.addUser({
    name,
    id,
    session,
    sheetName,
    logins,
    directories: folder === null ? {} : { 1: folder },
    aliases: defaultAliases,
    settings: { ...defaultUserSettings, time_zone: zone },
    nextWindow: 1,
    createdAt: desk.io.now(),
    newsSeen: 0,
  });
  desk.tell(inertWord(`${added.name} is user ${added.id}; windows are in the tmux session ${added.session}.`));
  if (folder === null) desk.note(`In the folder of your code: tpu set-cur 1 ${added.name}`);
  else desk.note(`Then: tpu run TPU ${added.name}; tpu -lta lists the TPUs`);
  return exitCode.ok;
}

async function valueOf<Value>(desk: TpuCli, item: Item<Value>, isAsking: boolean): Promise<Value> {
  const { asks, said, proposal, read } = item;
  if (said !== undefined) return read(said);
  if (!isAsking) return read(proposal);
  for (;;) {
    try {
      return read(await question(desk, asks, proposal));
    } catch (error) {
      // Ask again after a wrong answer, but not at the end of the input.
      if (!(error instanceof JobmanError) || error.code === exitCode.interrupted) throw error;
      desk.complain(error.message);
    }
  }
}

/** The value, unless somebody has it. The record looks again when it is written. */
function free<Value extends string | number>(
  users: readonly LabUser[],
  what: 'session' | 'id' | 'sheetName',
  value: Value,
): Value {
  const other = users.find((user) => user[what] === value);
  if (other === undefined) return value;
  const called = what === 'sheetName' ? 'name in the booking sheet' : what;
  throw new JobmanError(`The ${called} ${value} is ${other.name}'s. Choose another.`, exitCode.conflict);
}

function folderFrom(desk: TpuCli, word: string): string | null {
  if (word === '-') return null;
  const folder = folderCalled(desk, word);
  checkFolder(folder);
  return folder;
}

export async function delUser(desk: TpuCli, words: Words): Promise<number> {
  const { user: name } = words;
  if (name === null) throw new JobmanError('Which user? Say a name: tpu del-user ada', exitCode.usage);
  const { record } = desk.lab;
  const windows = (await record.windows({ user: name })).length;
  const left = windows === 0 ? '' : ` ${countText(windows, 'window')} on the list would stay.`;
  const refused = `${name} would be taken off the list of users.${left}`;
  if (!(await confirm(desk, `Take ${name} off the list of users?${left}`, refused))) return exitCode.failed;
  await record.dropUser(name);
  desk.tell(`${name} is no user any more. Jobs, folders and tmux windows stay as they are.`);
  return exitCode.ok;
}

export async function listUsers(desk: TpuCli): Promise<number> {
  return printList(desk, await desk.lab.record.users(), {
    json: (user) => user,
    none: 'There are no users yet. `tpu add-user` adds one.',
    headings: ['ID', 'USER', 'SESSION', 'IN THE SHEET', 'TIME ZONE', 'DIRS', 'LOGINS'],
    cells: ({ id, name, session, sheetName, settings, directories, logins }) => [
      String(id),
      name,
      session,
      sheetName,
      settings.time_zone,
      String(Object.keys(directories).length),
      logins.join(', ') || '-',
    ],
    sides: { 0: 'right', 5: 'right' },
  });
}

export const setCur: TpuBody = (desk, words) => setFolder(desk, words, words.numbers['dir'] ?? 1, desk.io.cwd);

export const setDir: TpuBody = (desk, words) =>
  setFolder(desk, words, numberOf(words, 'dir'), folderCalled(desk, textOf(words, 'path')));

async function setFolder(desk: TpuCli, words: Words, number: number, folder: string): Promise<number> {
  const { user } = await actingFor(desk, words, `set working directory ${number}`);
  checkFolder(folder);
  await desk.lab.record.changeUser(user.name, (now) => withDirectory(now, number, folder));
  const before = user.directories[number];
  const was = before === undefined || before === folder ? '' : ` It was ${before}.`;
  desk.tell(inertWord(`Working directory ${number} of ${user.name} is ${folder}.${was}`));
  if (!existsSync(join(folder, 'staging.sh'))) {
    desk.note('note: There is no staging.sh in it, which `tpu run` sources.');
  }
  return exitCode.ok;
}

/** The absolute path. `~` is the home of the caller, which not every shell expands behind `dir=`. */
export function folderCalled({ io }: Pick<TpuCli, 'io'>, path: string): string {
  return resolve(
    io.cwd,
    path.replace(/^~(?=\/|$)/, () => io.userHome),
  );
}

export function checkFolder(folder: string): void {
  const facts = statSync(folder, { throwIfNoEntry: false });
  if (facts?.isDirectory() !== true) {
    throw new JobmanError(`There is no folder ${inertWord(folder)}. Nothing was changed.`, exitCode.notFound);
  }
}

export async function getDir(desk: TpuCli, words: Words): Promise<number> {
  desk.print(directoryOf(await userOf(desk, words), numberOf(words, 'dir')));
  return exitCode.ok;
}

export async function listDirs(desk: TpuCli, words: Words): Promise<number> {
  const { name: user, directories } = await userOf(desk, words);
  const remark = (dir: string, path: string): string => (existsSync(path) ? (dir === '1' ? 'default' : '') : 'is gone');
  return printList(desk, Object.entries(directories), {
    json: ([dir, path]) => ({ user, dir: Number(dir), path, gone: !existsSync(path) }),
    none: `${user} has no working directory yet. \`tpu set-cur 1 ${user}\` makes this folder the first.`,
    headings: ['DIR', 'PATH', ''],
    cells: ([dir, path]) => [dir, inertWord(path), remark(dir, path)],
    sides: { 0: 'right' },
  });
}

export async function delDir(desk: TpuCli, words: Words): Promise<number> {
  const number = numberOf(words, 'dir');
  const { user } = await actingFor(desk, words, `forget working directory ${number}`);
  const folder = directoryOf(user, number);
  await desk.lab.record.changeUser(user.name, (now) => withoutDirectory(now, number));
  desk.tell(
    inertWord(`${user.name} has no working directory ${number} any more; the folder ${folder} stays as it is.`),
  );
  return exitCode.ok;
}

export async function swapDir(desk: TpuCli, words: Words): Promise<number> {
  const [one, other] = [numberOf(words, 'dir'), numberOf(words, 'with')];
  const { user } = await actingFor(desk, words, `swap working directories ${one} and ${other}`);
  const now = await desk.lab.record.changeUser(user.name, (before) => withSwapped(before, one, other));
  for (const number of [one, other]) {
    desk.tell(inertWord(`Working directory ${number} of ${now.name} is ${now.directories[number]}.`));
  }
  return exitCode.ok;
}
