// Reads a line of `tpu`. Its words may stand in any order, so each is told by what it is: a `key=value`, a flag, a user, a TPU, a
// type, a number, else an argument. A word that could be two things, or none, is a problem: nothing is guessed or left out.

import { exitCode, JobmanError } from '../../app/errors.ts';
import { acceleratorCalled, type LabTpu } from '../../lab/tpus.ts';
import { parseCount } from '../parse.ts';
import { noCommandText, withReason } from '../scan.ts';
import type { Count, Known, TpuArgument, TpuRow, Words } from './command.ts';
import {
  keysOf,
  leftOver,
  type Line,
  lostAlias,
  missing,
  noKey,
  noTpu,
  noUser,
  type Piece,
  pieces,
  type Problem,
  tpuNamed,
  userNamed,
  windowKeys,
} from './line.ts';

/** The row that a line is for, with its other words. Throws JobmanError (2) where none of them is a command. */
export function findCommand<Row extends TpuRow>(
  table: readonly Row[],
  typed: readonly string[],
): { readonly row: Row; readonly verb: string; readonly rest: readonly string[] } {
  const rowOf = (word: string): Row | undefined => table.find(({ names }) => names.includes(word));
  const [first = ''] = typed;
  const row = rowOf(first);
  if (row !== undefined) return { row, verb: first, rest: typed.slice(1) };
  // `tpu ada check`: free order for this word, too, where only one of them can be it.
  const end = typed.indexOf('--');
  const found = typed.slice(0, end < 0 ? undefined : end).flatMap((word, at) => {
    const other = word.startsWith('-') ? undefined : rowOf(word);
    return other === undefined || other.hidden ? [] : [{ row: other, verb: word, at }];
  });
  const [only] = found;
  if (only !== undefined && found.length === 1) return { ...only, rest: typed.toSpliced(only.at, 1) };
  if (found.length > 1) {
    const verbs = found.map(({ verb }) => `\`${verb}\``).join(' and ');
    throw new JobmanError(`Which command: ${verbs} are both one. Say it first.`, exitCode.usage);
  }
  const names = table.filter(({ hidden }) => !hidden).flatMap((one) => one.names);
  throw new JobmanError(noCommandText(first, names), exitCode.usage, ['`tpu help` lists them.']);
}

/**
 * Reads the words behind `verb`. Throws JobmanError (2) with every problem of the line at once; (3) where all of them are names
 * that do not exist.
 */
export function readWords(row: TpuRow, verb: string, typed: readonly string[], known: Known): Words {
  const isRaw = row.takes.raw === true;
  const { words, problems } = meaningOf(row, isRaw ? [] : pieces(row, typed), known);
  const [first, ...others] = problems;
  if (first === undefined) return { ...words, verb, raw: isRaw ? typed : [] };
  const isMissing = problems.every(({ code }) => code === exitCode.notFound);
  throw new JobmanError(first.sentence, isMissing ? exitCode.notFound : exitCode.usage, [
    ...others.map(({ sentence }) => sentence),
    `\`tpu help ${verb}\` tells how it is used.`,
  ]);
}

