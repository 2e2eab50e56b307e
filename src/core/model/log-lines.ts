// Log lines: the cause of a program's failure and its progress, as its output shows them.
//
// A phase counts only as a whole word of the line: a folder `staging` or a key `num_epochs` does not count. The newest
// such line counts: a program that samples between two epochs is running again afterwards.

/** Progress of a run; `unknown` until a line shows it. `epoch` is as the program prints it: `3.2`, `12`. */
export type LogPhase =
  | { readonly kind: 'unknown' | 'staging' | 'initializing' | 'compiling' | 'sampling' }
  | { readonly kind: 'running'; readonly epoch: string };

/** Only both ends of a longer line are read. A line may print a whole tensor. */
const maxLineLength = 2_000;

/** After a letter, a slash or a dot the text is a part of something else. */
const notInPath = String.raw`(?<![\w/.=-])`;

/** The first match counts in a line with several. */
const phasePatterns: readonly (readonly [RegExp, (found: RegExpExecArray) => LogPhase])[] = [
  [new RegExp(`${notInPath}(?:compiling|compilation|compile)\\b(?![=/.-])`, 'i'), () => ({ kind: 'compiling' })],
  [new RegExp(`${notInPath}sampling(?: |\\.\\.|…|$)`, 'i'), () => ({ kind: 'sampling' })],
  // `ep=3.2` in key=value lists, and `epoch: 3`, `Epoch 3/100`, `epoch [3/100]`.
  [/(?<![\w/.-])ep\s?[=:]\s?(\d+(?:\.\d+)?)(?![\w/.-])/i, running],
  [/(?<![\w/.-])epoch\s?[=:#]?\s?[[(]?\s?(\d+(?:\.\d+)?)(?![\w.])/i, running],
  [new RegExp(`${notInPath}initializing\\b`, 'i'), () => ({ kind: 'initializing' })],
  [new RegExp(`${notInPath}staging\\b(?!/|[=.-]\\w)`, 'i'), () => ({ kind: 'staging' })],
];

function running(found: RegExpExecArray): LogPhase {
  return { kind: 'running', epoch: found[1] ?? '' };
}

/** Undefined for most lines. */
export function phaseOfLine(line: string): LogPhase | undefined {
  const half = maxLineLength / 2;
  const read = line.length > maxLineLength ? `${line.slice(0, half)} ${line.slice(-half)}` : line;
  // The script prints the command before it runs it. Text in the command does not count.
  if (/^\s*running command:/i.test(read)) return undefined;
  for (const [sign, phase] of phasePatterns) {
    const found = sign.exec(read);
    if (found !== null) return phase(found);
  }
  return undefined;
}

/** A program that has begun its work does not return to these phases, even if it prints their names later. */
function isBeginning({ kind }: LogPhase): boolean {
  return kind === 'unknown' || kind === 'staging' || kind === 'initializing';
}

/** The newest phase in this end of a log. */
export function newestPhase(text: string): LogPhase {
  return newestPhaseLine(text.split(/[\r\n]/))?.phase ?? { kind: 'unknown' };
}

/** The first known pattern after the last line of progress: the program survived any error before that line. */
export function patternAfterProgress(text: string): ReturnType<typeof matchPattern> {
  // A progress bar overwrites itself, so a carriage return ends a line as well.
  const lines = text.split(/[\r\n]/);
  const found = newestPhaseLine(lines);
  const isProgress = found !== undefined && !isBeginning(found.phase);
  return matchPattern(isProgress ? lines.slice(found.line).join('\n') : text);
}

function newestPhaseLine(lines: readonly string[]): { readonly phase: LogPhase; readonly line: number } | undefined {
  let beginning: { readonly phase: LogPhase; readonly line: number } | undefined;
  for (let line = lines.length - 1; line >= 0; line -= 1) {
    const phase = phaseOfLine(lines[line] ?? '');
    if (phase === undefined) continue;
    if (!isBeginning(phase)) return { phase, line };
    beginning ??= { phase, line };
  }
  return beginning;
}

// eslint-disable-next-line no-control-regex -- colours are control sequences
const colours = /\u001B\[[\d;]*m/g;

export function withoutColours(text: string): string {
  return text.replaceAll(colours, '');
}

/** The end of a text, without half of a surrogate pair. */
export function lastCharacters(text: string, most: number): string {
  if (text.length <= most) return text;
  const cut = text.slice(text.length - most);
  return /^[\uDC00-\uDFFF]/.test(cut) ? cut.slice(1) : cut;
}

/** For people: `Staging`, `Compiling`, `Running(ep 3.2)`, `Unknown`. */
export function formatLogPhase(phase: LogPhase): string {
  switch (phase.kind) {
    case 'running':
      return `Running(ep ${phase.epoch})`;
    case 'unknown':
    case 'staging':
    case 'initializing':
    case 'compiling':
    case 'sampling':
      return phase.kind.charAt(0).toUpperCase() + phase.kind.slice(1);
  }
}

// ------------------------------------------------------------------------------------------ patterns
//
// The exit code and the cloud's report come first. A pattern only separates failures that are the same from outside.

/** Output of a program that fails for a known cause. */
export interface FailurePattern {
  readonly name: string;
  /** A phrase for people. */
  readonly meaning: string;
  /** One of these in one line. Plain strings, not expressions: a line may have ten million characters. */
  readonly anyOf: readonly string[];
}

/** The most specific cause first: a program often reports that it ran out of memory through a failed remote call. */
export const failurePatterns = [
  {
    name: 'out_of_memory',
    meaning: 'the accelerator ran out of memory',
    anyOf: ['RESOURCE_EXHAUSTED', 'Allocation type'],
  },
  {
    name: 'busy',
    meaning: 'another process holds the TPU',
    anyOf: ['The TPU is already in use', 'Could not open any log file'],
  },
  // Messages of shells and of env(1). The leading space excludes programs such as ipython.
  {
    name: 'no_python',
    meaning: 'the machine has no program `python`, perhaps only `python3`',
    anyOf: [' python: command not found', ' python: not found', " 'python': No such file or directory"],
  },
  {
    name: 'file_missing',
    meaning: 'the program was not found',
    anyOf: ['python: No such file or directory', 'python3: No such file or directory', ": can't open file '"],
  },
  { name: 'grpc', meaning: 'a call between workers failed', anyOf: ['GRPC error', 'GRPC Error'] },
  { name: 'deadline', meaning: 'a worker waited too long for another', anyOf: ['DEADLINE_EXCEEDED'] },
  { name: 'invalid_pointer', meaning: 'the runtime crashed', anyOf: ['Attempt to free invalid pointer'] },
  // The message of gcloud when its ssh ends, and the first part of OpenSSH's. A script on this machine that drives workers
  // prints nothing else.
  {
    name: 'line_cut',
    meaning: 'the SSH connection to a worker broke',
    anyOf: ['return code [255]', 'client_loop: send disconnect'],
  },
] as const satisfies readonly FailurePattern[];

/** Failures of the connection between workers, not of the program. A rule may answer them separately. */
export const failedCallPatterns: readonly string[] = ['grpc', 'deadline', 'line_cut'];

const maxQuoteLength = 400;

/** The most specific pattern and the line, shortened. Undefined if none matches. The job's own patterns come first. */
export function matchPattern(
  text: string,
  own: readonly string[] = [],
): { readonly pattern: string; readonly line: string } | undefined {
  for (const pattern of own) {
    const index = indexOfParts(text, pattern.split('*'));
    if (index !== undefined) return { pattern, line: lineAround(text, index) };
  }
  for (const { name, anyOf } of failurePatterns) {
    const indexes = anyOf.map((part) => text.indexOf(part)).filter((index) => index >= 0);
    if (indexes.length > 0) return { pattern: name, line: lineAround(text, Math.min(...indexes)) };
  }
  return undefined;
}

/** The index of the first line that contains these parts in order. Reads the text once, for any parts. */
function indexOfParts(text: string, parts: readonly string[]): number | undefined {
  const [first = '', ...rest] = parts.filter((part) => part !== '');
  if (first === '') return undefined;
  for (let from = 0; ;) {
    const index = text.indexOf(first, from);
    if (index < 0) return undefined;
    const newline = text.indexOf('\n', index);
    const line = text.slice(index + first.length, newline < 0 ? text.length : newline);
    let at = 0;
    const isThere = rest.every((part) => {
      const next = line.indexOf(part, at);
      at = next + part.length;
      return next >= 0;
    });
    if (isThere) return index;
    if (newline < 0) return undefined;
    from = newline;
  }
}

function lineAround(text: string, index: number): string {
  const begin = Math.max(text.lastIndexOf('\n', index) + 1, index - maxQuoteLength / 2);
  const newline = text.indexOf('\n', index);
  return text.slice(begin, Math.min(newline < 0 ? text.length : newline, begin + maxQuoteLength)).trim();
}
