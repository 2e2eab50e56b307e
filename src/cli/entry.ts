// The form of one line of the table of commands (table.ts), and how its flags and arguments are said.

import type {
  Aliases,
  BaseArgs,
  CommandContext,
  FlagParametersForType,
  TypedPositionalParameters,
} from '@stricli/core';
import type { Services } from '../app/services.ts';
import type { CommandBody, GlobalFlags } from './context.ts';

/** What the command line framework hands to a command and to a completion. */
export interface Context extends CommandContext {
  readonly services: Services;
  /** The words behind `--`. */
  readonly behind: readonly string[];
  /** Keeps the exit code that the command returned. */
  ended(code: number): void;
}

/** Headings of the help, in the order in which they are shown. */
export const sections = ['Start', 'Look', 'Change', 'Work on it', 'This installation'] as const;

export interface Entry {
  /** The words that name it: `list`, `controller start`. */
  readonly path: string;
  /** Other words for it, each as good as `path`. */
  readonly aliases: readonly string[];
  readonly section: (typeof sections)[number];
  /** Not in the help's list of commands. */
  readonly hidden: boolean;
  /** One line for the list of commands. */
  readonly brief: string;
  /** What follows the words: `<job>... [--release]`. */
  readonly usage: string;
  /** Further sentences for its own help; empty when the brief says all. */
  readonly about: string;
  /** Words that the command takes beside its flags, each with its meaning, under a heading. */
  readonly list: readonly [heading: string, rows: readonly Example[]] | undefined;
  readonly examples: readonly Example[];
  /** What its exit codes mean, where it is more than the general table says. */
  readonly exits: Readonly<Record<number, string>>;
  readonly flags: Readonly<Record<string, Flag>>;
  /** One letter for a flag. */
  readonly letters: Readonly<Record<string, string>>;
  readonly args: unknown;
  readonly load: () => Promise<CommandBody<object, readonly unknown[]>>;
}

export type Example = readonly [command: string, meaning: string];

/** What the help and the test of the documents read of a flag; the framework reads the rest. */
export interface Flag {
  readonly kind: string;
  readonly brief: string;
  readonly placeholder?: string;
  readonly values?: readonly string[];
}

interface Definition<Flags, Args extends BaseArgs> {
  readonly path: string;
  readonly aliases?: readonly string[];
  readonly section: (typeof sections)[number];
  readonly hidden?: boolean;
  readonly brief: string;
  readonly usage: string;
  readonly about?: string;
  readonly list?: readonly [heading: string, rows: readonly Example[]];
  readonly examples: readonly Example[];
  readonly exits?: Readonly<Record<number, string>>;
  readonly flags: FlagParametersForType<Flags, Context>;
  readonly letters?: Aliases<keyof Flags & string>;
  readonly args: TypedPositionalParameters<Args, Context>;
  readonly load: () => Promise<CommandBody<Flags, Args>>;
}

/** One line of the table. The types of the command's own file are checked against its flags and arguments here. */
export function entry<Flags = object, Args extends BaseArgs = []>(definition: Definition<Flags, Args>): Entry {
  return {
    aliases: [],
    hidden: false,
    about: '',
    list: undefined,
    exits: {},
    ...definition,
    flags: definition.flags as Readonly<Record<string, Flag>>,
    letters: (definition.letters ?? {}) as Readonly<Record<string, string>>,
    // The framework calls it with what it parsed by the very flags and arguments that this definition was checked with.
    load: definition.load as unknown as Entry['load'],
  };
}

/** True when that word, or those words, name the command. */
export function isNamed({ path, aliases }: Pick<Entry, 'path' | 'aliases'>, words: string): boolean {
  return path === words || aliases.includes(words);
}

/** A word of a flag as it is typed: `cmdOnly` is `--cmd-only`. */
export function flagName(name: string): string {
  return `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

/** Says yes by being there. */
export function mark(brief: string) {
  return { kind: 'boolean', brief, optional: true, withNegated: false } as const;
}

/** Takes one word. */
export function word(brief: string, placeholder: string) {
  return { kind: 'parsed', parse: String, brief, placeholder, optional: true } as const;
}

/** Takes one word each time it is given. */
export function words(brief: string, placeholder: string) {
  return { kind: 'parsed', parse: String, brief, placeholder, optional: true, variadic: true } as const;
}

/** Takes one of the words that are listed. */
export function choice<const T extends string>(brief: string, values: readonly T[]) {
  return { kind: 'enum', values, brief, optional: true } as const;
}

/** Takes a word that `parse` turns into a value; `parse` throws an Error whose message says what was expected. */
export function value<T>(brief: string, placeholder: string, parse: (text: string) => T) {
  return { kind: 'parsed', parse, brief, placeholder, optional: true } as const;
}

/** The same each time it is given. */
export function values<T>(brief: string, placeholder: string, parse: (text: string) => T) {
  return { kind: 'parsed', parse, brief, placeholder, optional: true, variadic: true } as const;
}

/** The flags of every command. */
export const globalFlags: FlagParametersForType<GlobalFlags, Context> = {
  json: mark('Print JSON, one object a line'),
  yes: mark('Answer yes to every question'),
  quiet: mark('Print results only'),
  settings: word('A file of settings that stands over the others', 'file'),
  color: choice('Colour the output', ['auto', 'always', 'never']),
  progress: choice('How waiting is shown', ['auto', 'plain', 'none']),
};

/** One letter for some of them. */
export const globalLetters = { y: 'yes', q: 'quiet', s: 'settings' } as const;
