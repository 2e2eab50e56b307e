// Phases: how far a run has come, as its own lines say: staging, initializing, compiling, sampling, or at which epoch it is.
//
// A log is read on from where it was read to, never from its beginning, so what was learnt is a value that is carried along.
// The words are those that the older program looked for (facts/references.md, B.2), with two differences. They have to stand in
// a line as words: a path through a folder called `staging`, a key called `num_epochs` and an `error` in an ordinary line say
// nothing. And the newest line that tells a phase counts, where the older program took the first word of a list that stood
// anywhere in what it saw: a program that samples between two epochs was called running.

import { matchPattern } from './patterns.ts';

/** How far a run has come; `unknown` while no line has said it. `epoch` is as the program wrote it: `3.2`, `12`. */
export type LogPhase =
  | { readonly kind: 'unknown' | 'staging' | 'initializing' | 'compiling' | 'sampling' }
  | { readonly kind: 'running'; readonly epoch: string };

/** All that is kept of a log between two looks. */
export interface LogSoFar {
  /** How many bytes of it are behind this. */
  readonly offset: number;
  readonly phase: LogPhase;
  /** Name of the pattern of core/patterns that its lines have shown since they last told of progress; null for none. */
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

/** The newest line that tells of work, else the newest that tells of a beginning. */
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
