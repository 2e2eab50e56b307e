// Patterns: what programs print when they die of something that can be named.
// The exit code and the cloud's word come first; a pattern only tells apart failures that look the same from outside.
// The strings are those that the older programs looked for (facts/references.md, B.2) and what the runtime prints today.

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

const lineLongest = 400;

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

/** The line that holds this place; of a long one the part around it. */
function lineAround(text: string, place: number): string {
  const begin = Math.max(text.lastIndexOf('\n', place) + 1, place - lineLongest / 2);
  const newline = text.indexOf('\n', place);
  return text.slice(begin, Math.min(newline < 0 ? text.length : newline, begin + lineLongest)).trim();
}
