// Parses a line of `tpu`. Arguments may be in any order: each is recognized as a `key=value`, a flag, a user, a TPU, a
// type, a number or another argument. An argument with two meanings or none is a problem; nothing is guessed or
// ignored.

import { exitCode, JobmanError, usageError } from '../../app/errors.ts';
import { didYouMean } from '../../catalogue/did-you-mean.ts';
import { acceleratorFromName, findTpuBySuffix, type LabTpu, parseAccelerator } from '../../lab/tpus.ts';
import { parseCount } from '../parse.ts';
import { formatUnknownCommand, formatUnknownFlag, withReason } from '../scan.ts';
import type { Count, KnownNames, TpuArgument, TpuRow, ParsedArguments } from './command.ts';

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
    throw usageError(`${verbs} are both commands. Put the command first.`);
  }
  const names = table.filter(({ hidden }) => !hidden).flatMap((one) => one.names);
  throw usageError(formatUnknownCommand(first, names), ['See `tpu help`.']);
}

export const windowKeys: readonly string[] = ['window', 'windows', 'w'];

interface Slot<Value> {
  /** With its article, for messages: `the user`. */
  readonly label: string;
  /** Its names in `key=value`; the first one makes the meaning unambiguous. */
  readonly keys: readonly string[];
  readonly max: number;
  readonly values: Value[];
  /** Throws an Error for an unknown name or an invalid value. */
  readonly read: (text: string, key?: string) => Value;
}

interface Line {
  readonly row: TpuRow;
  readonly known: KnownNames;
  readonly problems: JobmanError[];
  readonly user: Slot<string>;
  readonly tpu: Slot<LabTpu>;
  readonly types: Slot<string>;
  readonly windows: Slot<number>;
  readonly numbers: ReadonlyMap<string, Slot<number>>;
  readonly texts: ReadonlyMap<string, Slot<string>>;
  readonly keys: ReadonlyMap<string, Slot<string>>;
  readonly configs: Map<string, Slot<string>>;
  readonly flags: Set<string>;
  readonly letters: Set<string>;
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
  const [first, ...others] = line.problems.length > 0 || isRaw ? line.problems : missingArguments(line);
  if (first !== undefined) {
    const isMissing = [first, ...others].every(({ code }) => code === exitCode.notFound);
    throw new JobmanError(first.message, isMissing ? exitCode.notFound : exitCode.usage, [
      ...others.map(({ message }) => message),
      `See \`tpu help ${verb}\`.`,
    ]);
  }
  const valuesOf = <Value>(slots: ReadonlyMap<string, Slot<Value>>): [string, Value][] =>
    [...slots].flatMap(([name, { values }]) => values.map((value): [string, Value] => [name, value]));
  return {
    verb,
    raw: isRaw ? typed : [],
    user: line.user.values[0] ?? null,
    tpu: line.tpu.values[0] ?? null,
    types: line.types.values,
    windows: line.windows.values,
    numbers: Object.fromEntries(valuesOf(line.numbers)),
    texts: Object.fromEntries(valuesOf(line.texts)),
    keys: Object.fromEntries(valuesOf(line.keys)),
    configs: valuesOf(line.configs),
    flags: line.flags,
    letters: [...line.letters].join(''),
  };
}

