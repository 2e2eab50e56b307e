// What a shell is answered: one candidate a line, with its meaning after a tab.

import { inertWord } from '../render/inert.ts';

/**
 * The lines of those candidates. One with a control character is left out: it would be another candidate on the next line, or a
 * sequence that the shell sends to the terminal. Names come from other people, and from other servers.
 */
export function proposalLines(proposals: readonly (readonly [word: string, brief: string])[]): string {
  const possible = proposals.filter(([word]) => word !== '' && word === inertWord(word));
  return possible.map(([word, brief]) => `${word}\t${inertWord(brief)}\n`).join('');
}
