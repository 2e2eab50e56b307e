// A row of the table of `tpu` commands: a command whose words may stand in any order.

import type { Argument, Command } from '../command.ts';
import type { Flags } from '../flags.ts';
import type { TpuBody } from './tpu-cli.ts';

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

/** The kinds of words that a command takes in addition to its arguments and flags. Any other word is an error. */
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
  /** Letters behind one dash, in any number and order: `-dsv`. */
  readonly letters?: string;
  /** The command reads its words itself, as they were typed. */
  readonly raw?: true;
}

export interface TpuRow extends Omit<Command, 'load'> {
  readonly args: readonly TpuArgument[];
  readonly takes: Takes;
  /** False of a command that only reads. */
  readonly changes: boolean;
}

export interface TpuCommand extends TpuRow {
  readonly load: Command<TpuBody>['load'];
}

type Definition = Omit<TpuCommand, 'group' | 'args' | 'flags' | 'takes' | 'changes' | 'usage'> &
  Partial<Pick<TpuCommand, 'args' | 'flags' | 'takes' | 'changes' | 'usage'>>;

/** A row of the table. A command changes something unless it says otherwise, and its usage is what it takes. */
export function tpuCommand(definition: Definition): Omit<TpuCommand, 'group'> {
  const { args = [], takes = {} } = definition;
  return { args, flags: {}, takes, changes: true, usage: usageOf(takes, args), ...definition };
}

/** `<window> <tag> [user]`. */
function usageOf({ windows, tpu, user }: Takes, args: readonly TpuArgument[]): string {
  const words: readonly (readonly [name: string, isNeeded: boolean])[] = [
    ...(windows === undefined ? [] : [['window', windows !== 'maybe one'] as const]),
    ...(tpu === undefined ? [] : [['tpu', tpu === 'one'] as const]),
    ...args.map(({ name, needed = false }) => [name, needed] as const),
    ...(user === undefined ? [] : [['user', false] as const]),
  ];
  return words.map(([name, isNeeded]) => (isNeeded ? `<${name}>` : `[${name}]`)).join(' ');
}
