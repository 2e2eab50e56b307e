// Parses arguments. For `tpu` only the global flags: tpu/parse-arguments.ts parses the rest, in any order.

import { type JobmanError, usageError } from '../app/errors.ts';
import { didYouMean } from '../catalogue/did-you-mean.ts';
import type { Argument } from './command.ts';
import { flagName, formsOf, globalFlags, type Flag, type Flags } from './flags.ts';
import { equivalentFlags } from './foreign-commands.ts';

interface SplitArguments {
  readonly given: ReadonlyMap<string, readonly string[]>;
  readonly positional: readonly string[];
  readonly argsAfterDash: readonly string[];
  readonly pendingFlag: string | undefined;
  readonly hasDash: boolean;
}

/** Throws JobmanError (2) at the first malformed argument. */
export function splitFlags(flags: Flags, words: readonly string[]): SplitArguments {
  const given = new Map<string, string[]>();
  const positional: string[] = [];
  let pendingFlag: string | undefined;
  const give = (name: string, word: string): void => {
    const before = given.get(name);
    const flag = flags[name];
    if (before !== undefined && flag?.many !== true) {
      const both = flag?.value === undefined ? '' : `: \`${before[0]}\` and \`${word}\``;
      throw usageError(`${flagName(name)} was given twice${both}.`);
    }
    given.set(name, [...(before ?? []), word]);
  };
  const end = words.indexOf('--');
  for (const word of end < 0 ? words : words.slice(0, end)) {
    const found = readFlags(flags, word, pendingFlag !== undefined);
    if (found !== undefined && pendingFlag !== undefined) throw needsValue(pendingFlag);
    if (found !== undefined) {
      for (const [name, value] of found) {
        if (value !== undefined) give(name, value);
        else if (flags[name]?.value === undefined) give(name, 'true');
        else pendingFlag = name;
      }
    } else if (pendingFlag !== undefined) {
      give(pendingFlag, word);
      pendingFlag = undefined;
    } else positional.push(word);
  }
  const argsAfterDash = end < 0 ? [] : words.slice(end + 1);
  if (end >= 0 && pendingFlag !== undefined) throw needsValue(pendingFlag);
  return { given, positional: [...positional, ...argsAfterDash], argsAfterDash, pendingFlag, hasDash: end >= 0 };
}

interface ScannedArguments {
  readonly flags: Readonly<Record<string, unknown>>;
  readonly args: readonly unknown[];
  readonly argsAfterDash: readonly string[];
}

/** Throws JobmanError (2), with every wrong value at once. */
export function scan(flags: Flags, args: readonly Argument[], words: readonly string[]): ScannedArguments {
  const { given, positional, argsAfterDash, pendingFlag } = splitFlags(flags, words);
  const problems: string[] = [];
  const read = (called: string, word: string, parse: (word: string) => unknown, isBool = false): unknown => {
    try {
      return parse(word);
    } catch (error) {
      problems.push(
        isBool ? `${called} takes no value, and \`${word}\` was given.` : withReason(`${called} \`${word}\``, error),
      );
      return undefined;
    }
  };
  const values = argumentsIn(args, positional, problems).map(([{ name, parse = String }, word]) =>
    word === undefined ? undefined : read(name, word, parse),
  );
  const flagValues: Record<string, unknown> = {};
  for (const [name, { parse, many, value }] of Object.entries(flags)) {
    const parsed = given.get(name)?.map((word) => read(flagName(name), word, parse, value === undefined));
    if (parsed !== undefined) flagValues[name] = many === true ? parsed : parsed[0];
  }
  if (pendingFlag !== undefined) problems.push(needsValue(pendingFlag).message);
  const [first, ...others] = problems;
  if (first !== undefined) throw usageError(first, others);
  return { flags: flagValues, args: values, argsAfterDash };
}

export function withReason(front: string, error: unknown): string {
  const reason = error instanceof Error ? error.message : String(error);
  return `${front}: ${reason}${reason.endsWith('?') ? '' : '.'}`;
}

