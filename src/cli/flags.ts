import { didYouMean } from '../catalogue/did-you-mean.ts';
import type { Propose } from './command.ts';
import type { GlobalFlags } from './context.ts';

/** A flag of a command; in `tpu` also the key of a `key=value`. */
export interface Flag<T = unknown> {
  readonly summary: string;
  /** The placeholder of its value in the help. A flag without one takes no value and is true when present. */
  readonly value?: string;
  /** Throws an Error whose message says what it expected. */
  readonly parse: (text: string) => T;
  readonly choices?: readonly string[];
  readonly many?: true;
  /** Letters, of which several may share a dash, or whole names with their dashes. */
  readonly also?: readonly string[];
  readonly propose?: Propose;
}

export type Flags = Readonly<Record<string, Flag>>;

export type FlagValues<F extends Flags> = {
  readonly [K in keyof F]?:
    | (F[K] extends { readonly many: true } ? readonly ReturnType<F[K]['parse']>[] : ReturnType<F[K]['parse']>)
    | undefined;
};

export function boolFlag(summary: string, ...also: readonly string[]) {
  return { summary, parse: parseBool, also } satisfies Flag;
}

export function stringFlag(summary: string, value: string, ...also: readonly string[]) {
  return { summary, value, parse: String, also } satisfies Flag;
}

export function stringListFlag(summary: string, value: string, ...also: readonly string[]) {
  return { ...stringFlag(summary, value, ...also), many: true } as const satisfies Flag;
}

export function valueFlag<T>(
  summary: string,
  placeholder: string,
  parse: (text: string) => T,
  ...also: readonly string[]
) {
  return { summary, value: placeholder, parse, also } satisfies Flag<T>;
}

export function valueListFlag<T>(summary: string, placeholder: string, parse: (text: string) => T) {
  return { ...valueFlag(summary, placeholder, parse), many: true } as const satisfies Flag<T>;
}

export function choiceFlag<const T extends string>(
  summary: string,
  choices: readonly T[],
  placeholder = choices.join('|'),
  ...also: readonly string[]
) {
  return { summary, value: placeholder, parse: parseChoice(choices), choices, also } satisfies Flag<T>;
}

export function parseChoice<T extends string>(choices: readonly T[]): (text: string) => T {
  return (typed) => {
    const found = choices.find((one) => one === typed);
    if (found !== undefined) return found;
    const near = didYouMean(typed, choices);
    const guess = near === undefined ? '' : `. Did you mean ${near}?`;
    throw new Error(`expected one of ${choices.join(', ')}${guess}`);
  };
}

/** `cmdOnly` is `--cmd-only`. */
export function flagName(name: string): string {
  return `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}

export function formsOf([name, { also = [] }]: readonly [name: string, flag: Flag]): readonly string[] {
  return [flagName(name), ...also.map((other) => (other.startsWith('-') ? other : `-${other}`))];
}

function parseBool(typed: string): boolean {
  if (/^(true|t|yes|y|on|1)$/i.test(typed)) return true;
  if (/^(false|f|no|n|off|0)$/i.test(typed)) return false;
  throw new Error('takes no value');
}

export const globalFlags = {
  json: boolFlag('Print JSON, one object per line'),
  output: choiceFlag('`json` is the same as --json', ['table', 'json'], undefined, 'o'),
  yes: boolFlag('Answer yes to every question', 'y'),
  quiet: boolFlag('Print only results', 'q'),
  settings: stringFlag('A settings file that overrides your settings', 'file', 's'),
  server: stringFlag('Use this server: a context, an address, or `local` for this machine', 'name'),
  color: choiceFlag('When to use colours', ['auto', 'always', 'never']),
  progress: choiceFlag('How to show progress', ['auto', 'plain', 'none']),
  help: boolFlag('Show help', 'h'),
} satisfies Flags & { readonly [K in keyof GlobalFlags]: Flag };
