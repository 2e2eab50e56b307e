// Parses a line of `tpu`. Arguments may be in any order: each is recognized as a `key=value`, a flag, a user, a TPU, a
// type, a number or another argument. An argument with two meanings or none is a problem; nothing is guessed or
// ignored.

import { exitCode, JobmanError } from '../../app/errors.ts';
import { didYouMean } from '../../catalogue/did-you-mean.ts';
import { acceleratorFromName, findTpuBySuffix, type LabTpu, parseAccelerator } from '../../lab/tpus.ts';
import { parseCount } from '../parse.ts';
import { formatUnknownCommand, withReason } from '../scan.ts';
import type { Count, KnownNames, TpuArgument, TpuRow, ParsedArguments } from './command.ts';
import { acceptedKeys, tokenize, windowKeys } from './tokenize.ts';

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

/** Throws JobmanError with all problems of the line: (3) if every problem is an unknown name, otherwise (2). */
export function parseArguments(
  row: TpuRow,
  verb: string,
  typed: readonly string[],
  known: KnownNames,
): ParsedArguments {
  const isRaw = row.takes.raw === true;
  const line = emptyLine(row, known);
  if (!isRaw) readLine(line, typed);
  // Another problem may be the reason for a missing argument.
  const [first, ...others] = line.problems.length > 0 ? line.problems : isRaw ? [] : missingArguments(line);
  if (first !== undefined) {
    const isMissing = [first, ...others].every(({ code }) => code === exitCode.notFound);
    throw new JobmanError(first.message, isMissing ? exitCode.notFound : exitCode.usage, [
      ...others.map(({ message }) => message),
      `See \`tpu help ${verb}\`.`,
    ]);
  }
  const { user, tpu, types, windows, numbers, texts, keys, configs, flags, letters } = line;
  return {
    verb,
    raw: isRaw ? typed : [],
    user: user.values[0] ?? null,
    tpu: tpu.values[0] ?? null,
    types: types.values,
    windows: windows.values,
    numbers: Object.fromEntries(numbers),
    texts: Object.fromEntries(texts),
    keys: Object.fromEntries(keys),
    configs: [...configs],
    flags,
    letters: [...letters].join(''),
  };
}

interface Slot<Value> {
  /** With its article, for messages: `the user`. */
  readonly label: string;
  /** A key that makes the meaning unambiguous. */
  readonly key: string;
  readonly max: number;
  readonly values: Value[];
  /** Throws JobmanError for an unknown name or an invalid value. */
  read(text: string): Value;
}

interface Line {
  readonly row: TpuRow;
  readonly known: KnownNames;
  readonly problems: JobmanError[];
  readonly user: Slot<string>;
  readonly tpu: Slot<LabTpu>;
  readonly types: Slot<string>;
  readonly windows: Slot<number>;
  readonly numbers: Map<string, number>;
  readonly texts: Map<string, string>;
  readonly keys: Map<string, string>;
  readonly configs: Map<string, string>;
  readonly flags: Set<string>;
  readonly letters: Set<string>;
}

function emptyLine(row: TpuRow, known: KnownNames): Line {
  const { tpu, types = 'accelerators', windows } = row.takes;
  return {
    row,
    known,
    problems: [],
    user: { label: 'the user', key: 'user', max: 1, values: [], read: (name) => readUser(known, name) },
    tpu: { label: 'the TPU', key: 'tpu', max: maxCount(tpu), values: [], read: (name) => readTpu(known, name) },
    types: {
      label: 'a type of TPU',
      key: 'type',
      max: Infinity,
      values: [],
      read(text) {
        if (isType(text, types)) return text;
        throw new JobmanError(`\`${text}\` is not a TPU type such as v2-32.`, exitCode.usage);
      },
    },
    windows: {
      label: 'the window',
      key: 'window',
      max: maxCount(windows),
      values: [],
      read(text) {
        if (isNumber(text)) return Number(text);
        throw new JobmanError(`\`${text}\` is not a window number.`, exitCode.usage);
      },
    },
    numbers: new Map(),
    texts: new Map(),
    keys: new Map(),
    configs: new Map(),
    flags: new Set(),
    letters: new Set(),
  };
}