export function separateGlobals(
  flags: Flags,
  words: readonly string[],
): { readonly own: readonly string[]; readonly rest: readonly string[] } {
  const own: string[] = [];
  const rest: string[] = [];
  for (let at = 0; at < words.length;) {
    if (words[at] === '--') return { own, rest: [...rest, ...words.slice(at)] };
    const length = globalLength(flags, words[at] ?? '');
    (length > 0 ? own : rest).push(...words.slice(at, at + Math.max(1, length)));
    at += Math.max(1, length);
  }
  return { own, rest };
}

export function countLeadingGlobals(words: readonly string[]): number {
  let count = 0;
  for (let length = -1; length !== 0; count += length) length = globalLength(globalFlags, words[count] ?? '');
  return count;
}

function globalLength(flags: Flags, word: string): number {
  const [form = ''] = word.split('=');
  const name = findFlag(flags, form);
  if (name === undefined) return 0;
  return flags[name]?.value === undefined || word.includes('=') ? 1 : 2;
}

function argumentsIn(
  args: readonly Argument[],
  words: readonly string[],
  problems: string[],
): readonly (readonly [Argument, string | undefined])[] {
  const last = args.at(-1);
  const extra = words[args.length];
  if (last?.many === true) return words.map((word, at) => [args[at] ?? last, word]);
  if (extra !== undefined) throw usageError(`\`${extra}\` is one word too many.`);
  return args.map((argument, at) => {
    if (argument.needed === true && words[at] === undefined) problems.push(`<${argument.name}> is missing.`);
    return [argument, words[at]];
  });
}

type Found = readonly [name: string, value: string | undefined];

/**
 * Undefined if `word` is no flag. Letters may share a dash (`-fq`), and the last may have its value attached (`-n100`),
 * unless `word` may be the value of the flag before it.
 */
function readFlags(flags: Flags, word: string, mayBeValue: boolean): readonly Found[] | undefined {
  const exact = findFlag(flags, word);
  if (exact !== undefined) return [[exact, undefined]];
  const [, form, value] = /^(--[a-z][\w.-]*|-[a-z](?==))(?:=(.*))?$/is.exec(word) ?? [];
  if (form !== undefined) {
    const name = findFlag(flags, form);
    if (name === undefined) throw unknownFlag(flags, form);
    if (value === '') throw usageError(`${form}= has nothing after the equals sign.`);
    return [[name, value]];
  }
  if (!/^-[a-z]/i.test(word)) return undefined;
  const isLetters = /^-[a-z]+$/i.test(word);
  if (mayBeValue && !isLetters) return undefined;
  const found: Found[] = [];
  for (const [index, letter] of word.slice(1).split('').entries()) {
    const name = findFlag(flags, `-${letter}`);
    if (name === undefined && !isLetters) return undefined;
    if (name === undefined) throw unknownFlag(flags, `-${letter}`);
    const rest = word.slice(index + 2);
    const takesRest = flags[name]?.value !== undefined && rest !== '';
    found.push([name, takesRest ? rest : undefined]);
    if (takesRest) break;
  }
  return found;
}

function findFlag(flags: Flags, form: string): string | undefined {
  if (!form.startsWith('-')) return undefined;
  const typed = form.startsWith('--') ? flagName(form.slice(2)) : form;
  return Object.entries<Flag>(flags).find((flag) => formsOf(flag).includes(typed))?.[0];
}

function unknownFlag(flags: Flags, form: string): JobmanError {
  if (!form.startsWith('--')) return usageError(formatUnknownFlag(form));
  const names = Object.keys(flags).map(flagName);
  const known = equivalentFlags(form.slice(2)).find((name) => names.includes(name));
  const near = didYouMean(
    form.slice(2),
    names.map((name) => name.slice(2)),
  );
  const meant = known ?? (near === undefined ? undefined : `--${near}`);
  return usageError(formatUnknownFlag(form, meant));
}

export function formatUnknownCommand(typed: string, names: readonly string[]): string {
  const near = didYouMean(typed, names);
  return `there is no command \`${typed}\`.${near === undefined ? '' : ` Did you mean \`${near}\`?`}`;
}

export function formatUnknownFlag(form: string, meant?: string): string {
  return `there is no flag ${form}.${meant === undefined ? '' : ` Did you mean ${meant}?`}`;
}

function needsValue(name: string): JobmanError {
  return usageError(`${flagName(name)} needs a value.`);
}
