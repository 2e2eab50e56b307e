// Did you mean: the one candidate that a mistyped word most likely stood for.

/**
 * The candidate nearest to `word`, or undefined when none is near enough to be worth saying. Near means: few slips of the
 * finger (a letter too many, missing, wrong, or two swapped; upper and lower case count as equal), at most one for short
 * words and one in three letters for longer ones; or `word` is a beginning of at least three letters of exactly one candidate.
 * Of two that are equally near the first one in the list is answered, so order the candidates by likelihood.
 */
export function didYouMean(word: string, candidates: readonly string[]): string | undefined {
  const wanted = word.toLowerCase();
  const slipsMost = Math.max(1, Math.floor(wanted.length / 3));
  let best: string | undefined;
  let bestSlips = slipsMost + 1;
  for (const candidate of candidates) {
    // The difference in length alone is that many slips; this spares the table for the hopeless ones.
    if (Math.abs(candidate.length - wanted.length) >= bestSlips) continue;
    const slips = slipsBetween(wanted, candidate.toLowerCase());
    // A word that shares nothing with a candidate as short as itself is not a slip of it.
    if (slips < bestSlips && slips < Math.max(wanted.length, candidate.length)) {
      best = candidate;
      bestSlips = slips;
    }
  }
  if (best !== undefined || wanted.length < 3) return best;
  const begun = candidates.filter((candidate) => candidate.toLowerCase().startsWith(wanted));
  return begun.length === 1 ? begun[0] : undefined;
}

/** The least number of insertions, deletions, replacements and swaps of neighbours between two words. */
function slipsBetween(from: string, to: string): number {
  // Three rows of the usual table: a swap of neighbours looks two rows back.
  let before: number[] = [];
  let last = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (let row = 1; row <= from.length; row += 1) {
    const next = [row];
    for (let column = 1; column <= to.length; column += 1) {
      const same = from[row - 1] === to[column - 1];
      let slips = Math.min(at(last, column) + 1, at(next, column - 1) + 1, at(last, column - 1) + (same ? 0 : 1));
      const swapped = row > 1 && column > 1 && from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1];
      if (swapped) slips = Math.min(slips, at(before, column - 2) + 1);
      next.push(slips);
    }
    before = last;
    last = next;
  }
  return at(last, to.length);
}

function at(row: readonly number[], column: number): number {
  const value = row[column];
  if (value === undefined) throw new Error(`the table of slips has no column ${column}`);
  return value;
}
