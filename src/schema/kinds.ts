// Kinds of values in a file. A kind reads a value and describes it as text and as JSON Schema. The manifest's keys and
// the settings are tables of kinds, so that parser, schema, defaults and documentation agree.

import { didYouMean } from '../catalogue/did-you-mean.ts';
import { formatPath, type SourcePosition, type Report } from './problems.ts';
import { isMissing, isNull, toPlainValue, type Tree } from './tree.ts';

export type Path = readonly (string | number)[];
export type Schema = Readonly<Record<string, unknown>>;

export interface Kind<T> {
  /** `text`, `list of text`: for tables and messages, after "must be". */
  readonly description: string;
  /** JSON Schema for editors; absent for any value. */
  readonly schema?: Schema;
  /** A command-line argument is a value of this kind without quotes. */
  readonly isText?: true;
  /** The value is a shell script, in which a simple `${NAME}` is a shell variable. */
  readonly isScript?: true;
  readonly keys?: Keys;
  readonly customKeys?: Kind<unknown>;
  readonly retired?: Retired;
  readonly element?: Kind<unknown>;
  /** Returns undefined after reporting a problem. Never called for null, `???` or unknown. */
  read(tree: Tree, path: Path, report: Report): T | undefined;
}

export type ValueOf<K> = K extends Kind<infer T> ? T : never;

export interface Key<T> {
  readonly kind: Kind<T>;
  readonly description: string;
  /** Absent: see `formatDefault`. */
  readonly defaultText?: string;
  readonly example?: string;
  readonly aliases?: readonly string[];
  readonly isRequired?: true;
  /** The kinds of jobs to which it applies; absent: all. */
  readonly jobs?: readonly JobKind[];
}

export type JobKind = 'tpu' | 'hosts' | 'kubernetes';

/** Jobs that jobman itself runs: a cluster sets up and monitors its own. */
export const ownJobs: readonly JobKind[] = ['tpu', 'hosts'];

export function appliesTo({ jobs }: Key<unknown>, kind: JobKind): boolean {
  return jobs === undefined || jobs.includes(kind);
}

export function key<T>(kind: Kind<T>, description: string, options: Omit<Key<T>, 'kind' | 'description'> = {}): Key<T> {
  return { kind, description, ...options };
}

export function formatDefault({ defaultText, isRequired }: Key<unknown>): string {
  return defaultText ?? (isRequired === true ? 'required' : 'none');
}

export type Keys = Readonly<Record<string, Key<unknown>>>;

/** Keys of an older jobman that this one refuses, with the advice that follows the key in a message. */
export type Retired = Readonly<Record<string, string>>;

export type SectionValue<K extends Keys> = {
  readonly [N in keyof K]: K[N] extends Key<infer T> ? T | undefined : never;
};

export const notGiven = Symbol('not given');

/** Reads a value that may be null (not given), still `???`, or unknown because of a reported problem. */
export function readIfGiven<T>(tree: Tree, kind: Kind<T>, path: Path, report: Report): T | undefined | typeof notGiven {
  if (tree.kind === 'unknown') return undefined;
  if (isNull(tree) && kind.description !== 'anything') return notGiven;
  if (isMissing(tree)) {
    const message = 'is required; ??? is a placeholder for its value';
    report.problem({ position: tree.position, path: formatPath(path), message, isMissing: true });
    return undefined;
  }
  return kind.read(tree, path, report);
}

export function reportProblem(
  { position }: { readonly position: SourcePosition },
  path: Path,
  report: Report,
  message: string,
  suggestion?: string,
): undefined {
  report.problem({ position, path: formatPath(path), message, suggestion });
}

// Kinds of the settings: unlike in a manifest, a text is never a number.

/** A value that is valid or invalid as a whole. `suggest` returns the value that the user probably meant. */
export function kindWhere<T>(
  description: string,
  isValid: (value: unknown) => value is T,
  suggest?: (value: unknown) => string | undefined,
): Kind<T> {
  return {
    description,
    read(tree, path, report) {
      const value = toPlainValue(tree);
      return isValid(value) ? value : reportWrongKind(description, tree, path, report, suggest?.(value));
    },
  };
}

type TextRule = RegExp | ((text: string) => boolean);

const isText = (value: unknown, rule: TextRule | undefined): value is string =>
  typeof value === 'string' && (rule instanceof RegExp ? rule.test(value) : rule === undefined || rule(value));

export function textWhere(description: string, rule?: TextRule): Kind<string> {
  return { ...kindWhere(description, (value): value is string => isText(value, rule)), isText: true };
}

export function textOrNullWhere(description: string, rule?: TextRule): Kind<string | null> {
  const isValid = (value: unknown): value is string | null => value === null || isText(value, rule);
  return { ...kindWhere(description, isValid), isText: true };
}

export const isNonEmpty = (text: string): boolean => text.trim() !== '';
export const isHttpUrl = (text: string): boolean => /^https?:$/.test(URL.parse(text)?.protocol ?? '');

export const textOrNull = textOrNullWhere('text or null', isNonEmpty);
export const urlOrNull = textOrNullWhere('an address like "http://127.0.0.1:8080", or null', isHttpUrl);

