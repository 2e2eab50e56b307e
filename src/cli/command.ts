// One command of `jobman` or of `tpu`: a row of its table. Parsing, help and completion read these rows, and the documents are
// held to them. The module of a command is loaded when it runs.

import type { Services } from '../app/services.ts';
import type { Cli, GlobalFlags } from './context.ts';
import type { Flag, Flags, FlagValues } from './flags.ts';

export type Example = readonly [command: string, meaning: string];

export interface Command<Body = unknown> {
  readonly names: readonly [string, ...string[]];
  readonly group: string;
  readonly hidden?: true;
  readonly summary: string;
  /** The rest of the usage line: `<job>... [--release]`. */
  readonly usage: string;
  readonly about?: string;
  readonly list?: readonly [heading: string, rows: readonly Example[]];
  readonly examples: readonly Example[];
  /** The meaning of its exit codes, where it is more than the general table says. */
  readonly exits?: Readonly<Record<number, string>>;
  readonly args: readonly Argument[];
  readonly flags: Flags;
  readonly load: (program: Program) => Promise<Body>;
}

export interface Argument<T = unknown> {
  readonly name: string;
  readonly summary: string;
  readonly needed?: true;
  /** Takes all words that are left; the last argument only. */
  readonly many?: true;
  readonly parse?: (word: string) => T;
  readonly propose?: Propose;
}

/** Proposes words to a shell. Called with each place that such a word may stand in. */
export type Propose = (line: PartialLine) => readonly Candidate[] | Promise<readonly Candidate[]>;

/** A word alone has the meaning of the argument or flag that it is proposed for. */
export type Candidate = string | Proposal;

export interface Proposal {
  readonly word: string;
  readonly summary: string;
}

export interface PartialLine {
  readonly services: Services;
  readonly program: Program;
  readonly args: readonly string[];
  /** The word that is being typed, as far as it is there. */
  readonly partial: string;
}

/** `jobman` or `tpu`, as far as its help has to know. */
export interface Program<C extends Command = Command> {
  readonly name: 'jobman' | 'tpu';
  readonly usage: string;
  readonly commands: readonly C[];
  readonly groups: readonly string[];
  /** Commands that share their first word, by that word: what they are about. */
  readonly families: Readonly<Record<string, string>>;
  readonly globals: readonly [heading: string, flags: Flags];
  taken(command: C): readonly [heading: string, rows: readonly Example[]];
  readonly isListingGlobals: boolean;
  readonly closing: readonly string[];
}

/** A command of `jobman`: gets flags and arguments parsed, returns the exit code; throws JobmanError for what it cannot do. */
type JobmanBody = (cli: Cli, flags: GlobalFlags, ...args: readonly unknown[]) => Promise<number>;
export type JobmanCommand = Command<JobmanBody>;

type ArgumentValues<A extends readonly Argument[]> = A extends readonly [infer One extends Argument]
  ? One extends { readonly many: true }
    ? readonly ValueOf<One>[]
    : One extends { readonly needed: true }
      ? readonly [ValueOf<One>]
      : readonly [ValueOf<One> | undefined]
  : readonly [];
type ValueOf<A extends Argument> = A extends { readonly parse: (word: string) => infer T } ? T : string;

type Definition<F extends Flags, A extends readonly Argument[]> = Omit<Command, 'group' | 'args' | 'flags' | 'load'> & {
  readonly args?: A;
  readonly flags?: F;
  readonly load: (
    program: Program,
  ) => Promise<(cli: Cli, flags: FlagValues<F> & GlobalFlags, ...args: ArgumentValues<A>) => Promise<number>>;
};

export function grouped<C extends Command>(group: string, commands: readonly Omit<C, 'group'>[]): readonly C[] {
  return commands.map((one) => ({ ...one, group }) as C);
}

/** A row of the table of `jobman`. The types of the command's own module are checked against its flags and arguments here. */
export function command<F extends Flags = Readonly<Record<never, Flag>>, const A extends readonly Argument[] = []>(
  definition: Definition<F, A>,
): Omit<JobmanCommand, 'group'> {
  const { args = [], flags = {}, load, ...rest } = definition;
  // The command is called with the values that were parsed by these very flags and arguments.
  return { ...rest, args, flags, load: load as unknown as JobmanCommand['load'] };
}
