// Config aliases: a user's own words for keys of a config.

import { exitCode, JobmanError } from '../../../app/errors.ts';
import { choiceText } from '../../../app/figures.ts';
import { didYouMean } from '../../../catalogue/did-you-mean.ts';
import { kept, newName } from '../../../lab/names.ts';
import { inertWord } from '../../render/inert.ts';
import { actingFor, userOf } from '../people.ts';
import { printList } from '../print-table.ts';
import { type TpuCli, wordsInUse } from '../tpu-cli.ts';
import { textOf, type Words } from '../words.ts';

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
    if (found === undefined) throw noAlias(user.name, alias, Object.keys(now.aliases));
    key = found;
    return { ...now, aliases };
  });
  desk.tell(`${alias} is no config alias of ${user.name} any more; it was ${key}.`);
  return exitCode.ok;
}

function noAlias(user: string, alias: string, all: readonly string[]): JobmanError {
  const near = didYouMean(alias, all);
  const guess = near === undefined ? choiceText(all) : `Did you mean ${near}?`;
  return new JobmanError(`${user} has no config alias ${inertWord(alias)}. ${guess}`, exitCode.notFound);
}
