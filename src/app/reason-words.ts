// Reason words: why an attempt ended, as words, and texts of others as a part of ours. Beside the other phrases, which bring half of
// the rules with them: what shows a user of the lab their windows does without those.

import type { Reason } from '../core/spec.ts';

/** Reasons as words of a sentence. */
export const reasonWords: Readonly<Record<Reason, string>> = {
  succeeded: 'succeeded',
  stopped: 'stopped',
  preempted: 'preempted',
  unreachable: 'unreachable',
  allocation_failed: 'allocation failed',
  setup_failed: 'setup failed',
  command_failed: 'command failed',
  hung: 'hung',
  timed_out: 'timed out',
};

/** A text of others as a part of our sentence: in one line and without its full stop. */
export function sentencePart(text: string): string {
  return text.trim().replaceAll(/\s+/g, ' ').replace(/\.$/, '');
}

/** A text as the beginning of a sentence. */
export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** The evidence of an imported job whose end is unknown begins with these words. */
export const importedWords = 'imported';
