// The words of a line of `tpu`, as a command gets them: read-words.ts makes them.

import type { LabUser } from '../../lab/people.ts';
import type { LabTpu } from '../../lab/tpus.ts';

/** Names by which words are recognised. */
export interface Known {
  readonly users: readonly Pick<LabUser, 'name' | 'id'>[];
  readonly tpus: readonly LabTpu[];
  /** Full names by alias. */
  readonly tpuAliases: ReadonlyMap<string, string>;
}

/** A line, read. What the row of the command says is needed is there. */
export interface Words {
  /** The word of the command as it was typed. */
  readonly verb: string;
  /** The user that the line names; null where it names none, which is then whoever typed it. */
  readonly user: string | null;
  /** The TPU that the line names. */
  readonly tpu: LabTpu | null;
  /** Types of TPUs as they were typed: `v2-32`, `v*`. */
  readonly types: readonly string[];
  /** Numbers of windows, none twice. */
  readonly windows: readonly number[];
  /** Arguments that are numbers, by name. */
  readonly numbers: Readonly<Record<string, number>>;
  /** The other arguments, by name. */
  readonly texts: Readonly<Record<string, string>>;
  /** The command's own keys. Yes and no are `true` and `false`. */
  readonly keys: Readonly<Record<string, string>>;
  /** Every other `key=value`, in their order; keys as they were typed, without dashes. */
  readonly configs: readonly (readonly [key: string, value: string])[];
  readonly flags: ReadonlySet<string>;
  /** The letters of `-dsv`, none twice, in the order in which they were typed. */
  readonly letters: string;
  /** All words as they were typed, of a command that reads them itself; empty otherwise. */
  readonly raw: readonly string[];
}

/** An argument that its row says is needed. */
export function textOf(words: Words, name: string): string {
  return needed(words.texts[name], words, name);
}

/** The same of a number. */
export function numberOf(words: Words, name: string): number {
  return needed(words.numbers[name], words, name);
}

/** The same of the TPU. */
export function tpuOf(words: Words): LabTpu {
  return needed(words.tpu, words, 'a TPU');
}

function needed<T>(word: T | null | undefined, { verb }: Words, name: string): T {
  if (word === null || word === undefined)
    throw new Error(`the row of \`${verb}\` does not say that ${name} is needed`);
  return word;
}
