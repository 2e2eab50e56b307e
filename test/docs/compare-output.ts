/**
 * Compares the output of a command with a document. Times, ages, ports, process ids and paths differ with every run;
 * text, columns and the numbers that a program computes do not.
 */

/** Names of this machine that appear in output but not in a document. */
export interface OutputContext {
  readonly user: string;
  /** `$JOBMAN_HOME`, which documents call `~/.jobman`. */
  readonly home: string;
}

/** The user in all examples. */
export const exampleUser = 'ada';

/** The line with a placeholder for everything that differs between two runs. */
export function normalizeLine(line: string): string {
  return (
    line
      .replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, 'TIMESTAMP')
      .replaceAll(/\b\d{1,2} [A-Z][a-z]{2} \d\d:\d\d:\d\d UTC/g, 'TIMESTAMP')
      .replaceAll(/\b\d{1,2} [A-Z][a-z]{2} \d\d:\d\d\b(?!:)/g, 'TIMESTAMP')
      .replaceAll(/\b\d\d:\d\d:\d\d\b/g, 'CLOCK')
      .replaceAll(/\b\d+[smhd](\d\d[smh])?(?![\w-])/g, 'AGE')
      .replaceAll(/\b127\.\d+\.\d+\.\d+(:\d+)?/g, 'ADDRESS')
      .replaceAll(/\bprocess \d+/g, 'process NUMBER')
      // The deletion may have been requested already.
      .replaceAll(/; deleting TPU \S+ \(requested AGE ago, state [A-Z]+\)/g, '')
      // A run is interrupted at a random step; its later results do not depend on that.
      .replaceAll(/\bstep \d+ from \S*?step_\d+\.json/g, 'step N from CHECKPOINT')
      // The axis of `history --timeline`.
      .replace(/^ *[.+>!?-]{5,} *$/, 'TIMELINE')
      .replace(/^ *(CLOCK *)+$/, 'AXIS')
      .replace(/^attempt( +\d)+$/, 'ATTEMPTS')
      .replaceAll(/\bone column is \S+ \w+/g, 'one column is LENGTH')
      .replaceAll(/ +/g, ' ')
      .trim()
  );
}

/** Output with the names that a document uses. */
export function asDocumented(text: string, { user, home }: OutputContext): readonly string[] {
  const documented = text
    .replaceAll('\r\n', '\n')
    .replaceAll(home, '~/.jobman')
    .replaceAll(new RegExp(`\\b${user}\\b`, 'g'), exampleUser);
  return documented.split('\n').filter((line) => line.trim() !== '');
}

/**
 * The first line of a document that the output does not continue with; undefined if all lines match. `...` stands for any
 * lines. A terminal shows a line of several workers once (`[0-1]`), and separately if one is slow.
 */
export function firstMismatch(documented: readonly string[], printed: readonly string[]): string | undefined {
  const wanted = documented.filter((line) => line.trim() !== '').map((line) => line.trim());
  let furthest = 0;
  const fits = (at: number, from: number): boolean => {
    furthest = Math.max(furthest, at);
    const line = wanted[at];
    if (line === undefined) return from === printed.length;
    if (line === '...') {
      for (let next = from; next <= printed.length; next += 1) if (fits(at + 1, next)) return true;
      return false;
    }
    const nextLine = matchLine(line, printed, from);
    return nextLine !== undefined && fits(at + 1, nextLine);
  };
  return fits(0, 0) ? undefined : (wanted[furthest] ?? 'the end');
}

/** The index after that line in the output; undefined if the line is missing. */
function matchLine(line: string, printed: readonly string[], from: number): number | undefined {
  if (normalizeLine(printed[from] ?? '') === normalizeLine(line)) return from + 1;
  const [, first = '', last = '', text = ''] = /^\[(\d+)-(\d+)\] (.*)$/.exec(line) ?? [];
  if (text === '') return undefined;
  // Each worker's own line. Their order varies, and one worker's next line may precede another's first.
  let next = from;
  for (let worker = Number(first); worker <= Number(last); worker += 1) {
    const at = printed.findIndex((one) => normalizeLine(one) === normalizeLine(`[${worker}] ${text}`));
    if (at < 0) return undefined;
    next = Math.max(next, at + 1);
  }
  return next;
}