function meaningOf(
  row: TpuRow,
  pieces: readonly Piece[],
  known: Known,
): { readonly words: Omit<Words, 'verb' | 'raw'>; readonly problems: readonly Problem[] } {
  const line: Line = {
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
  const words: string[] = [];
  for (const piece of pieces) {
    if (piece.form === 'pair') takePair(line, piece.key, piece.value, piece.typed);
    else if (piece.form === 'flag') line.flags.add(piece.name);
    else if (piece.form === 'letters') line.letters = [...new Set(line.letters + piece.letters)].join('');
    else if (piece.form === 'bare') words.push(piece.word);
    else trouble(line, piece.sentence);
  }
  takeBare(line, words);
  const { user, tpu, types, windows, flags, letters } = line;
  return {
    words: {
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
    // Another problem may be the reason for a missing word.
    problems: line.problems.length > 0 ? line.problems : missing(line),
  };
}

/** True for a type, `v2-32` or `v5e-8`; of families the form is enough, and `v2`, `v234`, `v*`, `v3+` are some. */
function isType(word: string, forms: 'accelerators' | 'families'): boolean {
  return acceleratorCalled(word) !== null || (forms === 'families' && /^v(\*|\d+[a-z]*\+?)(-\d+)?$/.test(word));
}

function trouble(line: Line, sentence: string, code: number = exitCode.usage): void {
  line.problems.push({ sentence, code });
}

function takePair(line: Line, typedKey: string, value: string, typed: string): void {
  const { takes, args } = line.row;
  const own = Object.entries(takes.keys ?? {}).find(
    ([name, { also = [] }]) => name === typedKey || also.includes(typedKey),
  );
  const argument = args.find(({ name }) => name === typedKey);
  if (!keysOf(line.row).includes(typedKey)) {
    if (takes.configs === true) once(line, line.configs, typedKey, value, typed);
    else trouble(line, noKey(line, typedKey, typed));
  } else if (value === '') trouble(line, `Nothing stands behind the equals sign of \`${typed}\`.`);
  else if (own !== undefined)
    parsed(line, own[1].parse, value, typed, (read) => once(line, line.keys, own[0], String(read), typed));
  else if (argument?.number)
    parsed(line, parseCount, value, typed, (read) => once(line, line.numbers, argument.name, read, typed));
  else if (argument !== undefined) once(line, line.texts, argument.name, value, typed);
  else if (typedKey === 'user') takeUser(line, value, typed);
  else if (typedKey === 'id') {
    const found = line.known.users.find(({ id }) => isNumber(value) && id === Number(value));
    if (found !== undefined) setUser(line, found.name, typed);
    else trouble(line, `There is no user with the id ${value}. \`tpu list-users\` shows them.`, exitCode.notFound);
  } else if (typedKey === 'type') takeType(line, value, typed);
  else if (windowKeys.includes(typedKey)) takeWindows(line, value, typed);
  else takeTpu(line, value, typed);
}

function parsed<T>(
  line: Line,
  parse: (word: string) => T,
  value: string,
  typed: string,
  take: (read: T) => void,
): void {
  let read: T;
  try {
    read = parse(value);
  } catch (error) {
    trouble(line, withReason(`\`${typed}\``, error));
    return;
  }
  take(read);
}

/** The same said twice is one problem and no guess; said twice alike, it is once. */
function once<Value>(line: Line, into: Map<string, Value>, name: string, value: Value, typed: string): void {
  const before = into.get(name);
  if (before !== undefined && before !== value) {
    trouble(line, `\`${typed}\`: ${name} was said already, as \`${String(before)}\`.`);
  } else into.set(name, value);
}

function takeUser(line: Line, name: string, typed: string): void {
  const found = userNamed(line, name);
  if (found === undefined) trouble(line, noUser(line, name), exitCode.notFound);
  else setUser(line, found, typed);
}

function setUser(line: Line, name: string, typed: string): void {
  if (line.user !== null && line.user !== name) {
    trouble(line, `\`${typed}\`: the user was said already, as ${line.user}. Which of the two is it?`);
  } else line.user = name;
}

function takeTpu(line: Line, name: string, typed: string): void {
  const found = tpuNamed(line, name);
  const { types } = line.row.takes;
  if (typeof found === 'object') setTpu(line, found, typed);
  else if (found !== undefined) trouble(line, lostAlias(name, found), exitCode.notFound);
  else if (types !== undefined && isType(name, types)) line.types.push(name);
  else trouble(line, noTpu(line, name), exitCode.notFound);
}

function setTpu(line: Line, tpu: LabTpu, typed: string): void {
  if (line.tpu !== null && line.tpu.name !== tpu.name) {
    trouble(line, `\`${typed}\`: the TPU was said already, as ${line.tpu.name}. Which of the two is it?`);
  } else line.tpu = tpu;
}

function takeType(line: Line, value: string, typed: string): void {
  if (isType(value, line.row.takes.types ?? 'accelerators')) line.types.push(value);
  else trouble(line, `\`${typed}\`: that is no type of TPU, such as v2-32.`);
}

function takeWindows(line: Line, value: string, typed: string): void {
  for (const one of value.split(',')) {
    if (!isNumber(one)) trouble(line, `\`${typed}\`: the number of a window was expected.`);
    else setWindow(line, Number(one), typed);
  }
}

function setWindow(line: Line, window: number, typed: string): void {
  if (line.windows.includes(window)) return;
  const [first] = line.windows;
  if (first !== undefined && mostOf(line.row.takes.windows) === 1) {
    trouble(line, `\`${typed}\`: one window is enough, and ${first} was said already.`);
  } else line.windows.push(window);
}

interface Kind {
  /** With its article, for sentences: `the user`. */
  readonly called: string;
  /** The key behind which the word can mean nothing else. */
  readonly key: string;
  readonly isSaid: boolean;
  readonly most: number;
  has(word: string): boolean;
  take(word: string): void;
}

/**
 * Each word goes to the one kind that it can be. Two possible kinds are a problem, and so are two words for one place while
 * another place for words is open.
 */
function takeBare(line: Line, words: readonly string[]): void {
  const open = line.row.args.filter(({ name, number }) => number !== true && !line.texts.has(name));
  // A key has named it, so the other words may be arguments.
  const kinds = kindsOf(line).filter(({ isSaid }) => !(isSaid && open.length > 0));
  const rest: string[] = [];
  const claimed = new Map<Kind, string[]>();
  for (const word of words) {
    const [kind, other] = kinds.filter((one) => one.has(word));
    if (word === '') trouble(line, 'One of the words is empty.');
    else if (kind !== undefined && other !== undefined) {
      trouble(
        line,
        `\`${word}\` may be ${kind.called} or ${other.called}. Say which: ${kind.key}=${word} or ${other.key}=${word}.`,
      );
    } else if (kind === undefined) rest.push(word);
    else claimed.set(kind, [...(claimed.get(kind) ?? []), word]);
  }
  for (const [kind, found] of claimed) {
    const [slot] = open;
    // Of two words for one place, one may have been meant for an argument that is still open.
    if (found.length > kind.most && slot !== undefined && open.length > rest.length) {
      const either = [...new Set(found)].map((word) => `\`${word}\``).join(' and ');
      const [word = ''] = found;
      trouble(
        line,
        `${either} may be ${kind.called} or the ${slot.summary}. Say which: ${kind.key}=${word} or ${slot.name}=${word}.`,
      );
    } else for (const word of found) kind.take(word);
  }
  takeTexts(line, open, rest);
}

function kindsOf(line: Line): readonly Kind[] {
  const { takes, args } = line.row;
  const { types: forms } = takes;
  const mostWindows = mostOf(takes.windows);
  const numbers = args.filter(({ number }) => number);
  const [firstNumber] = numbers;
  const kinds: readonly (Kind | false)[] = [
    takes.user !== undefined && {
      called: 'the user',
      key: 'user',
      isSaid: line.user !== null,
      most: 1,
      has: (word) => userNamed(line, word) !== undefined,
      take: (word) => takeUser(line, word, word),
    },
    takes.tpu !== undefined && {
      called: 'the TPU',
      key: 'tpu',
      isSaid: line.tpu !== null,
      most: mostOf(takes.tpu),
      has: (word) => tpuNamed(line, word) !== undefined,
      take: (word) => takeTpu(line, word, word),
    },
    forms !== undefined && {
      called: 'a type of TPU',
      key: 'type',
      isSaid: false,
      most: Infinity,
      // `v2-1` has the form of a type and is none: labs call TPUs so, and then it is that TPU.
      has: (word) => isType(word, forms) && (tpuNamed(line, word) === undefined || acceleratorCalled(word) !== null),
      take: (word) => takeType(line, word, word),
    },
    takes.windows !== undefined && {
      called: 'the window',
      key: 'window',
      isSaid: mostWindows === 1 && line.windows.length > 0,
      most: mostWindows,
      has: (word) => isNumber(word) || (mostWindows > 1 && /^\d+(,\d+)+$/.test(word)),
      take: (word) => takeWindows(line, word, word),
    },
    firstNumber !== undefined && {
      called: `the ${firstNumber.summary}`,
      key: firstNumber.name,
      isSaid: numbers.every(({ name }) => line.numbers.has(name)),
      most: numbers.length,
      has: isNumber,
      take(word) {
        const next = numbers.find(({ name }) => !line.numbers.has(name));
        if (next === undefined) trouble(line, `\`${word}\` is one number too many.`);
        else line.numbers.set(next.name, Number(word));
      },
    },
  ];
  return kinds.filter((kind) => kind !== false);
}

function takeTexts(line: Line, open: readonly TpuArgument[], words: readonly string[]): void {
  const left = [...words];
  const slots = [...open];
  // Arguments with a form of their own first: then only the order of the others counts.
  for (const slot of open) {
    const at = left.findIndex((word) => slot.like?.test(word) === true);
    if (at < 0) continue;
    line.texts.set(slot.name, left[at] ?? '');
    left.splice(at, 1);
    slots.splice(slots.indexOf(slot), 1);
  }
  for (const [index, word] of left.entries()) {
    const slot = slots[index];
    if (slot !== undefined) line.texts.set(slot.name, word);
    else trouble(line, leftOver(line, word));
  }
}

function mostOf(count: Count | undefined): number {
  return count === 'one' || count === 'maybe one' ? 1 : Infinity;
}

function isNumber(word: string): boolean {
  return /^\d{1,9}$/.test(word);
}
