// Arguments and flags that several commands of `tpu` share.

import type { PresetName } from '../../../core/policy/presets.ts';
import { readBoolean } from '../../../lab/user-settings.ts';
import { boolFlag, valueFlag } from '../../flags.ts';

export const anyDirectory = { name: 'dir', number: true, summary: 'number of a working directory, 1 to 100' } as const;
export const directory = { ...anyDirectory, needed: true } as const;
export const alias = { name: 'alias', needed: true, summary: 'alias' } as const;

/** Users type `_` for a space. */
export const notes = valueFlag('What the booking sheet says about it; `_` is a blank', 'notes', (word) =>
  word.replaceAll('_', ' '),
);
export const askNotes = boolFlag('Ask for the notes of the booking sheet', 'set-spreadsheet-notes');

/** Flags of a command that claims a TPU and starts a job on it. */
export const claimFlags = {
  apply: boolFlag('Create the TPU without a question if it was preempted or is not there'),
  q: boolFlag('No monitor afterwards'),
  f: boolFlag('Take the TPU from whoever uses it, without a question', 'force'),
};

export const columnLetters = 'wdtsv';

/** Accepts True and False in the forms of `readBoolean`. Throws an Error that names the expected values. */
export function parseBoolean(word: string): boolean {
  const answer = readBoolean(word);
  if (answer === undefined) throw new Error('expected True or False');
  return answer;
}

/** In the order of `check-rules`. */
export const presets = ['pre', 'pass', 'reapply', 'rerun', 'resume'] as const satisfies readonly PresetName[];
