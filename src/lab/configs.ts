// Configs: what a line says about the program's config, as the words that its scripts hand on. A value is never looked into: it
// may hold whatever a command line can hold.

import { exitCode, JobmanError } from '../app/errors.ts';
import { didYouMean } from '../catalogue/did-you-mean.ts';

/**
 * `lr=0.01` as `--config.training.learning_rate=0.01`, by the aliases of the user; `config.a.b=v` as `--config.a.b=v`. The later
 * of two for one key counts, and stands in the place of the first. Throws JobmanError (2) with every key that is neither.
 */
export function configWords(
  configs: readonly (readonly [key: string, value: string])[],
  aliases: Readonly<Record<string, string>>,
  otherKeys: readonly string[],
): readonly string[] {
  const found = new Map<string, string>();
  const problems: string[] = [];
  for (const [key, value] of configs) {
    const full = Object.hasOwn(aliases, key) ? aliases[key] : key.startsWith('config.') ? key : undefined;
    if (full === undefined || full === 'config.') problems.push(noSuchKey(key, aliases, otherKeys));
    else found.set(full, value);
  }
  const [first, ...rest] = problems;
  if (first !== undefined)
    throw new JobmanError(first, exitCode.usage, [...rest, 'tpu -sa    lists your aliases; tpu -a ALIAS KEY adds one']);
  return [...found].map(([key, value]) => `--${key}=${value}`);
}

function noSuchKey(key: string, aliases: Readonly<Record<string, string>>, otherKeys: readonly string[]): string {
  const near = didYouMean(key, [...Object.keys(aliases), ...otherKeys]);
  const guess = near === undefined ? '' : ` Did you mean ${near}=?`;
  return `\`${key}\` is none of your aliases, and no key of a config, which would begin with \`config.\`.${guess}`;
}
