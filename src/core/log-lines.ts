// Log lines: what the lines of a program tell: the cause of its death, and how far it has come.
//
// A log is read incrementally, so what has been learned so far is a value passed from one read to the next. A word counts as
// a phase only as a whole word of the line: a folder called `staging` or a key called `num_epochs` does not count. The newest
// such line counts: a program that samples between two epochs is running again afterwards.

/** How far a run has come; `unknown` while no line has said it. `epoch` is as the program wrote it: `3.2`, `12`. */
export type LogPhase =
  | { readonly kind: 'unknown' | 'staging' | 'initializing' | 'compiling' | 'sampling' }
  | { readonly kind: 'running'; readonly epoch: string };

/** All that is kept of a log between two looks. */
export interface LogSoFar {
  /** How many bytes of it are behind this. */
  readonly offset: number;
  readonly phase: LogPhase;
  /** Name of the known pattern that its lines have shown since they last told of progress; null for none. */
  readonly trouble: string | null;
  /** The beginning of a line whose end was not there yet. */
  readonly unfinished: string;
  /** The newest characters, for people. */
  readonly tail: string;
}

/** A log of which nothing was read. */
export const nothingRead: LogSoFar = { offset: 0, phase: { kind: 'unknown' }, trouble: null, unfinished: '', tail: '' };

/** Of what is longer, a tensor perhaps, both ends are looked at. */
const lineLongest = 2_000;

/** Words that stand by themselves: behind a letter, a slash or a dot they are a part of something else. */
const standsAlone = String.raw`(?<![\w/.=-])`;

