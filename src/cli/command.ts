// A command of `jobman` or `tpu`: one row of its table. Parsing, help, completion and the documentation read these
// rows. The module of a command is loaded when it runs.

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
  /** An empty line separates its paragraphs. */
  readonly about?: string;
  readonly extraRows?: readonly [heading: string, rows: readonly Example[]];
  readonly examples: readonly Example[];
  /** Exit codes that mean something else than in the general table. */
  readonly exitCodes?: Readonly<Record<number, string>>;
  /**
   * It works on the home, the settings or the connections of this machine, so it is refused for a server. `always`: a
   * current context does not count for it, because a service manager may have started it.
   */
  readonly usesHome?: true | 'always';
  readonly args: readonly Argument[];
  readonly flags: Flags;
  readonly load: (program: Program) => Promise<Body>;
}

export interface Argument<T = unknown> {
  readonly name: string;
  readonly summary: string;
  readonly needed?: true;
  /** For the last argument only. */
  readonly many?: true;
  readonly parse?: (text: string) => T;
  readonly propose?: Propose;
}

/** Called for each argument or flag that the value may belong to. */
export type Propose = (line: PartialLine) => readonly Candidate[] | Promise<readonly Candidate[]>;

/** A plain string has the summary of its argument or flag. */
export type Candidate = string | Proposal;

export interface Proposal {
  readonly value: string;
  readonly summary: string;
}

export interface PartialLine {
  readonly services: Services;
  readonly program: Program;
  readonly args: readonly string[];
  readonly partial: string;
}

export interface Program<C extends Command = Command> {
  readonly name: 'jobman' | 'tpu';
  readonly usage: string;
  readonly commands: readonly C[];
  readonly groups: readonly string[];
  /** The subject of each family: commands such as `controller start` and `controller stop`. */
  readonly families: Readonly<Record<string, string>>;
  readonly globals: readonly [heading: string, flags: Flags];
  inputRows(command: C): readonly [heading: string, rows: readonly Example[]];
  readonly listsGlobalFlags: boolean;
  readonly footer: readonly string[];
}

/** Throws JobmanError; returns the exit code. */
type JobmanHandler = (cli: Cli, flags: GlobalFlags, ...args: readonly unknown[]) => Promise<number>;
export type JobmanCommand = Command<JobmanHandler>;

type ArgumentValues<A extends readonly Argument[]> = A extends readonly [infer One extends Argument]
  ? One extends { readonly many: true }
    ? readonly ValueOf<One>[]
    : One extends { readonly needed: true }
      ? readonly [ValueOf<One>]
      : readonly [ValueOf<One> | undefined]
  : readonly [];
type ValueOf<A extends Argument> = A extends { readonly parse: (text: string) => infer T } ? T : string;

type Definition<F extends Flags, A extends readonly Argument[]> = Omit<
  Command,
  'group' | 'usage' | 'args' | 'flags' | 'load'
> & {
  readonly usage?: string;
  readonly args?: A;
  readonly flags?: F;
  readonly load: (
    program: Program,
  ) => Promise<(cli: Cli, flags: FlagValues<F> & GlobalFlags, ...args: ArgumentValues<A>) => Promise<number>>;
};

export function grouped<C extends Command>(group: string, commands: readonly Omit<C, 'group'>[]): readonly C[] {
  return commands.map((one) => ({ ...one, group }) as C);
}

/** The compiler checks the command's module against the flags and arguments here. */
export function command<F extends Flags = Readonly<Record<never, Flag>>, const A extends readonly Argument[] = []>(
  definition: Definition<F, A>,
): Omit<JobmanCommand, 'group'> {
  const { usage = '', args = [], flags = {}, load, ...rest } = definition;
  // The dispatcher calls the command with values that these flags and arguments parsed.
  return { ...rest, usage, args, flags, load: load as unknown as JobmanCommand['load'] };
}
