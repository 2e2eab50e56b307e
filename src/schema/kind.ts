// Kinds: what a value in a file may be. A kind reads a value of the tree and describes itself in words for people and as JSON
// Schema for editors. The table of the manifest's keys (manifest/keys.ts) and those of the settings (app/settings.ts,
// app/cluster/settings.ts) are built of them, so that parser, schema, defaults and documents agree.

import { pathText } from './problems.ts';
import type { Place, Report } from './problems.ts';
import { isMissing, isNull } from './tree.ts';
import type { Tree } from './tree.ts';

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
  /** The keys of a section, and the kind of its free keys. */
  readonly keys?: Keys;
  readonly free?: Kind<unknown>;
  readonly retired?: Retired;
  /** The kind of the elements of a list. */
  readonly element?: Kind<unknown>;
  /** The value, or undefined after having reported why there is none. Never called for null, `???` or unknown. */
  read(tree: Tree, path: Path, report: Report): T | undefined;
}

export type ValueOf<K> = K extends Kind<infer T> ? T : never;

/** One key of a section. */
export interface Key<T> {
  readonly kind: Kind<T>;
  /** Its meaning in a sentence or two, for people who read the manual. */
  readonly about: string;
  /** The default, in words; absent: see `defaultText`. */
  readonly otherwise?: string;
  readonly example?: string;
  /** Older names of the same key. */
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

/** The values of a section: undefined for a key that is not given (or null). */
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