export function int(min: number, max = Number.MAX_SAFE_INTEGER, noun = 'whole number'): Kind<number> {
  const least = min === 0 ? '' : ` of at least ${min}`;
  const range = max === Number.MAX_SAFE_INTEGER ? least : ` from ${min} to ${max}`;
  return kindWhere(
    `a ${noun}${range}`,
    (value): value is number => Number.isSafeInteger(value) && Number(value) >= min && Number(value) <= max,
  );
}

export const port = int(1, 65_535, 'port');

export function milliseconds(min: number): Kind<number> {
  return int(min, undefined, 'whole number of milliseconds');
}

export function enumOf<const W extends string>(
  description: string,
  values: readonly W[],
  suggest?: (written: string) => string | undefined,
): Kind<W> {
  const isValid = (value: unknown): value is W => values.includes(value as W);
  return kindWhere(description, isValid, (value) => suggest?.(String(value)));
}

export const bool: Kind<boolean> = kindWhere('true or false', (value) => typeof value === 'boolean');

export function listOf<T>(description: string, element: Kind<T>): Kind<readonly T[]> {
  return {
    description,
    read(tree, path, report) {
      if (tree.kind !== 'list') return reportWrongKind(description, tree, path, report);
      return tree.items.flatMap((item, index) => element.read(item, [...path, index], report) ?? []);
    },
  };
}

/** An object with names of the user's own. `nameProblem` returns the problem of a name as a phrase, or null. */
export function objectMap<T>(
  description: string,
  nameProblem: (name: string) => string | null,
  element: Kind<T>,
): Kind<Readonly<Record<string, T>>> {
  return {
    description,
    read(tree, path, report) {
      if (tree.kind !== 'map') return reportWrongKind(description, tree, path, report);
      const values: [string, T][] = [];
      for (const [name, entry] of tree.entries) {
        const problem = nameProblem(name);
        if (problem !== null) reportProblem(entry, path, report, `"${name}" ${problem}`);
        const value = element.read(entry.value, [...path, name], report);
        if (value !== undefined) values.push([name, value]);
      }
      return Object.fromEntries(values);
    },
  };
}

/** `refine` gets a value that `inner` has read; it returns the final value, or undefined after a `fail`. */
export function refined<T, U>(
  inner: Kind<T>,
  refine: (value: T, fail: (message: string, suggestion?: string) => undefined) => U | undefined,
): Kind<U> {
  return {
    ...inner,
    read(tree, path, report) {
      const value = inner.read(tree, path, report);
      if (value === undefined) return undefined;
      return refine(value, (message, suggestion) => reportProblem(tree, path, report, message, suggestion));
    },
  };
}

/** A list or an object, or null, which means `nullValue`. */
export function orNull<T, N>(description: string, inner: Kind<T>, nullValue: N): Kind<T | N> {
  return {
    description,
    read(tree, path, report) {
      if (isNull(tree)) return nullValue;
      return tree.kind === 'scalar' ? reportWrongKind(description, tree, path, report) : inner.read(tree, path, report);
    },
  };
}

type FieldKinds = Readonly<Record<string, Kind<unknown>>>;
type ObjectValue<N extends FieldKinds, O extends FieldKinds> = { readonly [P in keyof N]: ValueOf<N[P]> } & {
  readonly [P in keyof O]?: ValueOf<O[P]>;
};

/** An object of named fields; undefined if one is invalid. `example` is a valid one. */
export function objectOf<N extends FieldKinds, O extends FieldKinds>(
  example: string,
  required: N,
  optional: O,
): Kind<ObjectValue<N, O>> {
  const fields: FieldKinds = { ...required, ...optional };
  return {
    description: `an object like ${example}`,
    read(tree, path, report) {
      if (tree.kind !== 'map') return reportProblem(tree, path, report, `must be an object like ${example}`);
      const values: Record<string, unknown> = {};
      let isValid = true;
      for (const [name, entry] of tree.entries) {
        const field = Object.hasOwn(fields, name) ? fields[name] : undefined;
        const value = field?.read(entry.value, [...path, name], report);
        if (value === undefined) isValid = false;
        else values[name] = value;
        if (field === undefined)
          reportProblem(entry, path, report, `has an unknown key "${name}"`, didYouMean(name, Object.keys(fields)));
      }
      for (const [name, { description }] of Object.entries(required)) {
        if (tree.entries.has(name)) continue;
        isValid = false;
        reportProblem(tree, path, report, `requires "${name}": ${description}`);
      }
      // The kind of each field has read its value, so the types match.
      return isValid ? (values as ObjectValue<N, O>) : undefined;
    },
  };
}

export function truncate(value: unknown): string {
  const text = JSON.stringify(value);
  return text.length <= 60 ? text : `${text.slice(0, 59)}…`;
}

export function reportWrongKind(
  description: string,
  tree: Tree,
  path: Path,
  report: Report,
  suggestion?: string,
): undefined {
  return reportProblem(tree, path, report, `must be ${description}, not ${truncate(toPlainValue(tree))}`, suggestion);
}
