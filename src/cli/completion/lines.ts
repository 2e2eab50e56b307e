// Proposals on their way to a shell.

import type { PartialLine, Proposal, Propose } from '../command.ts';
import { inertWord } from '../render/inert.ts';

/** What an argument or a flag proposes in its place. */
export async function proposed(
  place: { readonly summary: string; readonly propose?: Propose; readonly choices?: readonly string[] } | undefined,
  line: PartialLine,
): Promise<readonly Proposal[]> {
  if (place === undefined) return [];
  const { summary, propose, choices = [] } = place;
  const found = propose === undefined ? choices : await propose(line);
  return found.map((one) => (typeof one === 'string' ? { word: one, summary } : one));
}

/**
 * One line each, as the scripts of the shells read them: the word, a tab, its meaning. A word with a control character is left out: it
 * would be another candidate on the next line, or a sequence that the shell sends to the terminal. Names come from other people, and
 * from other servers.
 */
export function proposalLines(proposals: readonly Proposal[]): string {
  const possible = proposals.filter(({ word }) => word !== '' && word === inertWord(word));
  return possible.map(({ word, summary }) => `${word}\t${inertWord(summary)}\n`).join('');
}