function readLine(line: Line, typed: readonly string[]): void {
  const bare: string[] = [];
  for (const token of tokenize(line.row, typed)) {
    if (token.form === 'pair') assignPair(line, token.key, token.value, token.typed);
    else if (token.form === 'flag') line.flags.add(token.name);
    else if (token.form === 'letters') for (const letter of token.letters) line.letters.add(letter);
    else if (token.form === 'bare') bare.push(token.text);
    else addProblem(line, token.message);
  }
  assignBare(line, bare);
}

/** True for a type such as `v2-32` or `v5e-8`. A family needs only the form: `v2`, `v234`, `v*`, `v3+`. */
function isType(text: string, forms: 'accelerators' | 'families'): boolean {
  return parseAccelerator(text) !== null || (forms === 'families' && /^v(\*|\d+[a-z]*\+?)(-\d+)?$/.test(text));
}

function addProblem(line: Line, message: string, code: number = exitCode.usage): void {
  line.problems.push(new JobmanError(message, code));
}

function take<Value>(line: Line, typed: string, read: () => Value, store: (value: Value) => void): void {
  let value;
  try {
    value = read();
  } catch (error) {
    if (error instanceof JobmanError) line.problems.push(error);
    else addProblem(line, withReason(`\`${typed}\``, error));
    return;
  }
  store(value);
}

function assignPair(line: Line, key: string, value: string, typed: string): void {
  const { takes, args } = line.row;
  const own = Object.entries(takes.keys ?? {}).find(([name, { also = [] }]) => name === key || also.includes(key));
  const argument = args.find(({ name }) => name === key);
  if (!acceptedKeys(line.row).includes(key)) {
    if (takes.configs === true) setOnce(line, line.configs, key, value, typed);
    else addProblem(line, unknownKeyMessage(line, key, typed));
  } else if (value === '') addProblem(line, `\`${typed}\` has no value.`);
  else if (own !== undefined) {
    const [name, { parse }] = own;
    take(
      line,
      typed,
      () => String(parse(value)),
      (read) => setOnce(line, line.keys, name, read, typed),
    );
  } else if (argument?.number)
    take(
      line,
      typed,
      () => parseCount(value),
      (read) => setOnce(line, line.numbers, key, read, typed),
    );
  else if (argument !== undefined) setOnce(line, line.texts, key, value, typed);
  else if (key === 'user') fill(line, line.user, value, typed);
  else if (key === 'id') {
    const found = line.known.users.find(({ id }) => isNumber(value) && id === Number(value));
    if (found !== undefined) fill(line, line.user, found.name, typed);
    else addProblem(line, `There is no user with the id ${value}. \`tpu list-users\` shows them.`, exitCode.notFound);
  } else if (key === 'type') fill(line, line.types, value, typed);
  else if (windowKeys.includes(key)) for (const one of value.split(',')) fill(line, line.windows, one, typed);
  else if (takes.types !== undefined && findTpu(line.known, value) === undefined && isType(value, takes.types))
    fill(line, line.types, value, typed);
  else fill(line, line.tpu, value, typed);
}

/** A second, different value is a problem. The same value twice is allowed. */
function setOnce<Value>(line: Line, into: Map<string, Value>, name: string, value: Value, typed: string): void {
  const before = into.get(name);
  if (before !== undefined && before !== value)
    addProblem(line, `\`${typed}\`: ${name} is already \`${String(before)}\`.`);
  else into.set(name, value);
}

function fill<Value>(line: Line, slot: Slot<Value>, text: string, typed = text): void {
  const { label, values, max } = slot;
  take(
    line,
    typed,
    () => slot.read(text),
    (value) => {
      if (values.includes(value)) return;
      const [first] = values;
      const shown = typeof first === 'object' && first !== null && 'name' in first ? first.name : first;
      if (values.length < max) values.push(value);
      else addProblem(line, `\`${typed}\`: ${label} is already ${String(shown)}.`);
    },
  );
}

