// The matches of a search in the lines that are drawn.

import { signal, type Signal } from '@preact/signals';
import { textPattern } from '../../app/find-line.ts';
import { edgesOf, expressionOf, isValidExpression, type Hits } from './find.ts';

/** For highlights. Null for an invalid expression. */
export function hitsOf(text: string): Hits | null {
  const expression = expressionOf(text);
  if (expression === null) return (line) => edgesOf(textPattern(text), line);
  return isValidExpression(expression) ? expressionHits(expression) : null;
}

/** Lines whose hits are remembered: more than a screen has. */
const maxKnown = 2000;

/** The hits come later, from the thread of expressions. A component that reads them is then drawn again. */
function expressionHits(expression: string): Hits {
  const known = new Map<string, Signal<readonly number[]>>();
  let due: string[] = [];
  const ask = async (): Promise<void> => {
    const lines = due;
    due = [];
    const { matchLines } = await import('./expression.ts');
    // An expression that is too slow has no highlights.
    const hits = await matchLines(expression, lines).catch(() => []);
    lines.forEach((line, index) => {
      const found = known.get(line);
      if (found !== undefined) found.value = hits[index] ?? [];
    });
  };
  return (line) => {
    let hits = known.get(line);
    if (hits === undefined) {
      if (known.size >= maxKnown) known.clear();
      hits = signal<readonly number[]>([]);
      known.set(line, hits);
      due.push(line);
      if (due.length === 1) setTimeout(() => void ask());
    }
    return hits.value;
  };
}
