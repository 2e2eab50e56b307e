// Flags: their form in the tables of commands, and those that every command takes.

import { didYouMean } from '../catalogue/did-you-mean.ts';
import type { Propose } from './command.ts';
import type { GlobalFlags } from './context.ts';

/** A flag of a command; in `tpu` also a key of a `key=value`. */
export interface Flag<T = unknown> {
  readonly summary: string;
  /** The placeholder of its value in the help. A flag without one is true by being there. */
  readonly value?: string;
  /** Turns the word into the value. Throws an Error whose message says what was expected. */
  readonly parse: (word: string) => T;
  readonly choices?: readonly string[];
  readonly many?: true;
  /** Other forms: letters, of which several may share a dash, or whole words with their dashes. */
  readonly also?: readonly string[];
  readonly propose?: Propose;
}

export type Flags = Readonly<Record<string, Flag>>;

/** The values of flags, as a command gets them. A flag that was not given has none. */
export type FlagValues<F extends Flags> = {
  readonly [K in keyof F]?:
    | (F[K] extends { readonly many: true } ? readonly ReturnType<F[K]['parse']>[] : ReturnType<F[K]['parse']>)
    | undefined;
};

/** A flag that is true by being there. */
export function mark(summary: string, ...also: readonly string[]) {
  return { summary, parse: isTrue, also } satisfies Flag;
}

export function word(summary: string, value: string, ...also: readonly string[]) {
  return { summary, value, parse: String, also } satisfies Flag;
}

export function words(summary: string, value: string, ...also: readonly string[]) {
  return { ...word(summary, value, ...also), many: true } as const satisfies Flag;
}

/** A flag that takes a word which `parse` turns into a value. */
export function value<T>(summary: string, placeholder: string, parse: (word: string) => T, ...also: readonly string[]) {
  return { summary, value: placeholder, parse, also } satisfies Flag<T>;
}

/** The same each time it is given. */
export function values<T>(summary: string, placeholder: string, parse: (word: string) => T) {
  return { ...value(summary, placeholder, parse), many: true } as const satisfies Flag<T>;
}

export function choice<const T extends string>(
  summary: string,
  choices: readonly T[],
  placeholder = choices.join('|'),
) {
  return { summary, value: placeholder, parse: parseChoice(choices), choices } satisfies Flag<T>;
}

export function parseChoice<T extends string>(choices: readonly T[]): (word: string) => T {
  return (typed) => {
    const found = choices.find((one) => one === typed);
    if (found !== undefined) return found;
    const near = didYouMean(typed, choices);
    const guess = near === undefined ? '' : `. Did you mean ${near}?`;
    throw new Error(`expected one of ${choices.join(', ')}${guess}`);
  };
}

/** A flag as it is typed: `cmdOnly` is `--cmd-only`. */
export function flagName(name: string): string {
  return `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

export function formsOf([name, { also = [] }]: readonly [name: string, flag: Flag]): readonly string[] {
  return [flagName(name), ...also.map((other) => (other.startsWith('-') ? other : `-${other}`))];
}

function isTrue(typed: string): boolean {
  if (/^(true|t|yes|y|on|1)$/i.test(typed)) return true;
  if (/^(false|f|no|n|off|0)$/i.test(typed)) return false;
  throw new Error('takes no value');
}

export const globalFlags = {
  json: mark('Print JSON, one object a line'),
  yes: mark('Answer yes to every question', 'y'),
  quiet: mark('Print results only', 'q'),
  settings: word('A file of settings that stands over the others', 'file', 's'),
  color: choice('Colour the output', ['auto', 'always', 'never']),
  progress: choice('How waiting is shown', ['auto', 'plain', 'none']),
  help: mark('Print this', 'h'),
} satisfies Flags & { readonly [K in keyof GlobalFlags]: Flag };