/** In the order in which a line that says several is read. */
const signs: readonly (readonly [RegExp, (found: RegExpExecArray) => LogPhase])[] = [
  [new RegExp(`${standsAlone}(?:compiling|compilation|compile)\\b(?![=/.-])`, 'i'), () => ({ kind: 'compiling' })],
  [new RegExp(`${standsAlone}sampling(?: |\\.\\.|…|$)`, 'i'), () => ({ kind: 'sampling' })],
  // `ep=3.2` is a word of its own in key=value lists, and so is `epoch: 3`, `Epoch 3/100`, `epoch [3/100]`.
  [/(?<![\w/.-])ep\s?[=:]\s?(\d+(?:\.\d+)?)(?![\w/.-])/i, running],
  [/(?<![\w/.-])epoch\s?[=:#]?\s?[[(]?\s?(\d+(?:\.\d+)?)(?![\w.])/i, running],
  [new RegExp(`${standsAlone}initializing\\b`, 'i'), () => ({ kind: 'initializing' })],
  [new RegExp(`${standsAlone}staging\\b(?!/|[=.-]\\w)`, 'i'), () => ({ kind: 'staging' })],
];

function running(found: RegExpExecArray): LogPhase {
  return { kind: 'running', epoch: found[1] ?? '' };
}

/** The phase that a line tells; undefined for most lines. */
export function phaseOfLine(line: string): LogPhase | undefined {
  const half = lineLongest / 2;
  const read = line.length > lineLongest ? `${line.slice(0, half)} ${line.slice(-half)}` : line;
  // The script prints the command that it is about to run, with all its words.
  if (/^\s*running command:/i.test(read)) return undefined;
  for (const [sign, phase] of signs) {
    const found = sign.exec(read);
    if (found !== null) return phase(found);
  }
  return undefined;
}

/** A program that has begun its work does not go back to its beginning, whatever it prints of it later. */
function isBeginning({ kind }: LogPhase): boolean {
  return kind === 'unknown' || kind === 'staging' || kind === 'initializing';
}

/** All that is known after these new characters, which end at byte `offset`; `tailMost` characters are kept for people. */
export function readOn(soFar: LogSoFar, text: string, offset: number, tailMost: number): LogSoFar {
  if (text === '') return { ...soFar, offset };
  const whole = soFar.unfinished + text;
  // A progress bar writes over itself, so a return ends a line as well.
  const lines = whole.split(/[\r\n]/);
  const found = newestPhase(lines);
  const phase =
    found === undefined || (isBeginning(found.phase) && !isBeginning(soFar.phase)) ? soFar.phase : found.phase;
  // The program overcame an error before a line of progress.
  const isProgress = found !== undefined && !isBeginning(found.phase);
  const since = isProgress ? lines.slice(found.line).join('\n') : whole;
  const trouble = matchPattern(since)?.pattern ?? (isProgress ? null : soFar.trouble);
  return {
    offset,
    phase,
    trouble,
    unfinished: (lines.at(-1) ?? '').slice(-lineLongest),
    tail: lastCharacters(soFar.tail + text, tailMost),
  };
}

/** The first known pattern after the last line of progress in a text: the program overcame any error before that line. */
export function troubleIn(text: string): ReturnType<typeof matchPattern> {
  const lines = text.split(/[\r\n]/);
  const found = newestPhase(lines);
  const isProgress = found !== undefined && !isBeginning(found.phase);
  return matchPattern(isProgress ? lines.slice(found.line).join('\n') : text);
}

function newestPhase(lines: readonly string[]): { readonly phase: LogPhase; readonly line: number } | undefined {
  let beginning: { readonly phase: LogPhase; readonly line: number } | undefined;
  for (let line = lines.length - 1; line >= 0; line -= 1) {
    const phase = phaseOfLine(lines[line] ?? '');
    if (phase === undefined) continue;
    if (!isBeginning(phase)) return { phase, line };
    beginning ??= { phase, line };
  }
  return beginning;
}

/** The end of a text, not in the middle of a character that takes two places. */
export function lastCharacters(text: string, most: number): string {
  if (text.length <= most) return text;
  const cut = text.slice(text.length - most);
  return /^[\uDC00-\uDFFF]/.test(cut) ? cut.slice(1) : cut;
}

/** As people read it: `Staging`, `Compiling`, `Running(ep 3.2)`, `Unknown`. */
export function phaseText(phase: LogPhase): string {
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
// The exit code and the cloud's report come first; a pattern only tells apart failures that look the same from outside.

/** Something that a program says when it dies of a known cause. */
export interface Pattern {
  readonly name: string;
  /** Its meaning, as a phrase for people. */
  readonly means: string;
  /** Any of these in one line. Plain strings: a line may have ten million characters. */
  readonly anyOf: readonly string[];
}

/** In order of what explains most: running out of memory is often reported through a failed remote call. */
export const patterns = [
  {
    name: 'out_of_memory',
    means: 'the accelerator ran out of memory',
    anyOf: ['RESOURCE_EXHAUSTED', 'Allocation type'],
  },
  {
    name: 'busy',
    means: 'another process holds the TPU',
    anyOf: ['The TPU is already in use', 'Could not open any log file'],
  },
  // A shell's words, and those of env(1). The blank keeps other programs out whose names end so, such as ipython.
  {
    name: 'no_python',
    means: 'the machine has no program `python`, perhaps only `python3`',
    anyOf: [' python: command not found', ' python: not found', " 'python': No such file or directory"],
  },
  {
    name: 'file_missing',
    means: 'the program was not found',
    anyOf: ['python: No such file or directory', 'python3: No such file or directory', ": can't open file '"],
  },
  { name: 'grpc', means: 'a call between workers failed', anyOf: ['GRPC error', 'GRPC Error'] },
  { name: 'deadline', means: 'a worker waited too long for another', anyOf: ['DEADLINE_EXCEEDED'] },
  { name: 'invalid_pointer', means: 'the runtime crashed', anyOf: ['Attempt to free invalid pointer'] },
  // The words of gcloud when its ssh ends by itself, and the first words of OpenSSH: a script here that drives workers sees no more.
  {
    name: 'line_cut',
    means: 'the line to a worker was cut',
    anyOf: ['return code [255]', 'client_loop: send disconnect'],
  },
] as const satisfies readonly Pattern[];

/** Failures of the machinery between workers, which say nothing against the program: a rule may answer them apart. */
export const betweenWorkers: readonly string[] = ['grpc', 'deadline', 'line_cut'];

const quoteLongest = 400;

/** The pattern that explains most, with its first line, cut; undefined when none matches. The job's own texts come first. */
export function matchPattern(
  text: string,
  own: readonly string[] = [],
): { readonly pattern: string; readonly line: string } | undefined {
  for (const pattern of own) {
    const place = placeOf(text, pattern.split('*'));
    if (place !== undefined) return { pattern, line: lineAround(text, place) };
  }
  for (const { name, anyOf } of patterns) {
    const places = anyOf.map((part) => text.indexOf(part)).filter((place) => place >= 0);
    if (places.length > 0) return { pattern: name, line: lineAround(text, Math.min(...places)) };
  }
  return undefined;
}

/** Where the first line begins to have these parts, one after the other. Takes one walk through the text, however they are. */
function placeOf(text: string, parts: readonly string[]): number | undefined {
  const [first = '', ...rest] = parts.filter((part) => part !== '');
  if (first === '') return undefined;
  for (let from = 0; ;) {
    const place = text.indexOf(first, from);
    if (place < 0) return undefined;
    const newline = text.indexOf('\n', place);
    const line = text.slice(place + first.length, newline < 0 ? text.length : newline);
    let at = 0;
    const isThere = rest.every((part) => {
      const next = line.indexOf(part, at);
      at = next + part.length;
      return next >= 0;
    });
    if (isThere) return place;
    if (newline < 0) return undefined;
    from = newline;
  }
}

function lineAround(text: string, place: number): string {
  const begin = Math.max(text.lastIndexOf('\n', place) + 1, place - quoteLongest / 2);
  const newline = text.indexOf('\n', place);
  return text.slice(begin, Math.min(newline < 0 ? text.length : newline, begin + quoteLongest)).trim();
}