function emptyLine(row: TpuRow, known: KnownNames): Line {
  const { takes, args } = row;
  const { types = 'accelerators' } = takes;
  const argumentSlots = <Value>(isNumber: boolean, read: Slot<Value>['read']): ReadonlyMap<string, Slot<Value>> =>
    new Map(
      args
        .filter(({ number = false }) => number === isNumber)
        .map(({ name, summary }) => [name, newSlot(`the ${summary}`, [name], 1, read)]),
    );
  return {
    row,
    known,
    problems: [],
    user: newSlot('the user', takes.user === undefined ? [] : ['user', 'id'], 1, (text, key) =>
      key === 'id' ? readUserId(known, text) : readUser(known, text),
    ),
    tpu: newSlot('the TPU', takes.tpu === undefined ? [] : ['tpu', 'ka'], maxCount(takes.tpu), (name) =>
      readTpu(known, name),
    ),
    types: newSlot('a type of TPU', takes.types === undefined ? [] : ['type'], Infinity, (text) => {
      if (isType(text, types)) return text;
      throw usageError(`\`${text}\` is not a TPU type such as v2-32.`);
    }),
    windows: newSlot('the window', takes.windows === undefined ? [] : windowKeys, maxCount(takes.windows), (text) => {
      if (isNumber(text)) return Number(text);
      throw usageError(`\`${text}\` is not a window number.`);
    }),
    numbers: argumentSlots(true, parseCount),
    texts: argumentSlots(false, String),
    keys: new Map(
      Object.entries(takes.keys ?? {}).map(([name, { also = [], parse }]) => {
        const forms = also.filter((form) => !form.startsWith('-'));
        return [name, newSlot(name, [name, ...forms], 1, (text) => String(parse(text)))];
      }),
    ),
    configs: new Map(),
    flags: new Set(),
    letters: new Set(),
  };
}

function newSlot<Value>(label: string, keys: readonly string[], max: number, read: Slot<Value>['read']): Slot<Value> {
  return { label, keys, max, values: [], read };
}

function slotsOf({ user, tpu, types, windows, numbers, texts, keys }: Line): readonly Slot<unknown>[] {
  return [...keys.values(), ...numbers.values(), ...texts.values(), user, tpu, types, windows];
}

function findSlot(line: Line, key: string): Slot<unknown> | undefined {
  return slotsOf(line).find(({ keys }) => keys.includes(key));
}

export function acceptedKeys(row: TpuRow): readonly string[] {
  const line = emptyLine(row, { users: [], tpus: [], tpuAliases: new Map() });
  return slotsOf(line).flatMap(({ keys }) => keys);
}

const windowFlags: readonly string[] = ['-w', '-window', '-windows', '--window', '--windows'];

/** Reads pairs and flags, and then the other arguments. After `--` nothing is a flag. */
function readLine(line: Line, typed: readonly string[]): void {
  const bare: string[] = [];
  const { takes } = line.row;
  let mayBeFlag = true;
  for (let at = 0; at < typed.length; at += 1) {
    const arg = typed[at] ?? '';
    if (mayBeFlag && arg === '--') {
      mayBeFlag = false;
      continue;
    }
    const [key] =
      takes.windows !== undefined && windowFlags.includes(arg)
        ? ['window']
        : (Object.entries(takes.keys ?? {}).find(([, { also }]) => arg.startsWith('-') && also?.includes(arg)) ?? []);
    if (mayBeFlag && key !== undefined) {
      at += 1;
      const value = typed[at];
      if (value === undefined) addProblem(line, `\`${arg}\` needs a value.`);
      else assignPair(line, key, value, `${arg} ${value}`);
    } else if (!readPair(line, arg) && !(mayBeFlag && readFlag(line, arg))) bare.push(arg);
  }
  assignBare(line, bare);
}

/** Splits a `key=value` at the first equals sign. An argument that begins like a path is not a pair. */
function readPair(line: Line, arg: string): boolean {
  const [, dashes = '', key = '', value = ''] = /^(-{0,2})([^\s=/.~-][^\s=/]*)=(.*)$/s.exec(arg) ?? [];
  if (key === '') return false;
  // `-w=101` equals `w=101`. Configs may be written as scripts receive them: `--config.lr=0.1`.
  if (dashes !== '' && findSlot(line, key) === undefined && line.row.takes.configs !== true) return false;
  assignPair(line, key, value, arg);
  return true;
}

function readFlag(line: Line, arg: string): boolean {
  const { flags, takes } = line.row;
  if (!/^-./.test(arg)) return false;
  const typedName = arg.replace(/^--?/, '');
  const found = Object.entries(flags).find(([name, { also = [] }]) => name === typedName || also.includes(typedName));
  const letters = arg.startsWith('--') ? [] : typedName.split('');
  if (found !== undefined) line.flags.add(found[0]);
  else if (letters.length > 0 && letters.every((letter) => takes.letters?.includes(letter)))
    for (const letter of letters) line.letters.add(letter);
  else {
    const near = didYouMean(
      typedName,
      Object.entries(flags).flatMap(([name, { also = [] }]) => [name, ...also]),
    );
    addProblem(line, formatUnknownFlag(arg, near === undefined ? undefined : `-${near}`));
  }
  return true;
}

