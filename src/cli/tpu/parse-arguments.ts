// Parses a line of `tpu`. Arguments may be in any order: each is recognized as a `key=value`, a flag, a user, a TPU, a
// type, a number or another argument. An argument with two meanings or none is a problem; nothing is guessed or
// ignored.

import { exitCode, JobmanError } from '../../app/errors.ts';
import { parseAccelerator, type LabTpu } from '../../lab/tpus.ts';
import { parseCount } from '../parse.ts';
import { formatUnknownCommand, withReason } from '../scan.ts';
import type { Count, KnownNames, TpuArgument, TpuRow, ParsedArguments } from './command.ts';
import {
  acceptedKeys,
  unexpectedArgumentMessage,
  type ParseState,
  danglingAliasMessage,
  missingArguments,
  unknownKeyMessage,
  unknownTpuMessage,
  unknownUserMessage,
  type Token,
  tokenize,
  type Problem,
  findTpu,
  findUser,
  windowKeys,
} from './tokenize.ts';

/** Finds the command of a line and the remaining arguments. Throws JobmanError (2) if there is none. */
export function findCommand<Row extends TpuRow>(
  table: readonly Row[],
  typed: readonly string[],
): { readonly row: Row; readonly verb: string; readonly rest: readonly string[] } {
  const rowOf = (arg: string): Row | undefined => table.find(({ names }) => names.includes(arg));
  const [first = ''] = typed;
  const row = rowOf(first);
  if (row !== undefined) return { row, verb: first, rest: typed.slice(1) };
  // `tpu ada check`: the command may be at any position, if only one argument can be it.
  const end = typed.indexOf('--');
  const found = typed.slice(0, end < 0 ? undefined : end).flatMap((arg, at) => {
    const other = arg.startsWith('-') ? undefined : rowOf(arg);
    return other === undefined || other.hidden ? [] : [{ row: other, verb: arg, at }];
  });
  const [only] = found;
  if (only !== undefined && found.length === 1) return { ...only, rest: typed.toSpliced(only.at, 1) };
  if (found.length > 1) {
    const verbs = found.map(({ verb }) => `\`${verb}\``).join(' and ');
    throw new JobmanError(`${verbs} are both commands. Put the command first.`, exitCode.usage);
  }
  const names = table.filter(({ hidden }) => !hidden).flatMap((one) => one.names);
  throw new JobmanError(formatUnknownCommand(first, names), exitCode.usage, ['See `tpu help`.']);
}

/**
 * Parses the arguments of `verb`. Throws JobmanError with all problems of the line: (3) if every problem is an unknown
 * name, otherwise (2).
 */
export function parseArguments(
  row: TpuRow,
  verb: string,
  typed: readonly string[],
  known: KnownNames,
): ParsedArguments {
  const isRaw = row.takes.raw === true;
  const { args, problems } = interpret(row, isRaw ? [] : tokenize(row, typed), known);
  const [first, ...others] = problems;
  if (first === undefined) return { ...args, verb, raw: isRaw ? typed : [] };
  const isMissing = problems.every(({ code }) => code === exitCode.notFound);
  throw new JobmanError(first.message, isMissing ? exitCode.notFound : exitCode.usage, [
    ...others.map(({ message }) => message),
    `See \`tpu help ${verb}\`.`,
  ]);
}

function interpret(
  row: TpuRow,
  tokens: readonly Token[],
  known: KnownNames,
): { readonly args: Omit<ParsedArguments, 'verb' | 'raw'>; readonly problems: readonly Problem[] } {
  const line: ParseState = {
    row,
    known,
    problems: [],
    user: null,
    tpu: null,
    types: [],
    windows: [],
    numbers: new Map(),
    texts: new Map(),
    keys: new Map(),
    configs: new Map(),
    flags: new Set(),
    letters: '',
  };
  const bare: string[] = [];
  for (const token of tokens) {
    if (token.form === 'pair') assignPair(line, token.key, token.value, token.typed);
    else if (token.form === 'flag') line.flags.add(token.name);
    else if (token.form === 'letters') line.letters = [...new Set(line.letters + token.letters)].join('');
    else if (token.form === 'bare') bare.push(token.text);
    else addProblem(line, token.message);
  }
  assignBare(line, bare);
  const { user, tpu, types, windows, flags, letters } = line;
  return {
    args: {
      user,
      tpu,
      types,
      windows,
      flags,
      letters,
      numbers: Object.fromEntries(line.numbers),
      texts: Object.fromEntries(line.texts),
      keys: Object.fromEntries(line.keys),
      configs: [...line.configs],
    },
    // Another problem may be the reason for a missing argument.
    problems: line.problems.length > 0 ? line.problems : missingArguments(line),
  };
}

