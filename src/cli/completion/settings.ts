// Proposals behind `jobman settings`: its two words, and the keys.

import type { PartialLine } from '../command.ts';

/** The two words first; the keys once one is begun. */
export async function settingWords({ partial }: PartialLine): Promise<readonly string[]> {
  const { settingKeys } = await import('../../app/settings.ts');
  return ['set', 'unset', ...(partial === '' ? [] : settingKeys.map(({ key }) => key))];
}