/** True for a type such as `v2-32` or `v5e-8`. A family needs only the form: `v2`, `v234`, `v*`, `v3+`. */
function isType(text: string, forms: 'accelerators' | 'families'): boolean {
  return parseAccelerator(text) !== null || (forms === 'families' && /^v(\*|\d+[a-z]*\+?)(-\d+)?$/.test(text));
}

function addProblem(line: Line, message: string): void {
  line.problems.push(usageError(message));
}

function assignPair(line: Line, key: string, value: string, typed: string): void {
  const { takes } = line.row;
  const slot = findSlot(line, key);
  if (slot === undefined && takes.configs === true) {
    const config = line.configs.get(key) ?? newSlot(key, [key], 1, String);
    line.configs.set(key, config);
    fill(line, config, value, typed);
  } else if (slot === undefined) addProblem(line, unknownKeyMessage(line, key, typed));
  else if (value === '') addProblem(line, `\`${typed}\` has no value.`);
  else if (slot === line.windows) for (const one of value.split(',')) fill(line, slot, one, typed);
  else if (
    slot === line.tpu &&
    findTpu(line.known, value) === undefined &&
    takes.types !== undefined &&
    isType(value, takes.types)
  )
    fill(line, line.types, value, typed);
  else fill(line, slot, value, typed, key);
}

/** A second, different value is a problem. The same value twice is allowed. */
function fill<Value>(
  line: Line,
  { label, values, max, read }: Slot<Value>,
  text: string,
  typed = text,
  key?: string,
): void {
  let value: Value;
  try {
    value = read(text, key);
  } catch (error) {
    line.problems.push(error instanceof JobmanError ? error : usageError(withReason(`\`${typed}\``, error)));
    return;
  }
  if (values.includes(value)) return;
  const [first] = values;
  const shown = typeof first === 'object' && first !== null && 'name' in first ? first.name : first;
  if (values.length < max) values.push(value);
  else addProblem(line, `\`${typed}\`: ${label} is already ${String(shown)}.`);
}

interface BareKind extends Pick<Slot<unknown>, 'label' | 'keys' | 'max'> {
  readonly isSet: boolean;
  matches(text: string): boolean;
  assign(text: string): void;
}

/** Two possible kinds of an argument, or two values for one kind while another argument is open, are a problem. */
function assignBare(line: Line, bare: readonly string[]): void {
  const open = line.row.args.filter(({ name }) => line.texts.get(name)?.values.length === 0);
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
        `\`${arg}\` may be ${kind.label} or ${other.label}. Write ${kind.keys[0]}=${arg} or ${other.keys[0]}=${arg}.`,
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
        `${either} may be ${kind.label} or the ${slot.summary}. Write ${kind.keys[0]}=${arg} or ${slot.name}=${arg}.`,
      );
    } else for (const arg of found) kind.assign(arg);
  }
  assignTexts(line, open, rest);
}

function bareKinds(line: Line): readonly BareKind[] {
  const { known, row, user, tpu, types, windows } = line;
  const { types: forms } = row.takes;
  const isUsed = (text: string): boolean => findTpu(known, text) !== undefined;
  const numbers = [...line.numbers.values()];
  const kindOf = <Value>(slot: Slot<Value>, matches: BareKind['matches']): BareKind => ({
    ...slot,
    isSet: slot.values.length >= slot.max,
    matches,
    assign: (text) => fill(line, slot, text),
  });
  const kinds: BareKind[] = [
    kindOf(user, (text) => findUser(known, text) !== undefined),
    kindOf(tpu, isUsed),
    // `v2-1` has the form of a type but is none. Labs use such names for TPUs, and then it means that TPU.
    kindOf(
      types,
      (text) => isType(text, forms ?? 'accelerators') && (!isUsed(text) || parseAccelerator(text) !== null),
    ),
    {
      ...kindOf(windows, (text) => isNumber(text) || (windows.max > 1 && /^\d+(,\d+)+$/.test(text))),
      assign: (text) => text.split(',').forEach((one) => fill(line, windows, one)),
    },
    ...numbers.slice(0, 1).map((first): BareKind => ({
      ...first,
      max: numbers.length,
      isSet: numbers.every(({ values }) => values.length > 0),
      matches: isNumber,
      assign(text) {
        const next = numbers.find(({ values }) => values.length === 0);
        if (next === undefined) addProblem(line, `Unexpected number \`${text}\`.`);
        else next.values.push(Number(text));
      },
    })),
  ];
  return kinds.filter(({ keys }) => keys.length > 0);
}

