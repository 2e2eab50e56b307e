// A user's own settings, the numbers of their windows, and config aliases: their own words for keys of a config.

import { exitCode, JobmanError } from '../../../app/errors.ts';
import { choiceText, inertWord } from '../../../app/figures.ts';
import { didYouMean } from '../../../catalogue/did-you-mean.ts';
import { kept, newName } from '../../../lab/names.ts';
import type { LabUser } from '../../../lab/people.ts';
import {
  settingWord,
  userSetting,
  userSettings,
  type UserSettings,
  withoutSetting,
  withSetting,
} from '../../../lab/user-settings.ts';
import { hanging, padEnd, width } from '../../render/cell.ts';
import { labelled } from '../../render/aligned.ts';
import { columnsOf } from '../../screen.ts';
import { numberOf, textOf, type TpuCli, type Words, wordsInUse } from '../command.ts';
import { actingFor, userOf } from '../people.ts';
import { printList } from '../terminal.ts';

export async function setSettings(desk: TpuCli, words: Words): Promise<number> {
  const key = textOf(words, 'key');
  const value = textOf(words, 'value');
  const { user } = await actingFor(desk, words, `change the setting ${key}`);
  return change(desk, user, (settings) => withSetting(settings, key, value), [key]);
}

export async function resetSettings(desk: TpuCli, words: Words): Promise<number> {
  const key = words.texts['key'] ?? null;
  const { user } = await actingFor(desk, words, key === null ? 'reset all settings' : `reset the setting ${key}`);
  const keys = key === null ? userSettings.map((setting) => setting.key) : [key];
  return change(desk, user, (settings) => withoutSetting(settings, key), keys);
}

async function change(
  desk: TpuCli,
  user: LabUser,
  changed: (settings: UserSettings) => UserSettings,
  keys: readonly string[],
): Promise<number> {
  let before = user.settings;
  const { settings } = await desk.lab.record.changeUser(user.name, (now) => {
    before = now.settings;
    return { ...now, settings: changed(now.settings) };
  });
  const rows = keys
    .map(userSetting)
    .map(({ key }) => [key, settingWord(settings[key]), settingWord(before[key])] as const);
  const different = rows.filter(([, now, was]) => now !== was);
  if (keys.length > 1 && different.length === 0) desk.tell(`All settings of ${user.name} were what a new user has.`);
  for (const [key, now, was] of keys.length > 1 ? different : rows) {
    desk.tell(
      now === was
        ? `${key} of ${user.name} was ${now} already.`
        : `${key} of ${user.name} is ${now} now; it was ${was}.`,
    );
  }
  return exitCode.ok;
}

export async function getSettings(desk: TpuCli, words: Words): Promise<number> {
  const user = await userOf(desk, words);
  const { settings } = user;
  const key = words.texts['key'];
  if (key !== undefined) {
    const setting = userSetting(key);
    desk.print(
      desk.json ? JSON.stringify({ [setting.key]: settings[setting.key] }) : settingWord(settings[setting.key]),
    );
    return exitCode.ok;
  }
  if (desk.json) {
    desk.print(JSON.stringify({ user: user.name, ...settings }));
    return exitCode.ok;
  }
  const columns = columnsOf(desk.io.stdout);
  const rows = userSettings.map(({ key: name, meaning }) => [name, settingWord(settings[name]), meaning] as const);
  const [names, values] = [0, 1].map((at) => Math.max(...rows.map((row) => width(row[at] ?? ''))));
  for (const [name, value, meaning] of rows) {
    const front = `${padEnd(name, names ?? 0)}  ${padEnd(value, values ?? 0)}  `;
    for (const line of columns === null ? [front + meaning] : hanging(front, meaning, columns)) desk.print(line);
  }
  const extra = Object.keys(settings.extra_settings);
  if (extra.length > 0) {
    for (const line of labelled(
      [['kept', `${JSON.stringify(settings.extra_settings)}: means nothing here`]],
      columns,
    )) {
      desk.print(line);
    }
  }
  return exitCode.ok;
}

/** A session that has so many windows has other problems. */
const highestWindow = 100_000;

export async function resetWindowNum(desk: TpuCli, words: Words): Promise<number> {
  const number = numberOf(words, 'n');
  if (number < 1 || number > highestWindow) {
    throw new JobmanError(`Windows have numbers from 1 to ${highestWindow}, and ${number} is none.`, exitCode.usage);
  }
  const { user } = await actingFor(desk, words, `count windows from ${number} on`);
  const { record } = desk.lab;
  await record.changeUser(user.name, (now) => ({ ...now, nextWindow: number }));
  const taken = new Set((await record.windows({ user: user.name })).map(({ window }) => window.window));
  let next = number;
  while (taken.has(next)) next += 1;
  const passed = next === number ? '' : ` ${number === next - 1 ? number : `${number} to ${next - 1}`} is taken.`;
  desk.tell(`The next window of ${user.name} is ${next}.${passed}`);
  return exitCode.ok;
}

export async function addConfigAlias(desk: TpuCli, words: Words): Promise<number> {
  const alias = newName('config alias', textOf(words, 'alias'), await wordsInUse(desk));
  const key = textOf(words, 'key');
  checkKey(key);
  const { user } = await actingFor(desk, words, `set the config alias ${alias}`);
  await desk.lab.record.changeUser(user.name, (now) => ({ ...now, aliases: { ...now.aliases, [alias]: key } }));
  const before = user.aliases[alias];
  const was = before === undefined || before === key ? '' : ` It was ${before}.`;
  desk.tell(`${alias} is ${key} for ${user.name}.${was}`);
  return exitCode.ok;
}

/** run_remote.sh hands on what begins with `--config` and nothing else, so any other key would never arrive. */
function checkKey(key: string): void {
  if (/^config\.[^\s=]+$/.test(key)) return;
  throw new JobmanError(
    `\`${inertWord(key)}\` is no key of a config: it should begin with "config.", such as config.training.learning_rate.`,
    exitCode.usage,
  );
}

export async function listConfigAliases(desk: TpuCli, words: Words): Promise<number> {
  const { name: user, aliases } = await userOf(desk, words);
  return printList(desk, Object.entries(aliases), {
    json: ([alias, key]) => ({ user, alias, key }),
    none: `${user} has no config aliases. \`tpu -a lr config.training.learning_rate ${user}\` adds one.`,
    headings: ['ALIAS', 'KEY'],
    cells: (row) => row,
  });
}

export async function delConfigAlias(desk: TpuCli, words: Words): Promise<number> {
  const alias = kept(textOf(words, 'alias'));
  const { user } = await actingFor(desk, words, `take the config alias ${alias} away`);
  let key = '';
  await desk.lab.record.changeUser(user.name, (now) => {
    const { [alias]: found, ...aliases } = now.aliases;
    if (found === undefined) {
      const all = Object.keys(now.aliases);
      const near = didYouMean(alias, all);
      const guess = near === undefined ? choiceText(all) : `Did you mean ${near}?`;
      throw new JobmanError(`${user.name} has no config alias ${inertWord(alias)}. ${guess}`, exitCode.notFound);
    }
    key = found;
    return { ...now, aliases };
  });
  desk.tell(`${alias} is no config alias of ${user.name} any more; it was ${key}.`);
  return exitCode.ok;
}
