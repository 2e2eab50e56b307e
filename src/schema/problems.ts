// Problems: what is wrong with a file, each with its place, and how they read.

import { jobIdMark } from '../core/spec.ts';

/** A place: in the file, from this character on, or on the command line. */
export type Place = { readonly in: 'file'; readonly offset: number } | { readonly in: 'set'; readonly set: string };

export interface Problem {
  /** The key as the user wrote it: `command.workers[1]`; empty for the file as a whole. */
  readonly path: string;
  readonly message: string;
  /** Counted from 1; null when the problem is not in the file (`--set`, or a file that could not be read). */
  readonly line: number | null;
  readonly column: number | null;
  readonly suggestion: string | null;
  /** The `--set` that it came from, as given; null for the file's own. */
  readonly set: string | null;
}

export interface Found {
  readonly place: Place;
  readonly path: string;
  readonly message: string;
  readonly suggestion?: string | undefined;
  /** Something is missing, which does not matter in a section that is not used. */
  readonly isLack?: true;
}

/** Nobody reads more of one manifest. */
const foundMost = 1000;

/** Collects what is found, in any order and once each. */
export interface Report {
  problem(found: Found): void;
  warning(found: Found): void;
}

export interface Findings extends Report {
  readonly problems: readonly Found[];
  readonly warnings: readonly Found[];
}

export function newFindings(): Findings {
  const problems = new Map<string, Found>();
  const warnings = new Map<string, Found>();
  const keep = (all: Map<string, Found>, found: Found) => {
    if (all.size >= foundMost) return;
    const key = JSON.stringify([found.place, found.path, found.message]);
    if (!all.has(key)) all.set(key, found);
  };
  return {
    problem: (found) => keep(problems, found),
    warning: (found) => keep(warnings, found),
    get problems() {
      return [...problems.values()];
    },
    get warnings() {
      return [...warnings.values()];
    },
  };
}

/** Both from 1; a column counts UTF-16 units, as editors do. */
export type LinePos = (offset: number) => { readonly line: number; readonly col: number };

export function linePosIn(text: string): LinePos {
  return (offset) => {
    const lines = text.slice(0, offset).split('\n');
    return { line: lines.length, col: (lines.at(-1)?.length ?? 0) + 1 };
  };
}

export function problemOfFile(message: string): Problem {
  return { path: '', message, line: null, column: null, suggestion: null, set: null };
}

export function problemAt({ place, path, message, suggestion }: Found, linePos: LinePos): Problem {
  const problem = {
    ...problemOfFile(message.replaceAll(jobIdMark, '${job.id}')),
    path,
    suggestion: suggestion ?? null,
  };
  if (place.in === 'set') return { ...problem, set: place.set };
  const { line, col } = linePos(place.offset);
  return { ...problem, line, column: col };
}

/** In the order of the file, those of the command line last, with line and column. */
export function placed(found: readonly Found[], linePos: LinePos): Problem[] {
  const order = ({ place }: Found) => (place.in === 'file' ? place.offset : Number.MAX_VALUE);
  return found.toSorted((one, other) => order(one) - order(other)).map((one) => problemAt(one, linePos));
}

/** One line for each problem: `file:line:column path: message (did you mean x?)`. */
export function formatProblems(file: string, problems: readonly Problem[]): string[] {
  return problems.map(({ path, message, line, column, suggestion, set }) => {
    const where = set !== null ? `--set ${set}` : line === null ? file : `${file}:${line}:${column}`;
    const about = path === '' || path === set ? '' : ` ${path}`;
    const meant = suggestion === null ? '' : ` (did you mean ${suggestion}?)`;
    return printable(`${where}${about}: ${message}${meant}`);
  });
}

/** Text of a user's file must not move the cursor of a terminal: control characters are shown as their code. */
export function printable(text: string): string {
  // oxlint-disable-next-line no-control-regex -- These are the characters that this line is about.
  return text.replace(/[\u0000-\u001f\u007f-\u009f]/g, (character) => {
    return character === '\n' ? ' ' : `\\x${character.charCodeAt(0).toString(16).padStart(2, '0')}`;
  });
}

/** A path of keys and indexes as people write it: `command.workers[1]`. */
export function pathText(path: readonly (string | number)[]): string {
  let text = '';
  for (const part of path) {
    if (typeof part === 'number') text += `[${part}]`;
    else text += text === '' ? part : `.${part}`;
  }
  return text;
}

/** `a.b[0].c` as its parts; undefined when it is no path. A part of digits after a dot may be a key or an index. */
export function parsePath(text: string): readonly (string | number)[] | undefined {
  const parts: (string | number)[] = [];
  const pattern = /(?:^|\.)([^.[\]\s=]+)|\[(\d+)\]|\[([^.[\]\s=]+)\]/gy;
  while (pattern.lastIndex < text.length) {
    const found = pattern.exec(text);
    if (found === null) return undefined;
    const part = found[1] ?? found[3];
    if (part !== undefined) parts.push(part);
    else if (parts.length === 0) return undefined;
    else parts.push(Number(found[2]));
  }
  return parts.length === 0 ? undefined : parts;
}
