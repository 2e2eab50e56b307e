// Reads the words of a line by the flags and arguments of a command. Of `tpu` this reads the flags of every command; its other
// words may stand in any order and are read in tpu/read-words.ts.

import { type JobmanError, usageError } from '../app/errors.ts';
import { didYouMean } from '../catalogue/did-you-mean.ts';
import type { Argument } from './command.ts';
import { flagName, formsOf, globalFlags, type Flag, type Flags } from './flags.ts';
import { otherFlags } from './other-words.ts';

interface Pieces {
  readonly given: ReadonlyMap<string, readonly string[]>;
  readonly plain: readonly string[];
  readonly behind: readonly string[];
  readonly waiting: string | undefined;
  readonly isOver: boolean;
}

/** Tells flags from other words. Throws JobmanError (2) at the first word that is wrong by its form. */
export function split(flags: Flags, words: readonly string[]): Pieces {
  const given = new Map<string, string[]>();
  const plain: string[] = [];
  let waiting: string | undefined;
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
    const found = flagsIn(flags, word, waiting !== undefined);
    if (found !== undefined && waiting !== undefined) throw needsValue(waiting);
    if (found !== undefined) {
      for (const [name, said] of found) {
        if (said !== undefined) give(name, said);
        else if (flags[name]?.value === undefined) give(name, 'true');
        else waiting = name;
      }
    } else if (waiting !== undefined) {
      give(waiting, word);
      waiting = undefined;
    } else plain.push(word);
  }
  const behind = end < 0 ? [] : words.slice(end + 1);
  if (end >= 0 && waiting !== undefined) throw needsValue(waiting);
  return { given, plain: [...plain, ...behind], behind, waiting, isOver: end >= 0 };
}

interface Scanned {
  readonly flags: Readonly<Record<string, unknown>>;
  readonly args: readonly unknown[];
  readonly behind: readonly string[];
}

/** Reads words by these flags and arguments. Throws JobmanError (2), with every wrong value at once. */
export function scan(flags: Flags, args: readonly Argument[], words: readonly string[]): Scanned {
  const { given, plain, behind, waiting } = split(flags, words);
  const problems: string[] = [];
  const read = (called: string, word: string, parse: (word: string) => unknown, isMark = false): unknown => {
    try {
      return parse(word);
    } catch (error) {
      problems.push(
        isMark ? `${called} takes no value, and \`${word}\` was given.` : withReason(`${called} \`${word}\``, error),
      );
      return undefined;
    }
  };
  const values = argumentsIn(args, plain, problems).map(([{ name, parse = String }, word]) =>
    word === undefined ? undefined : read(name, word, parse),
  );
  const flagValues: Record<string, unknown> = {};
  for (const [name, { parse, many, value }] of Object.entries(flags)) {
    const said = given.get(name)?.map((word) => read(flagName(name), word, parse, value === undefined));
    if (said !== undefined) flagValues[name] = many === true ? said : said[0];
  }
  if (waiting !== undefined) problems.push(needsValue(waiting).message);
  const [first, ...others] = problems;
  if (first !== undefined) throw usageError(first, others);
  return { flags: flagValues, args: values, behind };
}

export function withReason(front: string, error: unknown): string {
  const reason = error instanceof Error ? error.message : String(error);
  return `${front}: ${reason}${reason.endsWith('?') ? '' : '.'}`;
}

export function globalsApart(
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

export function leadingGlobals(words: readonly string[]): number {
  let count = 0;
  for (let length = -1; length !== 0; count += length) length = globalLength(globalFlags, words[count] ?? '');
  return count;
}

function globalLength(flags: Flags, word: string): number {
  const [form = ''] = word.split('=');
  const name = flagCalled(flags, form);
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
 * The flags that a word is; undefined for a word that is none. Several letters may share a dash (`-fq`), and the last of them
 * its word with a value (`-n100`), unless the word may be the value of the flag before it.
 */
function flagsIn(flags: Flags, word: string, mayBeValue: boolean): readonly Found[] | undefined {
  const exact = flagCalled(flags, word);
  if (exact !== undefined) return [[exact, undefined]];
  const [, form, value] = /^(--[a-z][\w.-]*|-[a-z](?==))(?:=(.*))?$/is.exec(word) ?? [];
  if (form !== undefined) {
    const name = flagCalled(flags, form);
    if (name === undefined) throw noFlag(flags, form);
    if (value === '') throw usageError(`${form}= has nothing after the equals sign.`);
    return [[name, value]];
  }
  if (!/^-[a-z]/i.test(word)) return undefined;
  const isLetters = /^-[a-z]+$/i.test(word);
  if (mayBeValue && !isLetters) return undefined;
  const found: Found[] = [];
  for (const [index, letter] of word.slice(1).split('').entries()) {
    const name = flagCalled(flags, `-${letter}`);
    if (name === undefined && !isLetters) return undefined;
    if (name === undefined) throw noFlag(flags, `-${letter}`);
    const rest = word.slice(index + 2);
    const takesRest = flags[name]?.value !== undefined && rest !== '';
    found.push([name, takesRest ? rest : undefined]);
    if (takesRest) break;
  }
  return found;
}

function flagCalled(flags: Flags, form: string): string | undefined {
  if (!form.startsWith('-')) return undefined;
  const typed = form.startsWith('--') ? flagName(form.slice(2)) : form;
  return Object.entries<Flag>(flags).find((flag) => formsOf(flag).includes(typed))?.[0];
}

function noFlag(flags: Flags, form: string): JobmanError {
  if (!form.startsWith('--')) return usageError(noFlagText(form));
  const names = Object.keys(flags).map(flagName);
  const known = otherFlags(form.slice(2)).find((name) => names.includes(name));
  const near = didYouMean(
    form.slice(2),
    names.map((name) => name.slice(2)),
  );
  const meant = known ?? (near === undefined ? undefined : `--${near}`);
  return usageError(noFlagText(form, meant));
}

export function noCommandText(typed: string, names: readonly string[]): string {
  const near = didYouMean(typed, names);
  return `there is no command \`${typed}\`.${near === undefined ? '' : ` Did you mean \`${near}\`?`}`;
}

export function noFlagText(form: string, meant?: string): string {
  return `there is no flag ${form}.${meant === undefined ? '' : ` Did you mean ${meant}?`}`;
}

function needsValue(name: string): JobmanError {
  return usageError(`${flagName(name)} needs a value.`);
}