/** True for a type such as `v2-32` or `v5e-8`. A family needs only the form: `v2`, `v234`, `v*`, `v3+`. */
function isType(arg: string, forms: 'accelerators' | 'families'): boolean {
  return parseAccelerator(arg) !== null || (forms === 'families' && /^v(\*|\d+[a-z]*\+?)(-\d+)?$/.test(arg));
}

function addProblem(line: ParseState, message: string, code: number = exitCode.usage): void {
  line.problems.push({ message, code });
}

function assignPair(line: ParseState, typedKey: string, value: string, typed: string): void {
  const { takes, args } = line.row;
  const own = Object.entries(takes.keys ?? {}).find(
    ([name, { also = [] }]) => name === typedKey || also.includes(typedKey),
  );
  const argument = args.find(({ name }) => name === typedKey);
  if (!acceptedKeys(line.row).includes(typedKey)) {
    if (takes.configs === true) setOnce(line, line.configs, typedKey, value, typed);
    else addProblem(line, unknownKeyMessage(line, typedKey, typed));
  } else if (value === '') addProblem(line, `\`${typed}\` has no value.`);
  else if (own !== undefined)
    assignParsed(line, own[1].parse, value, typed, (read) => setOnce(line, line.keys, own[0], String(read), typed));
  else if (argument?.number)
    assignParsed(line, parseCount, value, typed, (read) => setOnce(line, line.numbers, argument.name, read, typed));
  else if (argument !== undefined) setOnce(line, line.texts, argument.name, value, typed);
  else if (typedKey === 'user') assignUser(line, value, typed);
  else if (typedKey === 'id') {
    const found = line.known.users.find(({ id }) => isNumber(value) && id === Number(value));
    if (found !== undefined) setUser(line, found.name, typed);
    else addProblem(line, `There is no user with the id ${value}. \`tpu list-users\` shows them.`, exitCode.notFound);
  } else if (typedKey === 'type') assignType(line, value, typed);
  else if (windowKeys.includes(typedKey)) assignWindows(line, value, typed);
  else assignTpu(line, value, typed);
}

function assignParsed<T>(
  line: ParseState,
  parse: (arg: string) => T,
  value: string,
  typed: string,
  take: (read: T) => void,
): void {
  let read: T;
  try {
    read = parse(value);
  } catch (error) {
    addProblem(line, withReason(`\`${typed}\``, error));
    return;
  }
  take(read);
}

/** A second, different value is a problem. The same value twice is allowed. */
function setOnce<Value>(line: ParseState, into: Map<string, Value>, name: string, value: Value, typed: string): void {
  const before = into.get(name);
  if (before !== undefined && before !== value) {
    addProblem(line, `\`${typed}\`: ${name} is already \`${String(before)}\`.`);
  } else into.set(name, value);
}

function assignUser(line: ParseState, name: string, typed: string): void {
  const found = findUser(line, name);
  if (found === undefined) addProblem(line, unknownUserMessage(line, name), exitCode.notFound);
  else setUser(line, found, typed);
}

function setUser(line: ParseState, name: string, typed: string): void {
  if (line.user !== null && line.user !== name) {
    addProblem(line, `Two users: ${line.user} and \`${typed}\`.`);
  } else line.user = name;
}

function assignTpu(line: ParseState, name: string, typed: string): void {
  const found = findTpu(line, name);
  const { types } = line.row.takes;
  if (typeof found === 'object') setTpu(line, found, typed);
  else if (found !== undefined) addProblem(line, danglingAliasMessage(name, found), exitCode.notFound);
  else if (types !== undefined && isType(name, types)) line.types.push(name);
  else addProblem(line, unknownTpuMessage(line, name), exitCode.notFound);
}

function setTpu(line: ParseState, tpu: LabTpu, typed: string): void {
  if (line.tpu !== null && line.tpu.name !== tpu.name) {
    addProblem(line, `Two TPUs: ${line.tpu.name} and \`${typed}\`.`);
  } else line.tpu = tpu;
}

function assignType(line: ParseState, value: string, typed: string): void {
  if (isType(value, line.row.takes.types ?? 'accelerators')) line.types.push(value);
  else addProblem(line, `\`${typed}\` is not a TPU type such as v2-32.`);
}

function assignWindows(line: ParseState, value: string, typed: string): void {
  for (const one of value.split(',')) {
    if (!isNumber(one)) addProblem(line, `\`${typed}\` is not a window number.`);
    else setWindow(line, Number(one), typed);
  }
}

function setWindow(line: ParseState, window: number, typed: string): void {
  if (line.windows.includes(window)) return;
  const [first] = line.windows;
  if (first !== undefined && maxCount(line.row.takes.windows) === 1) {
    addProblem(line, `Two windows: ${first} and \`${typed}\`. This command takes one.`);
  } else line.windows.push(window);
}

interface ArgumentKind {
  /** With its article, for messages: `the user`. */
  readonly label: string;
  /** A key that makes the meaning unambiguous. */
  readonly key: string;
  readonly isSet: boolean;
  readonly max: number;
  matches(arg: string): boolean;
  assign(arg: string): void;
}

