// One command of `jobman` or of `tpu`: a row of its table. Parsing, help and completion read these rows, and the documents are
// held to them. The module of a command is loaded when it runs.

import type { Services } from '../app/services.ts';
import type { Cli, GlobalFlags } from './context.ts';
import type { Flag, Flags, FlagValues } from './flags.ts';

/** A command that is typed, and what it does. */
export type Example = readonly [command: string, meaning: string];

export interface Command<Body = unknown> {
  /** Its names, the main one first: `list`, `controller start`. */
  readonly names: readonly [string, ...string[]];
  /** The heading of the help under which it is listed. */
  readonly group: string;
  /** In no list of commands. */
  readonly hidden?: true;
  /** One line for the list of commands. */
  readonly summary: string;
  /** The rest of the usage line: `<job>... [--release]`. */
  readonly usage: string;
  /** Further sentences for its own help. */
  readonly about?: string;
  /** Words that it takes in addition, each with its meaning, under a heading. */
  readonly list?: readonly [heading: string, rows: readonly Example[]];
  readonly examples: readonly Example[];
  /** The meaning of its exit codes, where it is more than the general table says. */
  readonly exits?: Readonly<Record<number, string>>;
  readonly args: readonly Argument[];
  readonly flags: Flags;
  readonly load: (program: Program) => Promise<Body>;
}

/** A word that is no flag. */
export interface Argument<T = unknown> {
  readonly name: string;
  readonly summary: string;
  readonly needed?: true;
  /** Takes all words that are left; the last argument only. */
  readonly many?: true;
  /** As of a flag. Without it the value is the word. */
  readonly parse?: (word: string) => T;
  readonly propose?: Propose;
}

/** Proposes words to a shell. Called with each place that such a word may stand in. */
export type Propose = (line: PartialLine) => readonly Candidate[] | Promise<readonly Candidate[]>;

/** A word alone has the meaning of the argument or flag that it is proposed for. */
export type Candidate = string | Proposal;

export interface Proposal {
  readonly word: string;
  /** Its meaning, in a few words. */
  readonly summary: string;
}

/** A line that is being typed. */
export interface PartialLine {
  readonly services: Services;
  readonly program: Program;
  /** The arguments before the word that is being typed. */
  readonly args: readonly string[];
  /** The word that is being typed, as far as it is there. */
  readonly partial: string;
}

/** `jobman` or `tpu`, as far as its help has to know. */
export interface Program<C extends Command = Command> {
  readonly name: 'jobman' | 'tpu';
  readonly usage: string;
  readonly commands: readonly C[];
  /** Headings of the help, in the order in which they are shown. */
  readonly groups: readonly string[];
  /** Commands that share their first word, by that word: what they are about. */
  readonly families: Readonly<Record<string, string>>;
  /** The flags of every command, with the heading under which the help lists them. */
  readonly globals: readonly [heading: string, flags: Flags];
  /** The words that a command takes, with their heading. */
  taken(command: C): readonly [heading: string, rows: readonly Example[]];
  /** The help of everything lists them too. */
  readonly isListingGlobals: boolean;
  /** Sentences below the list of all commands. */
  readonly closing: readonly string[];
}

/** A command of `jobman`: gets flags and arguments parsed, returns the exit code; throws JobmanError for what it cannot do. */
type JobmanBody = (cli: Cli, flags: GlobalFlags, ...args: readonly unknown[]) => Promise<number>;
export type JobmanCommand = Command<JobmanBody>;

/** The values of arguments, as a command gets them. */
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

/** These commands under one heading of the help. */
export function grouped<C extends Command>(group: string, commands: readonly Omit<C, 'group'>[]): readonly C[] {
  // The one property that was missing is added.
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
