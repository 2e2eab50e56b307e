// Parses arguments. For `tpu` only the global flags: tpu/parse-arguments.ts parses the rest, in any order.

import { type JobmanError, usageError } from '../app/errors.ts';
import { didYouMean } from '../catalogue/did-you-mean.ts';
import type { Argument } from './command.ts';
import { flagName, formsOf, globalFlags, type Flag, type Flags } from './flags.ts';
import { equivalentFlag } from './foreign-commands.ts';

interface SplitArguments {
  readonly given: ReadonlyMap<string, readonly string[]>;
  readonly positional: readonly string[];
  readonly argsAfterDash: readonly string[];
  readonly pendingFlag: string | undefined;
  readonly hasDash: boolean;
}

/** A token, also one that was copied without its end, and a text that has one. */
const tokenArgument = /^jobman_[0-9A-Za-z]{16,}$|\bjobman_[0-9A-Za-z]{38}\b/;

/** Throws JobmanError (2) for a token among the arguments of jobman. Messages about a mistake may print any other argument. */
export function refuseTokens(typed: readonly string[]): void {
  const end = typed.indexOf('--');
  if (!(end < 0 ? typed : typed.slice(0, end)).some((arg) => tokenArgument.test(arg))) return;
  throw usageError('A token is never an argument: every user of this machine can read it in the list of processes.', [
    'To log in with a token: jobman login URL, which asks for it; or jobman login URL --token-file FILE, or a pipe',
    'To revoke a token that others may have read: jobman token revoke NAME',
  ]);
}

/** Throws JobmanError (2) at the first malformed argument. */
export function splitFlags(flags: Flags, typed: readonly string[]): SplitArguments {
  const given = new Map<string, string[]>();
  const positional: string[] = [];
  let pendingFlag: string | undefined;
  const give = (name: string, arg: string): void => {
    const before = given.get(name);
    const flag = flags[name];
    if (before !== undefined && flag?.many !== true) {
      const both = flag?.value === undefined ? '' : `: "${before[0]}" and "${arg}"`;
      throw usageError(`${flagName(name)} is given twice${both}.`);
    }
    given.set(name, [...(before ?? []), arg]);
  };
  const end = typed.indexOf('--');
  for (const arg of end < 0 ? typed : typed.slice(0, end)) {
    const found = readFlags(flags, arg, pendingFlag !== undefined);
    if (found !== undefined && pendingFlag !== undefined) throw needsValue(pendingFlag);
    if (found !== undefined) {
      for (const [name, value] of found) {
        if (value !== undefined) give(name, value);
        else if (flags[name]?.value === undefined) give(name, 'true');
        else pendingFlag = name;
      }
    } else if (pendingFlag !== undefined) {
      give(pendingFlag, arg);
      pendingFlag = undefined;
    } else positional.push(arg);
  }
  const argsAfterDash = end < 0 ? [] : typed.slice(end + 1);
  if (end >= 0 && pendingFlag !== undefined) throw needsValue(pendingFlag);
  return { given, positional: [...positional, ...argsAfterDash], argsAfterDash, pendingFlag, hasDash: end >= 0 };
}

interface ScannedArguments {
  readonly flags: Readonly<Record<string, unknown>>;
  readonly args: readonly unknown[];
  readonly argsAfterDash: readonly string[];
}

