// Users who share the TPUs, with their working directories (numbered folders that they run code from), settings, window
// numbers and config aliases (short names for config keys).

import { resolve } from 'node:path';
import { auditEntry, type AuditEntry } from '../../../app/audit.ts';
import { exitCode, JobmanError, usageError } from '../../../app/errors.ts';
import { pluralize, escapeLine } from '../../../app/format.ts';
import { normalizeName } from '../../../app/user-names.ts';
import { parseName } from '../../../lab/names.ts';
import type { UserChange } from '../../../lab/service.ts';
import { type LabUser, lowestFreeId, newLabUser } from '../../../lab/users.ts';
import { defaultUserSettings, formatSetting, userSetting, userSettings } from '../../../lab/user-settings.ts';
import { askUntilValid, canAsk, confirm } from '../../prompt.ts';
import { inColumns } from '../../render/aligned.ts';
import { columnsOf } from '../../screen.ts';
import {
  requiredNumber,
  requiredText,
  type TpuHandler,
  type TpuCli,
  type ParsedArguments,
  namesInUse,
} from '../command.ts';
import { clientNaming, resolveActingUser, resolveUser } from '../resolve-user.ts';
import { printList } from '../terminal.ts';

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
  ): Promise<Value> =>
    given !== undefined || !isAsking ? parse(given ?? otherwise) : askUntilValid(cli, question, otherwise, parse);
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
  const folder = await read('Working directory 1 (- for none yet)', keys['dir'], currentFolder, async (text) =>
    text === '-' ? null : (await resolveFolder(cli, text)).folder,
  );
  const loginsQuestion = "The user's own login names, separated by commas (- for none)";
  // In a shared home, a user without logins could be acted for from every login without a question.
  const sameNamed = cli.lab.isOnServer ? null : await (await cli.services.labHome()).loginsNamed(name);
  const logins = await read(loginsQuestion, keys['login'], sameNamed?.[0] ?? '-', parseLogins);
  const audit = await auditOf(cli, 'tpu add-user', name, { logins });
  const directories: LabUser['directories'] = folder === null ? {} : { 1: folder };
  const chosen = { name, id, session, sheetName, logins, directories, timeZone: zone };
  const added = await store.addUser(newLabUser(chosen, cli.io.now()), audit);
  const own = keys['login'] === undefined && logins.length > 0 ? `, login ${logins.join(', ')}` : '';
  cli.printSentence(escapeLine(`Added user ${added.name} (id ${added.id}, tmux session ${added.session}${own}).`));
  if (sameNamed !== null && added.logins.length === 0)
    cli.note(
      `note: ${added.name} has no login: every login of the group that no user has may act as ${added.name} without a question. Add it: tpu set-logins ${added.name} login=LOGIN`,
    );
  if (folder === null) cli.note(`Next, in the folder of your code: tpu set-cur 1 ${added.name}`);
  else cli.note(`Next: tpu run TPU ${added.name} (\`tpu list\` shows the TPUs)`);
  return exitCode.ok;
}

