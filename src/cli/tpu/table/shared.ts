// Words of several commands of `tpu`.

import type { PresetName } from '../../../core/recover.ts';
import { yesOrNo } from '../../../lab/user-settings.ts';
import { mark, value } from '../../flags.ts';

export const anyDirectory = { name: 'dir', number: true, summary: 'number of a working directory, 1 to 100' } as const;
export const directory = { ...anyDirectory, needed: true } as const;
export const alias = { name: 'alias', needed: true, summary: 'alias' } as const;

/** `_` is typed where a blank is meant. */
export const notes = value('What the booking sheet says about it; `_` is a blank', 'notes', (word) =>
  word.replaceAll('_', ' '),
);
export const askNotes = mark('Ask for the notes of the booking sheet', 'set-spreadsheet-notes');

/** Flags of a command that takes a TPU and begins a job on it. */
export const takingFlags = {
  apply: mark('Create the TPU without a question if it was preempted or is not there'),
  q: mark('No monitor afterwards'),
  f: mark('Take the TPU from whoever uses it, without a question', 'force'),
};

export const columnLetters = 'wdtsv';

/** True or False, in any usual form. Throws an Error that says what was expected. */
export function parseYesOrNo(word: string): boolean {
  const answer = yesOrNo(word);
  if (answer === undefined) throw new Error('expected True or False');
  return answer;
}

/** In the order in which `check-rules` shows them. */
export const presets = ['pre', 'pass', 'reapply', 'rerun', 'resume'] as const satisfies readonly PresetName[];
