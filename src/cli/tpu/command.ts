// A command of `tpu`: its row in the table, its parsed arguments and its environment.

import type { Lab, LabServices } from '../../lab/lab.ts';
import type { NamesInUse } from '../../lab/names.ts';
import type { LabUser } from '../../lab/users.ts';
import type { LabTpu } from '../../lab/tpus.ts';
import type { Argument, Command } from '../command.ts';
import type { Cli } from '../context.ts';
import type { Flags } from '../flags.ts';

export type Count = 'one' | 'optional' | 'some' | 'any';

/** Also accepted as `name=value`. Arguments are assigned in order, unless `pattern` distinguishes them. */
export interface TpuArgument extends Argument {
  /** A whole number from 0. */
  readonly number?: true;
  readonly pattern?: RegExp;
  readonly suggests?: 'config aliases' | 'TPU aliases';
}

interface Takes {
  /** A user of the registry: by name, `user=`, `id=` or --user. */
  readonly user?: true;
  /** A TPU of the registry: by alias or full name, also as `tpu=` or `ka=`. */
  readonly tpu?: Count;
  /** TPU types such as `v2-32`; `families` also accepts v2, v234 and v*. */
  readonly types?: 'accelerators' | 'families';
  /** Window numbers: bare, as `windows=`, `window=`, `w=` or `-w=`, or after `-w`. Commas separate several. */
  readonly windows?: Count;
  /** Options given as `name=value`. `also` holds other names, and flags followed by the value: `-n 5`. */
  readonly keys?: Flags;
  /** Every other `key=value` is a config of the program. */
  readonly configs?: true;
  readonly letters?: string;
  /** The command parses its arguments itself. */
  readonly raw?: true;
}

export interface TpuRow extends Omit<Command, 'load'> {
  readonly args: readonly TpuArgument[];
  readonly takes: Takes;
  readonly changes: boolean;
  /** It reads or changes what only the login machine has, such as terminals and files of the home. */
  readonly needsLoginMachine: boolean;
}

export interface TpuCommand extends TpuRow {
  readonly load: Command<TpuHandler>['load'];
}

type Definition = Partial<Omit<TpuCommand, 'names' | 'summary' | 'group'>> & Pick<TpuCommand, 'examples' | 'load'>;

export function tpuCommand(
  names: TpuCommand['names'],
  summary: string,
  definition: Definition,
): Omit<TpuCommand, 'group'> {
  const { args = [], takes = {} } = definition;
  return {
    names,
    summary,
    args,
    flags: {},
    takes,
    changes: true,
    needsLoginMachine: false,
    usage: usageOf(takes, args),
    ...definition,
  };
}

export function tpuQuery(
  names: TpuCommand['names'],
  summary: string,
  definition: Definition,
): Omit<TpuCommand, 'group'> {
  return tpuCommand(names, summary, { ...definition, changes: false });
}

function usageOf({ windows, tpu, user }: Takes, args: readonly TpuArgument[]): string {
  const parts: readonly (readonly [name: string, isNeeded: boolean])[] = [
    ...(windows === undefined ? [] : [['window', windows !== 'optional'] as const]),
    ...(tpu === undefined ? [] : [['tpu', tpu === 'one'] as const]),
    ...args.map(({ name, needed = false }) => [name, needed] as const),
    ...(user === undefined ? [] : [['user', false] as const]),
  ];
  return parts.map(([name, isNeeded]) => (isNeeded ? `<${name}>` : `[${name}]`)).join(' ');
}

export interface KnownNames {
  readonly users: readonly Pick<LabUser, 'name' | 'id'>[];
  readonly tpus: readonly LabTpu[];
  readonly tpuAliases: ReadonlyMap<string, string>;
}

export interface ParsedArguments {
  readonly verb: string;
  /** The user named on the line; null means the user who types. */
  readonly user: string | null;
  readonly tpu: LabTpu | null;
  /** TPU types as typed: `v2-32`, `v*`. */
  readonly types: readonly string[];
  /** Window numbers without duplicates. */
  readonly windows: readonly number[];
  readonly numbers: Readonly<Record<string, number>>;
  readonly texts: Readonly<Record<string, string>>;
  /** The command's own keys. Booleans are `true` and `false`. */
  readonly keys: Readonly<Record<string, string>>;
  /** Every other `key=value` in order. Keys are as typed, without dashes. */
  readonly configs: readonly (readonly [key: string, value: string])[];
  readonly flags: ReadonlySet<string>;
  readonly letters: string;
  /** All arguments as typed, if the command takes them raw; otherwise empty. */
  readonly raw: readonly string[];
}

/** An argument that the command's row declares as needed. */
export function requiredText(args: ParsedArguments, name: string): string {
  return required(args.texts[name], args, name);
}

export function requiredNumber(args: ParsedArguments, name: string): number {
  return required(args.numbers[name], args, name);
}

export function requiredTpu(args: ParsedArguments): LabTpu {
  return required(args.tpu, args, 'a TPU');
}

function required<T>(value: T | null | undefined, { verb }: ParsedArguments, name: string): T {
  if (value === null || value === undefined)
    throw new Error(`the row of \`${verb}\` does not say that ${name} is needed`);
  return value;
}

export interface TpuCli extends Cli {
  readonly services: LabServices;
  readonly lab: Lab;
  /** The value of --user, else of TPU_USER: the name of a user, which resolve-user.ts checks. */
  readonly requestedUser: string | null;
  /** The user of the token of the server in use; null on this machine. */
  readonly tokenUser: string | null;
  /** Command names and keys. A new name must differ from all of them. */
  readonly reserved: { readonly verbs: ReadonlySet<string>; readonly keys: ReadonlySet<string> };
  /** Keys that the command itself takes, so that they are not configs. */
  readonly ownKeys: readonly string[];
}

/** Returns the exit code. Throws JobmanError if the command fails. */
export type TpuHandler = (cli: TpuCli, args: ParsedArguments) => Promise<number>;

/** All names in use: commands, their keys, users and TPUs. A new name must differ from them. */
export async function namesInUse({ reserved, lab: { store } }: TpuCli): Promise<NamesInUse> {
  const [users, tpus, tpuAliases] = await Promise.all([store.users(), store.tpus(), store.tpuAliases()]);
  return {
    ...reserved,
    users: users.map(({ name }) => name),
    tpus: tpus.map(({ name }) => name),
    tpuAliases,
  };
}
