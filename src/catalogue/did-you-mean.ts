/** At least 60 % of the letters must agree: `lr` is not a mistyped `ls`. */
const maxEditShare = 0.4;

/**
 * The nearest candidate, or undefined when none is near. Near means: few typing mistakes (an additional, missing, wrong
 * or swapped letter; case is ignored), at most one in a short text and one in three letters in a longer one. A
 * beginning of at least three letters of exactly one candidate is near too. Of two equally near the first wins: order
 * them by likelihood.
 */
export function didYouMean(text: string, candidates: readonly string[]): string | undefined {
  const wanted = text.toLowerCase();
  const maxEdits = Math.max(1, Math.floor(wanted.length / 3));
  let best: string | undefined;
  let bestEdits = maxEdits + 1;
  for (const candidate of candidates) {
    // The difference in length is a lower limit of the distance; this avoids most of the computation.
    if (Math.abs(candidate.length - wanted.length) >= bestEdits) continue;
    const edits = editDistance(wanted, candidate.toLowerCase());
    if (edits < bestEdits && edits <= maxEditShare * Math.max(wanted.length, candidate.length)) {
      best = candidate;
      bestEdits = edits;
    }
  }
  if (best !== undefined || wanted.length < 3) return best;
  const withPrefix = candidates.filter((candidate) => candidate.toLowerCase().startsWith(wanted));
  return withPrefix.length === 1 ? withPrefix[0] : undefined;
}

/** Smallest number of insertions, deletions, replacements and swaps of neighbours between two texts. */
function editDistance(from: string, to: string): number {
  // Three rows of the usual table, because a swap of neighbours needs the row before the last.
  let before: number[] = [];
  let last = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (let row = 1; row <= from.length; row += 1) {
    const next = [row];
    for (let column = 1; column <= to.length; column += 1) {
      const same = from[row - 1] === to[column - 1];
      let edits = Math.min(at(last, column) + 1, at(next, column - 1) + 1, at(last, column - 1) + (same ? 0 : 1));
      const swapped = row > 1 && column > 1 && from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1];
      if (swapped) edits = Math.min(edits, at(before, column - 2) + 1);
      next.push(edits);
    }
    before = last;
    last = next;
  }
  return at(last, to.length);
}

function at(row: readonly number[], column: number): number {
  const value = row[column];
  if (value === undefined) throw new Error(`the table of edits has no column ${column}`);
  return value;
}