/**
 * Assigns each argument to the only kind that it can be. Two possible kinds are a problem. So are two values for one
 * kind while another argument is still open.
 */
function assignBare(line: ParseState, bare: readonly string[]): void {
  const open = line.row.args.filter(({ name, number }) => number !== true && !line.texts.has(name));
  // If a key already set this kind, a bare value may be an argument.
  const kinds = argumentKinds(line).filter(({ isSet }) => !(isSet && open.length > 0));
  const rest: string[] = [];
  const claimed = new Map<ArgumentKind, string[]>();
  for (const arg of bare) {
    const [kind, other] = kinds.filter((one) => one.matches(arg));
    if (arg === '') addProblem(line, 'An argument is empty.');
    else if (kind !== undefined && other !== undefined) {
      addProblem(
        line,
        `\`${arg}\` may be ${kind.label} or ${other.label}. Write ${kind.key}=${arg} or ${other.key}=${arg}.`,
      );
    } else if (kind === undefined) rest.push(arg);
    else claimed.set(kind, [...(claimed.get(kind) ?? []), arg]);
  }
  for (const [kind, found] of claimed) {
    const [slot] = open;
    // One of the surplus values may be meant for an open argument.
    if (found.length > kind.max && slot !== undefined && open.length > rest.length) {
      const either = [...new Set(found)].map((arg) => `\`${arg}\``).join(' and ');
      const [arg = ''] = found;
      addProblem(
        line,
        `${either} may be ${kind.label} or the ${slot.summary}. Write ${kind.key}=${arg} or ${slot.name}=${arg}.`,
      );
    } else for (const arg of found) kind.assign(arg);
  }
  assignTexts(line, open, rest);
}

function argumentKinds(line: ParseState): readonly ArgumentKind[] {
  const { takes, args } = line.row;
  const { types: forms } = takes;
  const mostWindows = maxCount(takes.windows);
  const numbers = args.filter(({ number }) => number);
  const [firstNumber] = numbers;
  const kinds: readonly (ArgumentKind | false)[] = [
    takes.user !== undefined && {
      label: 'the user',
      key: 'user',
      isSet: line.user !== null,
      max: 1,
      matches: (arg) => findUser(line, arg) !== undefined,
      assign: (arg) => assignUser(line, arg, arg),
    },
    takes.tpu !== undefined && {
      label: 'the TPU',
      key: 'tpu',
      isSet: line.tpu !== null,
      max: maxCount(takes.tpu),
      matches: (arg) => findTpu(line, arg) !== undefined,
      assign: (arg) => assignTpu(line, arg, arg),
    },
    forms !== undefined && {
      label: 'a type of TPU',
      key: 'type',
      isSet: false,
      max: Infinity,
      // `v2-1` has the form of a type but is none. Labs use such names for TPUs, and then it means that TPU.
      matches: (arg) => isType(arg, forms) && (findTpu(line, arg) === undefined || parseAccelerator(arg) !== null),
      assign: (arg) => assignType(line, arg, arg),
    },
    takes.windows !== undefined && {
      label: 'the window',
      key: 'window',
      isSet: mostWindows === 1 && line.windows.length > 0,
      max: mostWindows,
      matches: (arg) => isNumber(arg) || (mostWindows > 1 && /^\d+(,\d+)+$/.test(arg)),
      assign: (arg) => assignWindows(line, arg, arg),
    },
    firstNumber !== undefined && {
      label: `the ${firstNumber.summary}`,
      key: firstNumber.name,
      isSet: numbers.every(({ name }) => line.numbers.has(name)),
      max: numbers.length,
      matches: isNumber,
      assign(arg) {
        const next = numbers.find(({ name }) => !line.numbers.has(name));
        if (next === undefined) addProblem(line, `Unexpected number \`${arg}\`.`);
        else line.numbers.set(next.name, Number(arg));
      },
    },
  ];
  return kinds.filter((kind) => kind !== false);
}

function assignTexts(line: ParseState, open: readonly TpuArgument[], bare: readonly string[]): void {
  const left = [...bare];
  const slots = [...open];
  // Arguments with a pattern first. For the others only the order counts.
  for (const slot of open) {
    const at = left.findIndex((arg) => slot.pattern?.test(arg) === true);
    if (at < 0) continue;
    line.texts.set(slot.name, left[at] ?? '');
    left.splice(at, 1);
    slots.splice(slots.indexOf(slot), 1);
  }
  for (const [index, arg] of left.entries()) {
    const slot = slots[index];
    if (slot !== undefined) line.texts.set(slot.name, arg);
    else addProblem(line, unexpectedArgumentMessage(line, arg));
  }
}

function maxCount(count: Count | undefined): number {
  return count === 'one' || count === 'optional' ? 1 : Infinity;
}

function isNumber(arg: string): boolean {
  return /^\d{1,9}$/.test(arg);
}