/** The row of a change of a user or its logins, by which the user's rights change. */
async function auditOf(
  cli: TpuCli,
  operation: string,
  name: string,
  detail: AuditEntry['detail'] = {},
): Promise<AuditEntry> {
  const actor = await (await clientNaming(cli, name)).whoAmI();
  return auditEntry(actor, cli.io.now(), operation, { kind: 'user', id: name }, { detail });
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
  await store.removeUser(name, await auditOf(cli, 'tpu del-user', name));
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

/** Duplicates count once. */
function parseLogins(text: string): readonly string[] {
  return text === '-' ? [] : [...new Set(text.split(',').filter((login) => login !== ''))];
}

export function setLogins(cli: TpuCli, args: ParsedArguments): Promise<number> {
  const logins = parseLogins(requiredText(args, 'login'));
  const list = (user: LabUser): string => user.logins.join(', ') || 'none';
  return changeUser(cli, args, 'set the logins', { kind: 'set', values: { logins } }, (now, before) => [
    `Logins of ${now.name}: ${list(now)}.${list(now) === list(before) ? '' : ` Before: ${list(before)}.`}`,
  ]);
}

async function changeUser(
  cli: TpuCli,
  args: ParsedArguments,
  what: string,
  change: UserChange,
  sentences: (now: LabUser, before: LabUser) => readonly string[],
): Promise<number> {
  const user = await resolveActingUser(cli, args, what);
  const logins = change.kind === 'set' ? change.values.logins : undefined;
  const audit = logins === undefined ? undefined : await auditOf(cli, 'tpu set-logins', user.name, { logins });
  const { before, after } = await cli.lab.store.changeUser(user.name, change, audit);
  for (const sentence of sentences(after, before)) cli.printSentence(escapeLine(sentence));
  return exitCode.ok;
}

export const setCur: TpuHandler = (cli, args) => setDirectory(cli, args, args.numbers['dir'] ?? 1, cli.io.cwd);

export const setDir: TpuHandler = (cli, args) =>
  setDirectory(cli, args, requiredNumber(args, 'dir'), requiredText(args, 'path'));

async function setDirectory(cli: TpuCli, args: ParsedArguments, number: number, path: string): Promise<number> {
  const { folder, hasScript } = await resolveFolder(cli, path);
  const code = await changeUser(
    cli,
    args,
    `set working directory ${number}`,
    { kind: 'set_directory', number, folder },
    ({ name }, { directories: { [number]: before = folder } }) => [
      `Working directory ${number} of ${name} is ${folder}.${before === folder ? '' : ` It was ${before}.`}`,
    ],
  );
  if (!hasScript) cli.note('note: It has no staging.sh, which `tpu run` needs.');
  return code;
}

/** The absolute path of an existing folder. Not every shell expands `~` after `dir=`. */
async function resolveFolder(
  { io, lab }: TpuCli,
  path: string,
): Promise<{ readonly folder: string; readonly hasScript: boolean }> {
  const folder = resolve(
    io.cwd,
    path.replace(/^~(?=\/|$)/, () => io.userHome),
  );
  return { folder, ...(await lab.checkFolder(folder)) };
}

export async function getDir(cli: TpuCli, args: ParsedArguments): Promise<number> {
  const user = await resolveUser(cli, args);
  const dir = requiredNumber(args, 'dir');
  const { path, exists } = await cli.lab.directory(user.name, dir);
  if (cli.json) cli.printJson({ user: user.name, dir, path, gone: !exists });
  else cli.print(path);
  return exitCode.ok;
}

export async function listDirs(cli: TpuCli, args: ParsedArguments): Promise<number> {
  const { name: user, directories } = await resolveUser(cli, args);
  const numbers = Object.keys(directories);
  const rows = await Promise.all(
    numbers.map(async (dir) => ({ dir, ...(await cli.lab.directory(user, Number(dir))) })),
  );
  return printList(cli, rows, {
    json: ({ dir, path, exists }) => ({ user, dir: Number(dir), path, gone: !exists }),
    emptyMessage: `${user} has no working directories. \`tpu set-cur 1 ${user}\` adds the current folder.`,
    headings: ['DIR', 'PATH', ''],
    cells: ({ dir, path, exists }) => [
      dir,
      escapeLine(path),
      exists ? (dir === '1' ? 'default' : '') : 'does not exist',
    ],
    sides: { 0: 'right' },
  });
}

export const delDir: TpuHandler = (cli, args) => {
  const number = requiredNumber(args, 'dir');
  return changeUser(
    cli,
    args,
    `remove working directory ${number}`,
    { kind: 'remove_directory', number },
    ({ name }, { directories }) => [
      `Removed working directory ${number} of ${name}. The folder ${directories[number]} was not changed.`,
    ],
  );
};

export const swapDir: TpuHandler = (cli, args) => {
  const [one, other] = [requiredNumber(args, 'dir'), requiredNumber(args, 'with')];
  return changeUser(
    cli,
    args,
    `swap working directories ${one} and ${other}`,
    { kind: 'swap_directories', one, other },
    ({ name, directories }) =>
      [one, other].map((number) => `Working directory ${number} of ${name} is ${directories[number]}.`),
  );
};

export const setSettings: TpuHandler = (cli, args) => {
  const key = requiredText(args, 'key');
  const value = requiredText(args, 'value');
  return changeSettings(cli, args, `change the setting ${key}`, [key], { kind: 'set_setting', key, text: value });
};

export const resetSettings: TpuHandler = (cli, args) => {
  const { key } = args.texts;
  const [what, keys] = key === undefined ? ['all settings', allSettings] : [`the setting ${key}`, [key]];
  return changeSettings(cli, args, `reset ${what}`, keys, { kind: 'reset_setting', key: key ?? null });
};

const allSettings = userSettings.map(({ key }) => key);

function changeSettings(
  cli: TpuCli,
  args: ParsedArguments,
  what: string,
  keys: readonly string[],
  change: UserChange,
): Promise<number> {
  return changeUser(cli, args, what, change, ({ name, settings }, { settings: before }) => {
    const changed = keys.map(userSetting).filter(({ key }) => settings[key] !== before[key]);
    if (changed.length === 0 && keys.length > 1) return [`All settings of ${name} have their defaults already.`];
    if (changed.length === 0)
      return keys.map((key) => `${key} of ${name} is already ${formatSetting(settings[userSetting(key).key])}.`);
    return changed.map(
      ({ key }) => `Changed ${key} of ${name} from ${formatSetting(before[key])} to ${formatSetting(settings[key])}.`,
    );
  });
}

export async function getSettings(cli: TpuCli, args: ParsedArguments): Promise<number> {
  const user = await resolveUser(cli, args);
  const { settings } = user;
  const key = args.texts['key'];
  if (key !== undefined) {
    const setting = userSetting(key);
    const value = settings[setting.key];
    if (cli.json) cli.printJson({ user: user.name, key: setting.key, value });
    else cli.print(formatSetting(value));
    return exitCode.ok;
  }
  if (cli.json) {
    cli.printJsonLines(Object.entries(settings).map(([name, value]) => ({ user: user.name, key: name, value })));
    return exitCode.ok;
  }
  const size = Math.max(...userSettings.map(({ key: name }) => name.length));
  const rows: (readonly [string, string])[] = userSettings.map(({ key: name, description }) => [
    `${name.padEnd(size)}  ${formatSetting(settings[name])}`,
    description,
  ]);
  const { extra_settings: extra } = settings;
  if (Object.keys(extra).length > 0) rows.push([`not used: ${JSON.stringify(extra)}`, '']);
  for (const line of inColumns(rows, columnsOf(cli.io.stdout))) cli.print(line);
  return exitCode.ok;
}

const maxWindow = 100_000;

export const resetWindowNum: TpuHandler = async (cli, args) => {
  const number = requiredNumber(args, 'n');
  if (number < 1 || number > maxWindow) throw usageError(`${number} is not a window number: 1 to ${maxWindow}.`);
  const windows = await cli.lab.store.windows({});
  return changeUser(
    cli,
    args,
    `count windows from ${number} on`,
    { kind: 'set', values: { nextWindow: number } },
    ({ name }) => {
      const taken = new Set(windows.flatMap(({ window }) => (window.user === name ? [window.window] : [])));
      let next = number;
      while (taken.has(next)) next += 1;
      const skipped = next === number ? '' : ` In use: ${number === next - 1 ? number : `${number} to ${next - 1}`}.`;
      return [`The next window of ${name} is ${next}.${skipped}`];
    },
  );
};

export const addConfigAlias: TpuHandler = async (cli, args) => {
  const alias = parseName('config alias', requiredText(args, 'alias'), await namesInUse(cli));
  const key = requiredText(args, 'key');
  // run_remote.sh passes on only arguments that begin with `--config`. Any other key would be lost.
  if (!/^config\.[^\s=]+$/.test(key))
    throw usageError(
      `\`${escapeLine(key)}\` is not a config key. Config keys begin with "config.": config.training.learning_rate.`,
    );
  return changeUser(
    cli,
    args,
    `set the config alias ${alias}`,
    { kind: 'set_config_alias', alias, key },
    ({ name }, { aliases: { [alias]: before = key } }) => [
      `Added the config alias ${alias} of ${name} for ${key}${before === key ? '' : `, instead of ${before}`}.`,
    ],
  );
};

export async function listConfigAliases(cli: TpuCli, args: ParsedArguments): Promise<number> {
  const { name: user, aliases } = await resolveUser(cli, args);
  return printList(cli, Object.entries(aliases), {
    json: ([alias, key]) => ({ user, alias, key }),
    emptyMessage: `${user} has no config aliases. \`tpu add-config-alias lr config.training.learning_rate ${user}\` adds one.`,
    headings: ['ALIAS', 'KEY'],
    cells: (row) => row,
  });
}

export const delConfigAlias: TpuHandler = (cli, args) => {
  const alias = normalizeName(requiredText(args, 'alias'));
  return changeUser(
    cli,
    args,
    `remove the config alias ${alias}`,
    { kind: 'remove_config_alias', alias },
    ({ name }, { aliases }) => [`Removed the config alias ${alias} of ${name} for ${aliases[alias]}.`],
  );
};