function assignTexts(line: Line, open: readonly TpuArgument[], bare: readonly string[]): void {
  const left = [...bare];
  const slots = [...open];
  const assign = ({ name }: TpuArgument, text: string): unknown => line.texts.get(name)?.values.push(text);
  // Arguments with a pattern first. For the others only the order counts.
  for (const slot of open) {
    const at = left.findIndex((arg) => slot.pattern?.test(arg) === true);
    if (at < 0) continue;
    assign(slot, left[at] ?? '');
    left.splice(at, 1);
    slots.splice(slots.indexOf(slot), 1);
  }
  for (const [index, arg] of left.entries()) {
    const slot = slots[index];
    if (slot !== undefined) assign(slot, arg);
    else line.problems.push(unexpectedArgumentError(line, arg));
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

function readUserId({ users }: KnownNames, text: string): string {
  const found = users.find(({ id }) => String(id) === text);
  if (found !== undefined) return found.name;
  throw new JobmanError(`There is no user with the id ${text}. \`tpu list-users\` shows them.`, exitCode.notFound);
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
  const messages: string[] = [];
  const isMissing = (count: Count | undefined, { values }: Slot<unknown>): boolean =>
    (count === 'one' || count === 'some') && values.length === 0;
  if (isMissing(row.takes.tpu, tpu)) messages.push('Which TPU? Give its alias or full name; `tpu list` shows them.');
  if (isMissing(row.takes.windows, windows)) messages.push('Which window? Give its number; `tpu check` shows them.');
  for (const { name, summary, needed, number } of row.args) {
    const isGiven = (numbers.get(name) ?? texts.get(name))?.values.length === 1;
    if (!needed || isGiven) continue;
    // The intended argument may have been read as the user.
    const [named] = user.values;
    const asUser = named === undefined || number ? '' : ` \`${named}\` was read as the user.`;
    messages.push(`The ${summary} is missing.${asUser} You can give it as ${name}=...`);
  }
  return messages.map((message) => usageError(message));
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

/** Exit code 3 if the argument may be the name of a user or TPU, otherwise 2. */
function unexpectedArgumentError({ row, known }: Line, arg: string): JobmanError {
  const { takes, args, flags } = row;
  const users = known.users.map(({ name }) => name);
  const near = suggestion(arg, [...users, ...tpuNames(known), ...Object.keys(flags)], '');
  const kinds = [
    ...(takes.user === undefined ? [] : ['user']),
    ...(takes.tpu === undefined ? [] : ['TPU']),
    ...(takes.types === undefined ? [] : ['type']),
    ...(takes.windows === undefined && !args.some(({ number }) => number) ? [] : ['number']),
  ];
  if (kinds.length === 0 || args.some(({ number }) => !number))
    return usageError(`Unexpected argument \`${arg}\`.${near}`);
  const alias = known.tpuAliases.get(arg);
  if (takes.tpu !== undefined && alias !== undefined) {
    return new JobmanError(danglingAliasMessage(arg, alias), exitCode.notFound);
  }
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
  const code = takes.user === undefined && takes.tpu === undefined ? exitCode.usage : exitCode.notFound;
  return new JobmanError(`Unknown ${list} \`${arg}\`.${near}${hint}${quotes}`, code);
}

function suggestion(arg: string, candidates: readonly string[], otherwise: string): string {
  const near = didYouMean(arg, candidates);
  return near === undefined ? otherwise : ` Did you mean ${near}?`;
}
