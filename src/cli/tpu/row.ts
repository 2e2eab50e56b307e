// The form of one row of the table of `tpu` commands (table.ts). The help, tldr, the completion and the reading of words
// (words.ts) all read it.

import type { Example } from '../entry.ts';
import type { TpuCommand } from './tpu-cli.ts';

/** Headings of the help, in the order in which they are shown. */
export const sections = ['Jobs', 'Tidy up', 'TPUs', 'You', 'The lab', 'In scripts'] as const;

/** How many words of a kind a command takes. */
export type Count = 'one' | 'maybe one' | 'some' | 'any';

/** A word that is none of the other kinds. Several are taken in their order, unless `like` tells them apart. */
export interface TextSlot {
  /** Its name: the word may also be said as `name=word`. */
  readonly name: string;
  readonly needed: boolean;
  /** What it is, without article: `tag`, `name of the TPU in the cloud`. */
  readonly brief: string;
  /** A word like this is meant for this slot, wherever it stands among the others. */
  readonly like?: RegExp;
  /** Where a shell finds words to propose for it. */
  readonly of?: 'settings' | 'config aliases' | 'TPU aliases' | 'shells';
}

/** A whole number from 0. */
export interface NumberSlot {
  /** As of TextSlot. */
  readonly name: string;
  readonly needed: boolean;
  readonly brief: string;
}

/** A `key=value` of the command's own. */
export interface Key {
  readonly brief: string;
  /** What stands in the place of the value in the help: `N`, `name`. */
  readonly value: string;
  /** `yes or no` arrives as `true` or `false`; of `words`, each `_` arrives as a blank. */
  readonly kind: 'text' | 'number' | 'yes or no' | 'words';
  /** The only values there are. */
  readonly values?: readonly string[];
  /** Other keys that mean this one. */
  readonly also?: readonly string[];
  /** Flags whose next word is the value: `-n`. */
  readonly flags?: readonly string[];
}

export interface Flag {
  readonly brief: string;
  /** Other names of it, without dashes. */
  readonly also?: readonly string[];
}

/** Which kinds of words a command takes. A word of any other kind is an error. */
export interface Takes {
  /** A user of the registry: by name, `user=`, `id=` or --user. */
  readonly user?: true;
  /** A TPU of the registry: by alias or full name, also behind `tpu=` and `ka=`. */
  readonly tpu?: Count;
  /** Types of TPUs: `v2-32`; of `families` also v2, v234 and v*. */
  readonly types?: 'accelerators' | 'families';
  /** Numbers of windows: bare, behind `windows=`, `window=`, `w=`, `-w=`, or after `-w`; several also parted by commas. */
  readonly windows?: Count;
  /** Bare numbers, in their order. */
  readonly numbers?: readonly NumberSlot[];
  readonly texts?: readonly TextSlot[];
  readonly keys?: Readonly<Record<string, Key>>;
  /** Every other `key=value` is a config of the program. */
  readonly configs?: true;
  /** By their name; `-name` and `--name` are the same. */
  readonly flags?: Readonly<Record<string, Flag>>;
  /** Letters behind one dash, in any number and order: `-dsv`. */
  readonly letters?: string;
  /** The command reads its words itself, as they were typed. */
  readonly raw?: true;
}

export interface Row {
  /** The words that name it; the help shows the first. */
  readonly words: readonly [string, ...string[]];
  readonly section: (typeof sections)[number];
  /** In no list of the help: what is asked by scripts only. */
  readonly hidden: boolean;
  /** What follows the word: `<tpu> <user> [tag=T]`. */
  readonly usage: string;
  /** One line for the list of commands. */
  readonly brief: string;
  /** Further sentences for its own help; empty when the brief says all. */
  readonly about: string;
  readonly examples: readonly Example[];
  /** What its exit codes mean, where it is more than the general table says. */
  readonly exits: Readonly<Record<number, string>>;
  readonly takes: Takes;
  /** False of a command that only reads. */
  readonly changes: boolean;
  readonly load: () => Promise<TpuCommand>;
}

type Definition = Omit<Row, 'hidden' | 'about' | 'exits'> & Partial<Pick<Row, 'hidden' | 'about' | 'exits'>>;

export function row(definition: Definition): Row {
  return { hidden: false, about: '', exits: {}, ...definition };
}
