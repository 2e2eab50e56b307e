// A search of a person: a text, or a regular expression between slashes.

/** The edges of the matches in a line, in order: begin, end, begin, end. */
export type Hits = (line: string) => readonly number[];

/** The expression of `/.../`; null for a text. */
export function expressionOf(text: string): string | null {
  return /^\/(.+)\/$/.exec(text)?.[1] ?? null;
}

export function isValidExpression(expression: string): boolean {
  try {
    // It is not executed here.
    return new RegExp(expression, 'i') instanceof RegExp;
  } catch {
    return false;
  }
}

/** `pattern`: with the flag `g`. */
export function edgesOf(pattern: RegExp, line: string): readonly number[] {
  return [...line.matchAll(pattern)].flatMap(({ 0: hit, index }) => (hit === '' ? [] : [index, index + hit.length]));
}
