// A user's settings, window numbers and config aliases (short names for config keys).

import { exitCode, JobmanError } from '../../../app/errors.ts';
import { formatChoices, escapeLine } from '../../../app/format.ts';
import { didYouMean } from '../../../catalogue/did-you-mean.ts';
import { normalizeName, parseName } from '../../../lab/names.ts';
import type { LabUser } from '../../../lab/users.ts';
import {
  formatSetting,
  userSetting,
  userSettings,
  type UserSettings,
  withoutSetting,
  withSetting,
} from '../../../lab/user-settings.ts';
import { inColumns } from '../../render/aligned.ts';
import { columnsOf } from '../../screen.ts';
import { requiredNumber, requiredText, type TpuCli, type ParsedArguments, namesInUse } from '../command.ts';
import { resolveActingUser, resolveUser } from '../resolve-user.ts';
import { printList } from '../terminal.ts';

export async function setSettings(cli: TpuCli, args: ParsedArguments): Promise<number> {
  const key = requiredText(args, 'key');
  const value = requiredText(args, 'value');
  const { user } = await resolveActingUser(cli, args, `change the setting ${key}`);
  return changeSettings(cli, user, (settings) => withSetting(settings, key, value), [key]);
}

export async function resetSettings(cli: TpuCli, args: ParsedArguments): Promise<number> {
  const key = args.texts['key'] ?? null;
  const { user } = await resolveActingUser(cli, args, key === null ? 'reset all settings' : `reset the setting ${key}`);
  const keys = key === null ? userSettings.map((setting) => setting.key) : [key];
  return changeSettings(cli, user, (settings) => withoutSetting(settings, key), keys);
}

async function changeSettings(
  cli: TpuCli,
  user: LabUser,
  changed: (settings: UserSettings) => UserSettings,
  keys: readonly string[],
): Promise<number> {
  let before = user.settings;
  const { settings } = await cli.lab.store.changeUser(user.name, (now) => {
    before = now.settings;
    return { ...now, settings: changed(now.settings) };
  });
  const rows = keys
    .map(userSetting)
    .map(({ key }) => [key, formatSetting(settings[key]), formatSetting(before[key])] as const);
  const different = rows.filter(([, now, was]) => now !== was);
  if (keys.length > 1 && different.length === 0)
    cli.printSentence(`All settings of ${user.name} have their defaults already.`);
  for (const [key, now, was] of keys.length > 1 ? different : rows)
    cli.printSentence(
      now === was
        ? `${key} of ${user.name} is already ${now}.`
        : `Changed ${key} of ${user.name} from ${was} to ${now}.`,
    );
  return exitCode.ok;
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

export async function resetWindowNum(cli: TpuCli, args: ParsedArguments): Promise<number> {
  const number = requiredNumber(args, 'n');
  if (number < 1 || number > maxWindow)
    throw new JobmanError(`${number} is not a window number: 1 to ${maxWindow}.`, exitCode.usage);
  const { user } = await resolveActingUser(cli, args, `count windows from ${number} on`);
  const { store } = cli.lab;
  await store.changeUser(user.name, (now) => ({ ...now, nextWindow: number }));
  const taken = new Set((await store.windows({ user: user.name })).map(({ window }) => window.window));
  let next = number;
  while (taken.has(next)) next += 1;
  const skipped = next === number ? '' : ` In use: ${number === next - 1 ? number : `${number} to ${next - 1}`}.`;
  cli.printSentence(`The next window of ${user.name} is ${next}.${skipped}`);
  return exitCode.ok;
}

export async function addConfigAlias(cli: TpuCli, args: ParsedArguments): Promise<number> {
  const alias = parseName('config alias', requiredText(args, 'alias'), await namesInUse(cli));
  const key = requiredText(args, 'key');
  checkKey(key);
  const { user } = await resolveActingUser(cli, args, `set the config alias ${alias}`);
  await cli.lab.store.changeUser(user.name, (now) => ({ ...now, aliases: { ...now.aliases, [alias]: key } }));
  const before = user.aliases[alias];
  const was = before === undefined || before === key ? '' : `, instead of ${before}`;
  cli.printSentence(`Added the config alias ${alias} of ${user.name} for ${key}${was}.`);
  return exitCode.ok;
}

/** run_remote.sh passes on only arguments that begin with `--config`. Any other key would be lost. */
function checkKey(key: string): void {
  if (/^config\.[^\s=]+$/.test(key)) return;
  throw new JobmanError(
    `\`${escapeLine(key)}\` is not a config key. Config keys begin with "config.": config.training.learning_rate.`,
    exitCode.usage,
  );
}

export async function listConfigAliases(cli: TpuCli, args: ParsedArguments): Promise<number> {
  const { name: user, aliases } = await resolveUser(cli, args);
  return printList(cli, Object.entries(aliases), {
    json: ([alias, key]) => ({ user, alias, key }),
    emptyMessage: `${user} has no config aliases. \`tpu add-config-alias lr config.training.learning_rate ${user}\` adds one.`,
    headings: ['ALIAS', 'KEY'],
    cells: (row) => row,
  });
}

export async function delConfigAlias(cli: TpuCli, args: ParsedArguments): Promise<number> {
  const alias = normalizeName(requiredText(args, 'alias'));
  const { user } = await resolveActingUser(cli, args, `remove the config alias ${alias}`);
  let key = '';
  await cli.lab.store.changeUser(user.name, (now) => {
    const { [alias]: found, ...aliases } = now.aliases;
    if (found === undefined) {
      const all = Object.keys(now.aliases);
      const near = didYouMean(alias, all);
      const guess = near === undefined ? formatChoices(all) : `Did you mean ${near}?`;
      throw new JobmanError(`${user.name} has no config alias ${escapeLine(alias)}. ${guess}`, exitCode.notFound);
    }
    key = found;
    return { ...now, aliases };
  });
  cli.printSentence(`Removed the config alias ${alias} of ${user.name} for ${key}.`);
  return exitCode.ok;
}
