// Kinds: what a value in a file may be. A kind reads a value of the tree and describes itself in words for people and as JSON
// Schema for editors. The tables of the manifest's keys (manifest/keys.ts) and of the settings (app/settings.ts,
// app/cluster/settings.ts) are built of them, so that parser, schema, defaults and documents agree.

import { didYouMean } from '../catalogue/did-you-mean.ts';
import { pathText, type Place, type Report } from './problems.ts';
import { isMissing, isNull, plain, type Tree } from './tree.ts';

/** Keys and indexes, from the outermost on. */
export type Path = readonly (string | number)[];
export type Schema = Readonly<Record<string, unknown>>;

export interface Kind<T> {
  /** `text`, `list of text`: for tables and messages, after "wants" or "should be". */
  readonly words: string;
  /** JSON Schema for editors; without it, anything. */
  readonly schema?: Schema;
  /** A word of a command line is a value of it as it is, without quotes. */
  readonly isText?: true;
  /** The value is a shell script, in which a bare `${NAME}` is the shell's. */
  readonly isScript?: true;
  readonly keys?: Keys;
  readonly free?: Kind<unknown>;
  readonly retired?: Retired;
  readonly element?: Kind<unknown>;
  /** The value, or undefined after having reported why there is none. Never called for null, `???` or unknown. */
  read(tree: Tree, path: Path, report: Report): T | undefined;
}

export type ValueOf<K> = K extends Kind<infer T> ? T : never;

export interface Key<T> {
  readonly kind: Kind<T>;
  readonly about: string;
  /** The default, in words; absent: see `defaultText`. */
  readonly otherwise?: string;
  readonly example?: string;
  readonly aliases?: readonly string[];
  readonly isRequired?: true;
}

/** The default of a key, in words: without words of its own, a required key must be given, and any other has none. */
export function defaultText({ otherwise, isRequired }: Key<unknown>): string {
  return otherwise ?? (isRequired === true ? 'must be given' : 'none');
}

export type Keys = Readonly<Record<string, Key<unknown>>>;

/** Keys that an older jobman had or wrote and this one does not take, with what to do about them, after the key. */
export type Retired = Readonly<Record<string, string>>;

export type SectionValue<K extends Keys> = {
  readonly [N in keyof K]: K[N] extends Key<infer T> ? T | undefined : never;
};

export const absent = Symbol('absent');

/** Reads a value that may be null (not given), still `???`, or already known to be wrong. */
export function readGiven<T>(tree: Tree, kind: Kind<T>, path: Path, report: Report): T | undefined | typeof absent {
  if (tree.kind === 'unknown') return undefined;
  if (isNull(tree) && kind.words !== 'anything') return absent;
  if (isMissing(tree)) {
    const message = 'must be given; ??? stands for a value still to come';
    report.problem({ place: tree.place, path: pathText(path), message, isLack: true });
    return undefined;
  }
  return kind.read(tree, path, report);
}

/** Reports a problem of the value or key at this place and answers undefined, for the end of a reader. */
export function refuse(
  { place }: { readonly place: Place },
  path: Path,
  report: Report,
  message: string,
  suggestion?: string,
): undefined {
  report.problem({ place, path: pathText(path), message, suggestion });
}

// ------------------------------------------------------------------------------------------ JSON

// The kinds of the settings: unlike in a manifest, no text is taken for a number.

/** A value that is right or wrong as a whole. `meant` knows what people probably wanted to write. */
export function checked<T>(
  words: string,
  isRight: (value: unknown) => value is T,
  meant?: (value: unknown) => string | undefined,
): Kind<T> {
  return {
    words,
    read(tree, path, report) {
      const value = plain(tree);
      return isRight(value) ? value : refuseAs(words, tree, path, report, meant?.(value));
    },
  };
}

export function textLike(words: string, fits: (text: string) => boolean): Kind<string> {
  const isRight = (value: unknown): value is string => typeof value === 'string' && fits(value);
  return { ...checked(words, isRight), isText: true };
}

export function textOrNullLike(words: string, fits: (text: string) => boolean): Kind<string | null> {
  const isRight = (value: unknown): value is string | null =>
    value === null || (typeof value === 'string' && fits(value));
  return { ...checked(words, isRight), isText: true };
}