/** Throws JobmanError (2), with every wrong value at once. */
export function scan(flags: Flags, args: readonly Argument[], typed: readonly string[]): ScannedArguments {
  const { given, positional, argsAfterDash, pendingFlag } = splitFlags(flags, typed);
  const problems: string[] = [];
  const read = (called: string, arg: string, parse: (arg: string) => unknown, isBool = false): unknown => {
    try {
      return parse(arg);
    } catch (error) {
      problems.push(isBool ? `${called} takes no value, not "${arg}".` : withReason(`${called} "${arg}"`, error));
      return undefined;
    }
  };
  const values = argumentsIn(flags, args, positional, problems).map(([{ name, parse = String }, arg]) =>
    arg === undefined ? undefined : read(name, arg, parse),
  );
  const flagValues: Record<string, unknown> = {};
  for (const [name, { parse, many, value }] of Object.entries(flags)) {
    const parsed = given.get(name)?.map((arg) => read(flagName(name), arg, parse, value === undefined));
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
  typed: readonly string[],
): { readonly own: readonly string[]; readonly rest: readonly string[] } {
  const own: string[] = [];
  const rest: string[] = [];
  for (let at = 0; at < typed.length;) {
    if (typed[at] === '--') return { own, rest: [...rest, ...typed.slice(at)] };
    const length = globalLength(flags, typed[at] ?? '');
    (length > 0 ? own : rest).push(...typed.slice(at, at + Math.max(1, length)));
    at += Math.max(1, length);
  }
  return { own, rest };
}

export function countLeadingGlobals(typed: readonly string[]): number {
  let count = 0;
  for (let length = -1; length !== 0; count += length) length = globalLength(globalFlags, typed[count] ?? '');
  return count;
}

function globalLength(flags: Flags, arg: string): number {
  const [form = ''] = arg.split('=');
  const name = findFlag(flags, form);
  if (name === undefined) return 0;
  return flags[name]?.value === undefined || arg.includes('=') ? 1 : 2;
}

function argumentsIn(
  { phase }: Flags,
  args: readonly Argument[],
  typed: readonly string[],
  problems: string[],
): readonly (readonly [Argument, string | undefined])[] {
  const last = args.at(-1);
  const extra = typed[args.length];
  if (last?.many === true) return typed.map((arg, at) => [args[at] ?? last, arg]);
  if (extra !== undefined) {
    const filter = phase === undefined ? undefined : isParsed(phase, extra) ? '--phase' : '--name';
    throw usageError(
      `Unexpected argument "${extra}".${filter === undefined ? '' : ` Did you mean ${filter} ${extra}?`}`,
    );
  }
  return args.map((argument, at) => {
    if (argument.needed === true && typed[at] === undefined) problems.push(`<${argument.name}> is missing.`);
    return [argument, typed[at]];
  });
}

function isParsed({ parse }: Flag, arg: string): boolean {
  try {
    parse(arg);
    return true;
  } catch {
    return false;
  }
}

type Found = readonly [name: string, value: string | undefined];

/**
 * Undefined if `arg` is not a flag. Letters may share a dash (`-fq`), and the last may have its value attached (`-n100`),
 * unless `arg` may be the value of the flag before it.
 */
function readFlags(flags: Flags, arg: string, mayBeValue: boolean): readonly Found[] | undefined {
  const exact = findFlag(flags, arg);
  if (exact !== undefined) return [[exact, undefined]];
  const [, form, value] = /^(--[a-z][\w.-]*|-[a-z](?==))(?:=(.*))?$/is.exec(arg) ?? [];
  if (form !== undefined) {
    const name = findFlag(flags, form);
    if (name === undefined) throw unknownFlag(flags, form);
    if (value === '') throw usageError(`${form}= needs a value.`);
    return [[name, value]];
  }
  if (!/^-[a-z]/i.test(arg)) return undefined;
  const isLetters = /^-[a-z]+$/i.test(arg);
  if (mayBeValue && !isLetters) return undefined;
  const found: Found[] = [];
  for (const [index, letter] of arg.slice(1).split('').entries()) {
    const name = findFlag(flags, `-${letter}`);
    if (name === undefined && !isLetters) return undefined;
    if (name === undefined) throw unknownFlag(flags, `-${letter}`);
    const rest = arg.slice(index + 2);
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

export function unknownFlag(flags: Flags, form: string): JobmanError {
  const names = Object.keys(flags).map(flagName);
  const meant = equivalentFlag(form, names) ?? (form.startsWith('--') ? didYouMean(form, names) : undefined);
  return usageError(formatUnknownFlag(form, meant));
}

export function formatUnknownCommand(typed: string, names: readonly string[]): string {
  const near = didYouMean(typed, names);
  return `Unknown command "${typed}".${near === undefined ? '' : ` Did you mean "${near}"?`}`;
}

export function formatUnknownFlag(form: string, meant?: string): string {
  return `Unknown flag ${form}.${meant === undefined ? '' : ` Did you mean ${meant}?`}`;
}

function needsValue(name: string): JobmanError {
  return usageError(`${flagName(name)} needs a value.`);
}
