// Users who share the TPUs, and their working directories: numbered folders that they run code from.

import { existsSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { exitCode, JobmanError } from '../../../app/errors.ts';
import { pluralize, escapeLine } from '../../../app/format.ts';
import { defaultAliases, parseName } from '../../../lab/names.ts';
import {
  directoryOf,
  type LabUser,
  lowestFreeId,
  withDirectory,
  withoutDirectory,
  withSwappedDirectories,
} from '../../../lab/users.ts';
import { defaultUserSettings, userSetting } from '../../../lab/user-settings.ts';
import { confirm } from '../../prompt.ts';
import {
  requiredNumber,
  requiredText,
  type TpuHandler,
  type TpuCli,
  type ParsedArguments,
  namesInUse,
} from '../command.ts';
import { resolveActingUser, resolveUser } from '../resolve-user.ts';
import { canAsk, printList, ask } from '../terminal.ts';

/** Writes nothing until every value is valid. The first window creates the tmux session. */
export async function addUser(cli: TpuCli, args: ParsedArguments): Promise<number> {
  const { store } = cli.lab;
  const [use, users] = await Promise.all([namesInUse(cli), store.users()]);
  const { keys } = args;
  const isAsking = canAsk(cli) && !cli.yes;
  const givenName = args.texts['name'];
  if (givenName === undefined && !isAsking)
    throw new JobmanError('Without a terminal, give the name: tpu add-user name=ada', exitCode.usage);
  const read = async <Value>(
    question: string,
    given: string | undefined,
    otherwise: string,
    parse: (text: string) => Value,
  ): Promise<Value> => {
    if (given !== undefined || !isAsking) return parse(given ?? otherwise);
    for (;;) {
      try {
        return parse(await ask(cli, question, otherwise));
      } catch (error) {
        // Ask again after a wrong answer, but not at the end of the input.
        if (!(error instanceof JobmanError) || error.code === exitCode.interrupted) throw error;
        cli.printStderr(error.message);
      }
    }
  };
  const name = await read('Name', givenName, '', (text) => parseName('user', text, use));
  const session = await read('tmux session', keys['session'], name.replaceAll(/[:.]/g, '-'), (text) =>
    requireFree(users, 'session', parseName('session', text, use)),
  );
  const sheetName = await read('Name in the booking sheet', keys['sheet'], name, (text) =>
    requireFree(users, 'sheetName', text),
  );
  const lowest = String(lowestFreeId(users));
  const id = await read('Id (a permanent number)', keys['id'], lowest, (text) => {
    // Another user may get this id meanwhile, so a proposed id is chosen again when it is stored.
    if (text === lowest && keys['id'] === undefined) return null;
    if (/^\d{1,6}$/.test(text)) return requireFree(users, 'id', Number(text));
    throw new JobmanError(`"${text}" is not an id: a whole number.`, exitCode.usage);
  });
  const zones = "local: this machine's; us, cn, or a name such as Europe/Berlin";
  const zone = await read(`Time zone (${zones})`, keys['tz'], defaultUserSettings.time_zone, (text) => {
    const found = userSetting('time_zone').read(text);
    if (typeof found === 'string') return found;
    throw new JobmanError(`"${text}" is not a time zone (${zones}).`, exitCode.usage);
  });
  // Without a terminal the user cannot confirm the current folder.
  const currentFolder = isAsking ? cli.io.cwd : '-';
  const folder = await read('Working directory 1 (- for none yet)', keys['dir'], currentFolder, (text) =>
    text === '-' ? null : parseFolder(cli, text),
  );
  const loginsQuestion = "The user's own login names, separated by commas (- for none)";
  const logins = await read(loginsQuestion, keys['login'], '-', (text) =>
    text === '-' ? [] : text.split(',').filter((login) => login !== ''),
  );
  const added = await store.addUser({
    name,
    id,
    session,
    sheetName,
    logins,
    directories: folder === null ? {} : { 1: folder },
    aliases: defaultAliases,
    settings: { ...defaultUserSettings, time_zone: zone },
    nextWindow: 1,
    createdAt: cli.io.now(),
    newsSeen: 0,
  });
  cli.printSentence(escapeLine(`Added user ${added.name} (id ${added.id}, tmux session ${added.session}).`));
  if (folder === null) cli.note(`Next, in the folder of your code: tpu set-cur 1 ${added.name}`);
  else cli.note(`Next: tpu run TPU ${added.name} (\`tpu list\` shows the TPUs)`);
  return exitCode.ok;
}

/** Returns the value unless another user has it. The store checks again when it writes. */
function requireFree<Value extends string | number>(
  users: readonly LabUser[],
  what: 'session' | 'id' | 'sheetName',
  value: Value,
): Value {
  const other = users.find((user) => user[what] === value);
  if (other === undefined) return value;
  const called = what === 'sheetName' ? 'name in the booking sheet' : what;
  throw new JobmanError(`The ${called} ${value} belongs to ${other.name}. Choose another.`, exitCode.conflict);
}

export async function delUser(cli: TpuCli, args: ParsedArguments): Promise<number> {
  const { user: name } = args;
  if (name === null) throw new JobmanError('Which user? Give a name: tpu del-user ada', exitCode.usage);
  const { store } = cli.lab;
  const windows = (await store.windows({ user: name })).length;
  const left = windows === 0 ? '' : ` ${pluralize(windows, 'window')} would stay on the list.`;
  if (!(await confirm(cli, `Remove user ${name}?${left}`, `This would remove user ${name}.${left}`)))
    return exitCode.failed;
  await store.removeUser(name);
  cli.printSentence(`Removed user ${name}. Jobs, folders and tmux windows were not changed.`);
  return exitCode.ok;
}

export async function listUsers(cli: TpuCli): Promise<number> {
  return printList(cli, await cli.lab.store.users(), {
    json: ({ settings, newsSeen: _newsSeen, ...user }) => ({
      ...user,
      timeZone: settings.time_zone,
    }),
    emptyMessage: 'There are no users yet. `tpu add-user` adds one.',
    headings: ['ID', 'USER', 'SESSION', 'NAME IN SHEET', 'TIME ZONE', 'DIRS', 'LOGINS'],
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

export const setCur: TpuHandler = (cli, args) => setDirectory(cli, args, args.numbers['dir'] ?? 1, cli.io.cwd);

export const setDir: TpuHandler = (cli, args) =>
  setDirectory(cli, args, requiredNumber(args, 'dir'), requiredText(args, 'path'));

async function setDirectory(cli: TpuCli, args: ParsedArguments, number: number, path: string): Promise<number> {
  const { user } = await resolveActingUser(cli, args, `set working directory ${number}`);
  const folder = parseFolder(cli, path);
  await cli.lab.store.changeUser(user.name, (now) => withDirectory(now, number, folder));
  const before = user.directories[number];
  const was = before === undefined || before === folder ? '' : ` It was ${before}.`;
  cli.printSentence(escapeLine(`Working directory ${number} of ${user.name} is ${folder}.${was}`));
  if (!existsSync(join(folder, 'staging.sh'))) cli.note('note: It has no staging.sh, which `tpu run` needs.');
  return exitCode.ok;
}

/** The absolute path of an existing folder. Not every shell expands `~` after `dir=`. */
function parseFolder({ io }: TpuCli, path: string): string {
  const folder = resolve(
    io.cwd,
    path.replace(/^~(?=\/|$)/, () => io.userHome),
  );
  if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() === true) return folder;
  throw new JobmanError(`There is no folder ${escapeLine(folder)}. Nothing was changed.`, exitCode.notFound);
}

export async function getDir(cli: TpuCli, args: ParsedArguments): Promise<number> {
  const user = await resolveUser(cli, args);
  const dir = requiredNumber(args, 'dir');
  const path = directoryOf(user, dir);
  if (cli.json) cli.printJson({ user: user.name, dir, path, gone: !existsSync(path) });
  else cli.print(path);
  return exitCode.ok;
}

export async function listDirs(cli: TpuCli, args: ParsedArguments): Promise<number> {
  const { name: user, directories } = await resolveUser(cli, args);
  const remark = (dir: string, path: string): string =>
    existsSync(path) ? (dir === '1' ? 'default' : '') : 'does not exist';
  return printList(cli, Object.entries(directories), {
    json: ([dir, path]) => ({ user, dir: Number(dir), path, gone: !existsSync(path) }),
    emptyMessage: `${user} has no working directories. \`tpu set-cur 1 ${user}\` adds the current folder.`,
    headings: ['DIR', 'PATH', ''],
    cells: ([dir, path]) => [dir, escapeLine(path), remark(dir, path)],
    sides: { 0: 'right' },
  });
}

export async function delDir(cli: TpuCli, args: ParsedArguments): Promise<number> {
  const number = requiredNumber(args, 'dir');
  const { user } = await resolveActingUser(cli, args, `remove working directory ${number}`);
  const folder = directoryOf(user, number);
  await cli.lab.store.changeUser(user.name, (now) => withoutDirectory(now, number));
  cli.printSentence(
    escapeLine(`Removed working directory ${number} of ${user.name}. The folder ${folder} was not changed.`),
  );
  return exitCode.ok;
}

export async function swapDir(cli: TpuCli, args: ParsedArguments): Promise<number> {
  const [one, other] = [requiredNumber(args, 'dir'), requiredNumber(args, 'with')];
  const { user } = await resolveActingUser(cli, args, `swap working directories ${one} and ${other}`);
  const now = await cli.lab.store.changeUser(user.name, (before) => withSwappedDirectories(before, one, other));
  for (const number of [one, other])
    cli.printSentence(escapeLine(`Working directory ${number} of ${now.name} is ${now.directories[number]}.`));
  return exitCode.ok;
}
