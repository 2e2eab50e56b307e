import { jobIdPlaceholder } from '../core/model/spec.ts';

export type SourcePosition =
  | { readonly in: 'file'; readonly offset: number }
  | { readonly in: 'set'; readonly set: string };

export interface Problem {
  /** The key as the user wrote it: `command.workers[1]`; empty for the whole file. */
  readonly path: string;
  readonly message: string;
  /** Counted from 1; null when the problem is not in the text (`--set`, or a file that could not be read). */
  readonly line: number | null;
  readonly column: number | null;
  readonly suggestion: string | null;
  /** The `--set` argument with the problem; null for a problem in the file. */
  readonly set: string | null;
}

export interface FoundProblem {
  readonly position: SourcePosition;
  readonly path: string;
  readonly message: string;
  readonly suggestion?: string | undefined;
  /** A missing key, which is not a problem in an unused section. */
  readonly isMissing?: true;
}

/** No user reads more problems of one file. */
const maxFindings = 1000;

/** Collects problems and warnings in any order, without duplicates. */
export interface Report {
  problem(found: FoundProblem): void;
  warning(found: FoundProblem): void;
}

export interface Findings extends Report {
  readonly problems: readonly FoundProblem[];
  readonly warnings: readonly FoundProblem[];
}

export function newFindings(): Findings {
  const problems = new Map<string, FoundProblem>();
  const warnings = new Map<string, FoundProblem>();
  const add = (all: Map<string, FoundProblem>, finding: FoundProblem) => {
    if (all.size >= maxFindings) return;
    const key = JSON.stringify([finding.position, finding.path, finding.message]);
    if (!all.has(key)) all.set(key, finding);
  };
  return {
    problem: (finding) => add(problems, finding),
    warning: (finding) => add(warnings, finding),
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

export function linePosOf(text: string): LinePos {
  return (offset) => {
    const lines = text.slice(0, offset).split('\n');
    return { line: lines.length, col: (lines.at(-1)?.length ?? 0) + 1 };
  };
}

export function fileProblem(message: string): Problem {
  return { path: '', message, line: null, column: null, suggestion: null, set: null };
}

export function toProblem({ position, path, message, suggestion }: FoundProblem, linePos: LinePos): Problem {
  const problem = {
    ...fileProblem(message.replaceAll(jobIdPlaceholder, '${job.id}')),
    path,
    suggestion: suggestion ?? null,
  };
  if (position.in === 'set') return { ...problem, set: position.set };
  const { line, col } = linePos(position.offset);
  return { ...problem, line, column: col };
}

/** In the order of the file; those of the command line come last. */
export function toProblems(findings: readonly FoundProblem[], linePos: LinePos): Problem[] {
  const order = ({ position }: FoundProblem) => (position.in === 'file' ? position.offset : Number.MAX_VALUE);
  return findings.toSorted((one, other) => order(one) - order(other)).map((one) => toProblem(one, linePos));
}

/** One line for each problem: `file:line:column path: message (did you mean "x"?)`. */
export function formatProblems(file: string, problems: readonly Problem[]): string[] {
  return problems.map(({ path, message, line, column, suggestion, set }) => {
    const where = set !== null ? `--set ${set}` : line === null ? file : `${file}:${line}:${column}`;
    // The message about an unknown key contains the key.
    const key = path === '' || path === set || message.startsWith('Unknown ') ? '' : ` ${path}`;
    const hint = suggestion === null ? '' : ` (did you mean "${suggestion}"?)`;
    return escapeControls(`${where}${key}: ${message}${hint}`);
  });
}

/** Replaces control characters by their codes: text from a user's file must not move the cursor of a terminal. */
function escapeControls(text: string): string {
  // oxlint-disable-next-line no-control-regex -- The function replaces these characters.
  return text.replace(/[\u0000-\u001f\u007f-\u009f]/g, (character) => {
    return character === '\n' ? ' ' : `\\x${character.charCodeAt(0).toString(16).padStart(2, '0')}`;
  });
}

export function formatPath(path: readonly (string | number)[]): string {
  let text = '';
  for (const part of path) {
    if (typeof part === 'number') text += `[${part}]`;
    else text += text === '' ? part : `.${part}`;
  }
  return text;
}

/** The parts of `a.b[0].c`; undefined when it is not a path. Digits after a dot may be a key or an index. */
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
