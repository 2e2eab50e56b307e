// A command of `tpu`: its row in the table, the words of a line as it gets them, and its environment.

import type { Lab, LabServices } from '../../lab/lab.ts';
import type { WordsInUse } from '../../lab/names.ts';
import type { LabUser } from '../../lab/people.ts';
import type { LabTpu } from '../../lab/tpus.ts';
import type { Argument, Command } from '../command.ts';
import type { Cli } from '../context.ts';
import type { Flags } from '../flags.ts';

export type Count = 'one' | 'maybe one' | 'some' | 'any';

/** A word that is none of the other kinds, also said as `name=word`. Several are taken in their order, unless `like` tells them apart. */
export interface TpuArgument extends Argument {
  /** A whole number from 0. */
  readonly number?: true;
  /** A word like this is meant for this argument, wherever it stands among the others. */
  readonly like?: RegExp;
  /** The source of its proposals. */
  readonly of?: 'config aliases' | 'TPU aliases';
}

interface Takes {
  /** A user of the registry: by name, `user=`, `id=` or --user. */
  readonly user?: true;
  /** A TPU of the registry: by alias or full name, also behind `tpu=` and `ka=`. */
  readonly tpu?: Count;
  /** Types of TPUs: `v2-32`; of `families` also v2, v234 and v*. */
  readonly types?: 'accelerators' | 'families';
  /** Numbers of windows: bare, behind `windows=`, `window=`, `w=`, `-w=`, or after `-w`; several also parted by commas. */
  readonly windows?: Count;
  /** By name, each said as `name=value`. Its other forms are other names, and flags whose next word is the value: `-n`. */
  readonly keys?: Flags;
  /** Every other `key=value` is a config of the program. */
  readonly configs?: true;
  readonly letters?: string;
  /** The command reads its words itself, as they were typed. */
  readonly raw?: true;
}

export interface TpuRow extends Omit<Command, 'load'> {
  readonly args: readonly TpuArgument[];
  readonly takes: Takes;
  readonly changes: boolean;
}

export interface TpuCommand extends TpuRow {
  readonly load: Command<TpuBody>['load'];
}

type Definition = Omit<TpuCommand, 'group' | 'args' | 'flags' | 'takes' | 'changes' | 'usage'> &
  Partial<Pick<TpuCommand, 'args' | 'flags' | 'takes' | 'changes' | 'usage'>>;

export function tpuCommand(definition: Definition): Omit<TpuCommand, 'group'> {
  const { args = [], takes = {} } = definition;
  return { args, flags: {}, takes, changes: true, usage: usageOf(takes, args), ...definition };
}

function usageOf({ windows, tpu, user }: Takes, args: readonly TpuArgument[]): string {
  const words: readonly (readonly [name: string, isNeeded: boolean])[] = [
    ...(windows === undefined ? [] : [['window', windows !== 'maybe one'] as const]),
    ...(tpu === undefined ? [] : [['tpu', tpu === 'one'] as const]),
    ...args.map(({ name, needed = false }) => [name, needed] as const),
    ...(user === undefined ? [] : [['user', false] as const]),
  ];
  return words.map(([name, isNeeded]) => (isNeeded ? `<${name}>` : `[${name}]`)).join(' ');
}

export interface Known {
  readonly users: readonly Pick<LabUser, 'name' | 'id'>[];
  readonly tpus: readonly LabTpu[];
  readonly tpuAliases: ReadonlyMap<string, string>;
}

export interface Words {
  readonly verb: string;
  /** The user that the line names; null where it names none, which is then whoever typed it. */
  readonly user: string | null;
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
  readonly letters: string;
  /** All words as they were typed, of a command that reads them itself; empty otherwise. */
  readonly raw: readonly string[];
}

/** An argument that its row says is needed. */
export function textOf(words: Words, name: string): string {
  return needed(words.texts[name], words, name);
}

/** The same for a number. */
export function numberOf(words: Words, name: string): number {
  return needed(words.numbers[name], words, name);
}

/** The same for the TPU. */
export function tpuOf(words: Words): LabTpu {
  return needed(words.tpu, words, 'a TPU');
}

function needed<T>(word: T | null | undefined, { verb }: Words, name: string): T {
  if (word === null || word === undefined)
    throw new Error(`the row of \`${verb}\` does not say that ${name} is needed`);
  return word;
}

export interface TpuCli extends Cli {
  readonly services: LabServices;
  readonly lab: Lab;
  /** The value of --user; people.ts finds the user. */
  readonly me: string | undefined;
  /** The names of commands and the keys that they take: words that a new name must not be. */
  readonly reserved: { readonly verbs: ReadonlySet<string>; readonly keys: ReadonlySet<string> };
  /** The keys that the command takes itself, which are no configs. */
  readonly ownKeys: readonly string[];
}

/** A command: gets its words resolved, returns the exit code; throws JobmanError for what it cannot do. */
export type TpuBody = (desk: TpuCli, words: Words) => Promise<number>;

/** Words that a new name must not be: commands, their keys, users and TPUs. */
export async function wordsInUse({ reserved, lab: { record } }: TpuCli): Promise<WordsInUse> {
  const [users, tpus, tpuAliases] = await Promise.all([record.users(), record.tpus(), record.tpuAliases()]);
  return {
    ...reserved,
    users: users.map(({ name }) => name),
    tpus: tpus.map(({ name }) => name),
    tpuAliases,
  };
}
