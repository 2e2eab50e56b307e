// Last words: of what a program printed, the few lines that tell how it came to its end.

/** How much of the end of a log is looked at. A traceback through many libraries takes some ten thousand characters. */
export const lastWordsBytes = 32 * 1024;

/** So many lines tell enough; the whole log is one command away. */
const mostLines = 3;

/** Longer lines are cut: a printed tensor says nothing. */
const lineLongest = 300;

/** A traceback that so many lines follow was no end: the program went on after it. */
const afterTraceback = 10;

/**
 * The lines of that end of a log that say most about how it ended, at most three, none of them empty: of Python the last
 * place of the traceback and its exception, else the last lines. Empty when it printed nothing.
 */
export function lastWordsOf(text: string): readonly string[] {
  const lines = text
    .split('\n')
    // A progress bar writes over itself: what counts is what stands there now.
    .map((line) => line.trimEnd().split('\r').at(-1)?.trimEnd() ?? '')
    .filter((line) => line.trim() !== '');
  return (tracebackEnd(lines) ?? lines.slice(-mostLines)).map(cut);
}

/** Python's "Traceback (most recent call last):", its frames, which are indented, and the exception, which is not. */
function tracebackEnd(lines: readonly string[]): readonly string[] | undefined {
  const head = lines.findLastIndex((line) => line.includes('Traceback (most recent call last):'));
  if (head < 0) return undefined;
  // A launcher may print a prefix before each line; what is indented is indented behind it.
  const prefix = lines[head]?.slice(0, lines[head].indexOf('Traceback')) ?? '';
  const isFrame = (line: string): boolean => line.startsWith(`${prefix} `);
  const exception = lines.findIndex((line, index) => index > head && !isFrame(line));
  if (exception < 0 || lines.length - 1 - exception > afterTraceback) return undefined;
  const frames = lines.slice(head + 1, exception).filter((line) => !/^[\s~^]*$/.test(line.slice(prefix.length)));
  return [...frames.slice(1 - mostLines), lines[exception] ?? ''];
}

function cut(line: string): string {
  return line.length <= lineLongest ? line : `${line.slice(0, lineLongest - 2)}..`;
}