export function textsLike(
  words: string,
  fits: (text: string) => boolean,
  meant?: (value: unknown) => string | undefined,
): Kind<readonly string[]> {
  const isRight = (value: unknown): value is readonly string[] =>
    Array.isArray(value) && value.every((one) => typeof one === 'string' && fits(one));
  return checked(words, isRight, meant);
}

export const isFilled = (text: string): boolean => text.trim() !== '';
export const isAddress = (text: string): boolean => /^https?:$/.test(URL.parse(text)?.protocol ?? '');

export const textOrNull = textOrNullLike('a text or null', isFilled);
export const addressOrNull = textOrNullLike('an address like "http://127.0.0.1:8080", or null', isAddress);

export function whole(words: string, least: number, most = Number.MAX_SAFE_INTEGER): Kind<number> {
  return checked(
    words,
    (value): value is number => Number.isSafeInteger(value) && Number(value) >= least && Number(value) <= most,
  );
}

export function wordOf<const W extends string>(words: string, values: readonly W[]): Kind<W> {
  return checked(words, (value): value is W => values.includes(value as W));
}

export const truth: Kind<boolean> = checked('true or false', (value) => typeof value === 'boolean');

/** A list, each element of which is told its own mistakes. */
export function listOf<T>(words: string, element: Kind<T>): Kind<readonly T[]> {
  return {
    words,
    read(tree, path, report) {
      if (tree.kind !== 'list') return refuseAs(words, tree, path, report);
      return tree.items.flatMap((item, index) => element.read(item, [...path, index], report) ?? []);
    },
  };
}

export function mapped<T, U>(inner: Kind<T>, to: (value: T) => U): Kind<U> {
  return {
    ...inner,
    read(tree, path, report) {
      const value = inner.read(tree, path, report);
      return value === undefined ? undefined : to(value);
    },
  };
}

/** A list or a record, or null, which means `none`. */
export function orNull<T, N>(words: string, inner: Kind<T>, none: N): Kind<T | N> {
  return {
    words,
    read(tree, path, report) {
      if (isNull(tree)) return none;
      return tree.kind === 'scalar' ? refuseAs(words, tree, path, report) : inner.read(tree, path, report);
    },
  };
}

type Parts = Readonly<Record<string, Kind<unknown>>>;
type RecordOf<N extends Parts, O extends Parts> = { readonly [P in keyof N]: ValueOf<N[P]> } & {
  readonly [P in keyof O]?: ValueOf<O[P]>;
};

/** An object of named parts: `called` is it in messages (`a grant`), and `example` one that is right. */
export function record<N extends Parts, O extends Parts>(
  called: string,
  example: string,
  needed: N,
  optional: O,
): Kind<RecordOf<N, O>> {
  const parts: Parts = { ...needed, ...optional };
  return {
    words: `an object like ${example}`,
    read(tree, path, report) {
      if (tree.kind !== 'map') return refuse(tree, path, report, `should be an object like ${example}`);
      for (const one of tree.repeated ?? []) refuse(one, [...path, one.name], report, 'stands here again');
      const values: Record<string, unknown> = {};
      for (const [name, entry] of tree.entries) {
        const part = Object.hasOwn(parts, name) ? parts[name] : undefined;
        if (part !== undefined) values[name] = part.read(entry.value, [...path, name], report);
        else refuse(entry, [], report, `${called} has no "${name}"`, didYouMean(name, Object.keys(parts)));
      }
      for (const [name, { words }] of Object.entries(needed)) {
        if (!tree.entries.has(name)) refuse(tree, path, report, `lacks "${name}": ${words}`);
      }
      // Each part was read by the kind whose type is that of the field.
      return values as RecordOf<N, O>;
    },
  };
}

export function shortened(value: unknown): string {
  const text = JSON.stringify(value);
  return text.length <= 60 ? text : `${text.slice(0, 59)}…`;
}

function refuseAs(words: string, tree: Tree, path: Path, report: Report, suggestion?: string): undefined {
  return refuse(tree, path, report, `should be ${words}, and is ${shortened(plain(tree))}`, suggestion);
}
