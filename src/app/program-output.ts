// Program output: the lines of a program's log that explain its end.

export const lastOutputBytes = 32 * 1024;

const maxLines = 3;

/** A longer line, such as a printed tensor, says nothing. */
const maxLineLength = 300;

/** If more lines follow a traceback, the program continued after it. */
const maxLinesAfterTraceback = 10;

/** At most three lines: the last frame and the exception of a Python traceback, else the last lines. */
export function lastOutputLines(text: string): readonly string[] {
  const lines = visibleLines(text);
  return (tracebackEnd(lines) ?? lines.slice(-maxLines)).map(truncateLine);
}

/** The exception of the Python traceback with which the program ended; undefined without one. */
export function lastException(text: string): string | undefined {
  const line = tracebackEnd(visibleLines(text))?.at(-1);
  return line && truncateLine(line);
}

/** The lines that a person sees, without empty ones. */
export function visibleLines(text: string): readonly string[] {
  return (
    text
      .split('\n')
      // A progress bar overwrites itself: only the text after the last carriage return is visible.
      .map((line) => line.trimEnd().split('\r').at(-1)?.trimEnd() ?? '')
      .filter((line) => line.trim() !== '')
  );
}

/** The last line that a person sees; null without one. */
export function lastLineOf(text: string): string | null {
  // A progress bar overwrites itself: only the text after the last carriage return is visible.
  return (
    text
      .split(/[\r\n]+/)
      .findLast((line) => line.trim() !== '')
      ?.trim() ?? null
  );
}

function tracebackEnd(lines: readonly string[]): readonly string[] | undefined {
  const head = lines.findLastIndex((line) => line.includes('Traceback (most recent call last):'));
  if (head < 0) return undefined;
  // A launcher may print a prefix before each line; the indentation follows it.
  const prefix = lines[head]?.slice(0, lines[head].indexOf('Traceback')) ?? '';
  const isFrame = (line: string): boolean => line.startsWith(`${prefix} `);
  const exception = lines.findIndex((line, index) => index > head && !isFrame(line));
  if (exception < 0 || lines.length - 1 - exception > maxLinesAfterTraceback) return undefined;
  const frames = lines.slice(head + 1, exception).filter((line) => !/^[\s~^]*$/.test(line.slice(prefix.length)));
  return [...frames.slice(1 - maxLines), lines[exception] ?? ''];
}

function truncateLine(line: string): string {
  return line.length <= maxLineLength ? line : `${line.slice(0, maxLineLength - 2)}..`;
}