interface BareKind extends Pick<Slot<unknown>, 'label' | 'key' | 'max'> {
  readonly isSet: boolean;
  matches(text: string): boolean;
  assign(text: string): void;
}

/** Two possible kinds of an argument, or two values for one kind while another argument is open, are a problem. */
function assignBare(line: Line, bare: readonly string[]): void {
  const open = line.row.args.filter(({ name, number }) => number !== true && !line.texts.has(name));
  // If a key already set this kind, a bare value may be an argument.
  const kinds = bareKinds(line).filter(({ isSet }) => !(isSet && open.length > 0));
  const rest: string[] = [];
  const claimed = new Map<BareKind, string[]>();
  for (const arg of bare) {
    const [kind, other] = kinds.filter((one) => one.matches(arg));
    if (arg === '') addProblem(line, 'An argument is empty.');
    else if (kind !== undefined && other !== undefined)
      addProblem(
        line,
        `\`${arg}\` may be ${kind.label} or ${other.label}. Write ${kind.key}=${arg} or ${other.key}=${arg}.`,
      );
    else if (kind === undefined) rest.push(arg);
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

function bareKinds(line: Line): readonly BareKind[] {
  const { known, row, user, tpu, types, windows } = line;
  const { takes } = row;
  const { types: forms } = takes;
  const isUsed = (text: string): boolean => findTpu(known, text) !== undefined;
  const kinds: BareKind[] = [];
  const addKind = <Value>(slot: Slot<Value>, matches: BareKind['matches'], isSet = slot.values.length > 0): number =>
    kinds.push({ ...slot, isSet, matches, assign: (text) => fill(line, slot, text) });
  if (takes.user !== undefined) addKind(user, (text) => findUser(known, text) !== undefined);
  if (takes.tpu !== undefined) addKind(tpu, isUsed);
  // `v2-1` has the form of a type but is none. Labs use such names for TPUs, and then it means that TPU.
  if (forms !== undefined)
    addKind(types, (text) => isType(text, forms) && (!isUsed(text) || parseAccelerator(text) !== null), false);
  if (takes.windows !== undefined) {
    const hasOne = windows.max === 1;
    kinds.push({
      ...windows,
      isSet: hasOne && windows.values.length > 0,
      matches: (text) => isNumber(text) || (!hasOne && /^\d+(,\d+)+$/.test(text)),
      assign: (text) => text.split(',').forEach((one) => fill(line, windows, one)),
    });
  }
  const numbers = row.args.filter(({ number }) => number);
  const [first] = numbers;
  const next = (): TpuArgument | undefined => numbers.find(({ name }) => !line.numbers.has(name));
  if (first !== undefined)
    kinds.push({
      label: `the ${first.summary}`,
      key: first.name,
      max: numbers.length,
      isSet: next() === undefined,
      matches: isNumber,
      assign(text) {
        const open = next();
        if (open === undefined) addProblem(line, `Unexpected number \`${text}\`.`);
        else line.numbers.set(open.name, Number(text));
      },
    });
  return kinds;
}

function assignTexts(line: Line, open: readonly TpuArgument[], bare: readonly string[]): void {
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

function isNumber(text: string): boolean {
  return /^\d{1,9}$/.test(text);
}

function findUser({ users }: KnownNames, text: string): string | undefined {
  const name = text.normalize('NFC');
  return users.find((user) => user.name === name)?.name;
}

function readUser(known: KnownNames, name: string): string {
  const found = findUser(known, name);
  if (found !== undefined) return found;
  const names = known.users.map((user) => user.name);
  const hint = suggestion(name, names, ' `tpu list-users` shows them.');
  throw new JobmanError(`There is no user ${name}.${hint}`, exitCode.notFound);
}

/** The TPU; its full name if only an alias knows it; undefined if it is unknown. */
function findTpu({ tpus, tpuAliases }: KnownNames, text: string): LabTpu | string | undefined {
  const name = tpuAliases.get(text) ?? text;
  return tpus.find((tpu) => tpu.name === name) ?? tpuAliases.get(text) ?? findTpuBySuffix(tpus, text);
}

function readTpu(known: KnownNames, name: string): LabTpu {
  const found = findTpu(known, name);
  if (typeof found === 'object') return found;
  if (found !== undefined) throw new JobmanError(danglingAliasMessage(name, found), exitCode.notFound);
  const hint = suggestion(name, tpuNames(known), ' `tpu list` shows all TPUs, `tpu register` adds one.');
  throw new JobmanError(`There is no TPU ${name}.${hint}`, exitCode.notFound);
}

function tpuNames({ tpus, tpuAliases }: KnownNames): readonly string[] {
  return [...tpuAliases.keys(), ...tpus.map(({ name }) => name)];
}

function missingArguments({ row, user, tpu, windows, numbers, texts }: Line): readonly JobmanError[] {
  const { takes, args } = row;
  const messages: string[] = [];
  const isNeeded = (count: Count | undefined): boolean => count === 'one' || count === 'some';
  if (isNeeded(takes.tpu) && tpu.values.length === 0)
    messages.push('Which TPU? Give its alias or full name; `tpu list` shows them.');
  if (isNeeded(takes.windows) && windows.values.length === 0)
    messages.push('Which window? Give its number; `tpu check` shows them.');
  for (const { name, summary, needed, number } of args) {
    if (!needed || numbers.has(name) || texts.has(name)) continue;
    // The intended argument may have been read as the user.
    const [named] = user.values;
    const asUser = named === undefined || number ? '' : ` \`${named}\` was read as the user.`;
    messages.push(`The ${summary} is missing.${asUser} You can give it as ${name}=...`);
  }
  return messages.map((message) => new JobmanError(message, exitCode.usage));
}

function unknownKeyMessage({ row }: Line, key: string, typed: string): string {
  const keys = acceptedKeys(row);
  const others =
    keys.length === 0 ? ' This command has no keys.' : ` Keys: ${keys.map((one) => `${one}=`).join(', ')}.`;
  const near = didYouMean(key, keys);
  return `Unknown key in \`${typed}\`.${near === undefined ? others : ` Did you mean \`${near}=\`?`}`;
}

function danglingAliasMessage(alias: string, name: string): string {
  return `The TPU ${name} of the alias ${alias} is not registered; \`tpu register ${name}\` adds it.`;
}

function unexpectedArgumentMessage({ row, known }: Line, arg: string): string {
  const { takes, args, flags } = row;
  const users = takes.user === undefined ? [] : known.users.map(({ name }) => name);
  const tpus = takes.tpu === undefined ? [] : tpuNames(known);
  const near = suggestion(arg, [...users, ...tpus, ...Object.keys(flags)], '');
  const kinds = [
    ...(takes.user === undefined ? [] : ['user']),
    ...(takes.tpu === undefined ? [] : ['TPU']),
    ...(takes.types === undefined ? [] : ['type']),
    ...(takes.windows === undefined && !args.some(({ number }) => number) ? [] : ['number']),
  ];
  if (kinds.length === 0 || args.some(({ number }) => !number)) return `Unexpected argument \`${arg}\`.${near}`;
  const alias = known.tpuAliases.get(arg);
  if (takes.tpu !== undefined && alias !== undefined) return danglingAliasMessage(arg, alias);
  const quotes = takes.types === 'families' ? " Put a pattern such as v* in quotes: 'v*'." : '';
  const last = kinds.pop() ?? '';
  const list = kinds.length === 0 ? last : `${kinds.join(', ')} or ${last}`;
  // An argument that contains a type is most likely a TPU.
  const hint =
    takes.tpu !== undefined && acceleratorFromName(arg) !== null
      ? ' `tpu list` shows all TPUs, `tpu register` adds one.'
      : takes.user !== undefined && known.users.length === 0
        ? ' There are no users yet; `tpu add-user` adds one.'
        : '';
  return `Unknown ${list} \`${arg}\`.${near}${hint}${quotes}`;
}

function suggestion(arg: string, candidates: readonly string[], otherwise: string): string {
  const near = didYouMean(arg, candidates);
  return near === undefined ? otherwise : ` Did you mean ${near}?`;
}
