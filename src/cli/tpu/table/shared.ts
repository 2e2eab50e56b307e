// Arguments and flags that several commands of `tpu` share.

import type { PresetName } from '../../../core/policy/presets.ts';
import { readBoolean } from '../../../lab/user-settings.ts';
import { boolFlag, valueFlag } from '../../flags.ts';

export const anyDirectory = { name: 'dir', number: true, summary: 'number (1 to 100) of a working directory' } as const;
export const directory = { ...anyDirectory, needed: true } as const;
export const alias = { name: 'alias', needed: true, summary: 'alias' } as const;

/** Users type `_` for a space. */
export const notes = valueFlag('Notes for the booking sheet; `_` is a space', 'notes', (text) =>
  text.replaceAll('_', ' '),
);
export const askNotes = boolFlag('Ask for the notes for the booking sheet', 'set-spreadsheet-notes');

/** Flags of a command that claims a TPU and starts a job on it. */
export const claimFlags = {
  apply: boolFlag('If the TPU was preempted or does not exist, create it without asking'),
  q: boolFlag('Do not start the monitor'),
  f: boolFlag('Take the TPU from its users without asking', 'force'),
};

export const columnLetters = 'wdtsv';

/** Accepts True and False in the forms of `readBoolean`. Throws an Error that names the expected values. */
export function parseBoolean(text: string): boolean {
  const answer = readBoolean(text);
  if (answer === undefined) throw new Error('expected True or False');
  return answer;
}

/** In the order of `check-rules`. */
export const presets = ['pre', 'pass', 'reapply', 'rerun', 'resume'] as const satisfies readonly PresetName[];
