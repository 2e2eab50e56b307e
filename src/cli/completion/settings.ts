// What the shell may propose behind `jobman settings`: its two words, and the keys.

import type { Context } from '../entry.ts';

/** The framework does not tell which word it is, so the words come first and a key once it is begun. */
export async function settingWords(this: Context, partial: string): Promise<readonly string[]> {
  const { settingKeys } = await import('../../app/settings.ts');
  const keys = partial === '' ? [] : settingKeys.map(({ key }) => key);
  return ['set', 'unset', ...keys].filter((candidate) => candidate.startsWith(partial));
}
