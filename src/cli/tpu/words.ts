// What the words behind a command of `tpu` mean. They may stand in any order, so each is told by what it is: a `key=value`, a
// flag, a user, a TPU, a type, a number; what is none of these is one of the command's own words. A word that could be two
// things, or none, is a problem: nothing is guessed, and nothing is left out silently.

import { exitCode, JobmanError } from '../../app/errors.ts';
import { didYouMean } from '../../catalogue/did-you-mean.ts';
import type { LabUser } from '../../lab/people.ts';
import { acceleratorCalled, acceleratorIn, tpuCalled } from '../../lab/names-of-tpus.ts';
import type { LabTpu } from '../../lab/tpus.ts';
import { yesOrNo } from '../../lab/user-settings.ts';
import type { Count, Flag, Key, Row, Takes, TextSlot } from './row.ts';

/** What words are told by. */
export interface Known {
  readonly users: readonly Pick<LabUser, 'name' | 'id'>[];
  readonly tpus: readonly LabTpu[];
  /** Full names by alias. */
  readonly tpuAliases: ReadonlyMap<string, string>;
}

/** A line, read. What the row of the command says is needed is there. */
export interface Words {
  /** The word of the command as it was typed. */
  readonly verb: string;
  /** The user that the line names; null where it names none, which is then whoever typed it. */
  readonly user: string | null;
  /** The TPU that the line names. */
  readonly tpu: LabTpu | null;
  /** Types of TPUs as they were typed: `v2-32`, `v*`. */
  readonly types: readonly string[];
  /** Numbers of windows, none twice. */
  readonly windows: readonly number[];
  readonly numbers: Readonly<Record<string, number>>;
  /** The command's own words, by the names of their slots. */
  readonly texts: Readonly<Record<string, string>>;
  /** The command's own keys. One of `yes or no` is `true` or `false`. */
  readonly keys: Readonly<Record<string, string>>;
  /** Every other `key=value`, in their order; keys as they were typed, without dashes. */
  readonly configs: readonly (readonly [key: string, value: string])[];
  readonly flags: ReadonlySet<string>;
  /** The letters of `-dsv`, none twice, in the order in which they were typed. */
  readonly letters: string;
  /** All words as they were typed, of a command that reads them itself; empty otherwise. */
  readonly raw: readonly string[];
}

/** The row that a line is for, with its other words. Throws JobmanError (2) where none of them is a command. */
export function findCommand(
  table: readonly Row[],
  typed: readonly string[],
): { readonly row: Row; readonly verb: string; readonly rest: readonly string[] } {
  const rowOf = (word: string): Row | undefined => table.find(({ words }) => words.includes(word));
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
    throw usage(`Which command: ${verbs} are both one. Say it first.`, []);
  }
  const shown = table.filter(({ hidden }) => !hidden).flatMap(({ words }) => words);
  const near = didYouMean(first, shown);
  const guess = near === undefined ? '' : ` Did you mean \`${near}\`?`;
  throw usage(`There is no command \`${first}\`.${guess}`, ['`tpu help` lists them.']);
}

/** Which of `known` is needed to read the words of this command; the rest may be empty. */
export function neededFor({ takes }: Row): { readonly users: boolean; readonly tpus: boolean } {
  return { users: takes.user !== undefined, tpus: takes.tpu !== undefined };
}

/**
 * Reads the words behind `verb`. Throws JobmanError (2) with every problem of the line at once; (3) where the one problem is
 * that who or what it names behind a key is not there.
 */
export function readWords(row: Row, verb: string, typed: readonly string[], known: Known): Words {
  if (row.takes.raw === true) return { ...nothing, verb, raw: typed };
  const line = emptyLine(row.takes, known);
  take(line, split(row.takes, typed));
  const { problems } = line;
  const missing = missingIn(line);
  const [first] = problems;
  if (first !== undefined || missing.length > 0) {
    const sentences = [...problems.map(({ sentence }) => sentence), ...missing];
    const code = problems.every((one) => one.code === exitCode.notFound) && first !== undefined ? first.code : 2;
    const [head = '', ...others] = sentences;
    throw new JobmanError(head, code, [...others, `\`tpu help ${verb}\` tells how it is used.`]);
  }
  return { ...wordsOf(line), verb };
}

/** A word of the command's own that its row says is needed. */
export function textOf(words: Words, name: string): string {
  const text = words.texts[name];
  if (text === undefined) throw new Error(`the row of \`${words.verb}\` does not say that ${name} is needed`);
  return text;
}

/** The same of a number. */
export function numberOf(words: Words, name: string): number {
  const number = words.numbers[name];
  if (number === undefined) throw new Error(`the row of \`${words.verb}\` does not say that ${name} is needed`);
  return number;
}

/** The same of the TPU. */
export function tpuOf(words: Words): LabTpu {
  if (words.tpu === null) throw new Error(`the row of \`${words.verb}\` does not say that a TPU is needed`);
  return words.tpu;
}

/** Whether a word is a type, `v2-32` or `v5e-8`; of families it has to have the form only, and `v2`, `v234`, `v*`, `v3+` are some. */
export function isType(word: string, forms: 'accelerators' | 'families'): boolean {
  return acceleratorCalled(word) !== null || (forms === 'families' && family.test(word));
}

const family = /^v(\*|\d+[a-z]*\+?)(-\d+)?$/;

const nothing: Omit<Words, 'verb'> = {
  user: null,
  tpu: null,
  types: [],
  windows: [],
  numbers: {},
  texts: {},
  keys: {},
  configs: [],
  flags: new Set(),
  letters: '',
  raw: [],
};

function usage(sentence: string, lines: readonly string[]): JobmanError {
  return new JobmanError(sentence, exitCode.usage, lines);
}

// ------------------------------------------------------------------------------------------ form

/** A word by its form alone. */
type Piece =
  | { readonly form: 'pair'; readonly key: string; readonly value: string; readonly typed: string }
  | { readonly form: 'flag'; readonly name: string }
  | { readonly form: 'letters'; readonly letters: string }
  | { readonly form: 'bare'; readonly word: string }
  | { readonly form: 'problem'; readonly sentence: string };

/** Keys that name a window, whatever the command. */
const windowKeys: readonly string[] = ['windows', 'window', 'w'];
const windowFlags: readonly string[] = ['-w', '-window', '-windows', '--window', '--windows'];

function split(takes: Takes, typed: readonly string[]): readonly Piece[] {
  const pieces: Piece[] = [];
  for (let at = 0; at < typed.length; at += 1) {
    const word = typed[at] ?? '';
    if (word === '--') return [...pieces, ...typed.slice(at + 1).map((one) => pairOf(takes, one) ?? bare(one))];
    const key = keyOfFlag(takes, word);
    if (key !== undefined) {
      at += 1;
      const value = typed[at];
      pieces.push(
        value === undefined
          ? { form: 'problem', sentence: `Nothing stands behind \`${word}\`.` }
          : { form: 'pair', key, value, typed: `${word} ${value}` },
      );
    } else pieces.push(pairOf(takes, word) ?? flagOf(takes, word) ?? bare(word));
  }
  return pieces;
}

function bare(word: string): Piece {
  return { form: 'bare', word };
}

/** The key whose value is the word after that flag. */
function keyOfFlag(takes: Takes, word: string): string | undefined {
  if (takes.windows !== undefined && windowFlags.includes(word)) return 'window';
  return Object.entries(takes.keys ?? {}).find(([, key]) => key.flags?.includes(word))?.[0];
}

/** A `key=value`, split at its first equals sign. What begins as a path does is none. */
function pairOf(takes: Takes, word: string): Piece | undefined {
  const [, dashes = '', key = '', value = ''] = /^(-{0,2})([^\s=/.~-][^\s=/]*)=(.*)$/s.exec(word) ?? [];
  if (key === '') return undefined;
  // `-w=101` is as good as `w=101`, and `--config.lr=0.1` as the scripts are told it.
  if (dashes !== '' && !isOwnKey(takes, key) && takes.configs !== true) return undefined;
  return { form: 'pair', key, value, typed: word };
}

function isOwnKey(takes: Takes, key: string): boolean {
  return keysOf(takes).includes(key);
}

/** All keys that a command takes. */
export function keysOf(takes: Takes): readonly string[] {
  const own = Object.entries(takes.keys ?? {}).flatMap(([name, { also = [] }]) => [name, ...also]);
  const slots = [...(takes.numbers ?? []), ...(takes.texts ?? [])].map(({ name }) => name);
  return [
    ...own,
    ...slots,
    ...(takes.user === undefined ? [] : ['user', 'id']),
    ...(takes.tpu === undefined ? [] : ['tpu', 'ka']),
    ...(takes.types === undefined ? [] : ['type']),
    ...(takes.windows === undefined ? [] : windowKeys),
  ];
}

function flagOf(takes: Takes, word: string): Piece | undefined {
  if (!/^-./.test(word)) return undefined;
  const said = word.replace(/^--?/, '');
  const flags = Object.entries<Flag>(takes.flags ?? {});
  const found = flags.find(([name, { also = [] }]) => name === said || also.includes(said));
  if (found !== undefined) return { form: 'flag', name: found[0] };
  const { letters } = takes;
  if (letters !== undefined && !word.startsWith('--') && said.split('').every((letter) => letters.includes(letter))) {
    return { form: 'letters', letters: said };
  }
  const names = flags.flatMap(([name, { also = [] }]) => [name, ...also]);
  const near = didYouMean(said, names);
  const guess = near === undefined ? '' : ` Did you mean \`-${near}\`?`;
  const choice = letters === undefined ? '' : ` Its letters are ${letters}.`;
  return { form: 'problem', sentence: `It has no flag \`${word}\`.${guess}${choice}` };
}

// ------------------------------------------------------------------------------------------ meaning

interface Problem {
  readonly sentence: string;
  readonly code: number;
}

/** A kind of word that is told by what is known, or by its form. */
interface Kind {
  /** With its article, for sentences: `the user`. */
  readonly called: string;
  /** How the word is said so that it can mean nothing else. */
  as(word: string): string;
  /** Whether a key has said all of it. */
  readonly isSaid: boolean;
  /** How many may be said. */
  readonly most: number;
  has(word: string): boolean;
  take(word: string): void;
}

/** What has been understood of one line so far. */
interface Line {
  readonly takes: Takes;
  readonly known: Known;
  readonly problems: Problem[];
  user: string | null;
  tpu: LabTpu | null;
  readonly types: string[];
  readonly windows: number[];
  readonly numbers: Map<string, number>;
  readonly texts: Map<string, string>;
  readonly keys: Map<string, string>;
  readonly configs: Map<string, string>;
  readonly flags: Set<string>;
  letters: string;
}

function emptyLine(takes: Takes, known: Known): Line {
  return {
    takes,
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
}

function take(line: Line, pieces: readonly Piece[]): void {
  const words: string[] = [];
  for (const piece of pieces) {
    if (piece.form === 'pair') takePair(line, piece.key, piece.value, piece.typed);
    else if (piece.form === 'flag') line.flags.add(piece.name);
    else if (piece.form === 'letters') line.letters = [...new Set(line.letters + piece.letters)].join('');
    else if (piece.form === 'bare') words.push(piece.word);
    else trouble(line, piece.sentence);
  }
  takeBare(line, words);
}

/** What is needed and was not said, a sentence each. Not asked for where another problem may be the reason. */
function missingIn(line: Line): readonly string[] {
  if (line.problems.length > 0) return [];
  const { takes } = line;
  const sentences: string[] = [];
  const isNeeded = (count: Count | undefined): boolean => count === 'one' || count === 'some';
  if (isNeeded(takes.tpu) && line.tpu === null)
    sentences.push('Which TPU? Say its alias or full name; `tpu -lta` shows them.');
  if (isNeeded(takes.windows) && line.windows.length === 0) {
    sentences.push('Which window? Say its number; `tpu check` shows them.');
  }
  for (const { name, needed, brief } of takes.numbers ?? []) {
    if (needed && !line.numbers.has(name)) sentences.push(`A number is missing: ${brief}.`);
  }
  for (const { name, needed, brief } of takes.texts ?? []) {
    if (!needed || line.texts.has(name)) continue;
    // The word that was meant may have been read as something else that it is as well.
    const read = line.user === null || takes.user === undefined ? '' : ` \`${line.user}\` was read as the user.`;
    sentences.push(`The ${brief} is missing.${read} It can be said as ${name}=...`);
  }
  return sentences;
}

function wordsOf(line: Line): Omit<Words, 'verb'> {
  return {
    user: line.user,
    tpu: line.tpu,
    types: line.types,
    windows: line.windows,
    numbers: Object.fromEntries(line.numbers),
    texts: Object.fromEntries(line.texts),
    keys: Object.fromEntries(line.keys),
    configs: [...line.configs],
    flags: line.flags,
    letters: line.letters,
    raw: [],
  };
}

function trouble(line: Line, sentence: string, code: number = exitCode.usage): void {
  line.problems.push({ sentence, code });
}

// ---------------------------------------------------------------------------------------- key=value

function takePair(line: Line, typedKey: string, value: string, typed: string): void {
  const { takes } = line;
  const own = Object.entries<Key>(takes.keys ?? {}).find(
    ([name, { also = [] }]) => name === typedKey || also.includes(typedKey),
  );
  const number = takes.numbers?.find(({ name }) => name === typedKey);
  const text = takes.texts?.find(({ name }) => name === typedKey);
  if (!isOwnKey(takes, typedKey)) takeConfig(line, typedKey, value, typed);
  else if (value === '') trouble(line, `Nothing stands behind the equals sign of \`${typed}\`.`);
  else if (own !== undefined) takeKey(line, own[0], own[1], value, typed);
  else if (number !== undefined) takeNumber(line, number.name, value, typed);
  else if (text !== undefined) once(line, line.texts, text.name, value, typed);
  else if (typedKey === 'user') takeUser(line, value, typed);
  else if (typedKey === 'id') takeUserId(line, value, typed);
  else if (typedKey === 'type') takeType(line, value, typed);
  else if (windowKeys.includes(typedKey)) takeWindows(line, value, typed);
  else takeTpu(line, value, typed);
}

function takeConfig(line: Line, key: string, value: string, typed: string): void {
  if (line.takes.configs === true) {
    once(line, line.configs, key, value, typed);
    return;
  }
  const keys = keysOf(line.takes);
  const near = didYouMean(key, keys);
  const guess = near === undefined ? '' : ` Did you mean \`${near}=\`?`;
  const others = keys.length === 0 ? ' It takes no keys.' : ` It takes ${keys.map((one) => `${one}=`).join(', ')}.`;
  trouble(line, `\`${typed}\`: it knows no \`${key}=\`.${guess === '' ? others : guess}`);
}

/** The same said twice is one problem and no guess; said twice alike, it is once. */
function once<Value>(line: Line, into: Map<string, Value>, name: string, value: Value, typed: string): void {
  const before = into.get(name);
  if (before !== undefined && before !== value) {
    trouble(line, `\`${typed}\`: ${name} was said already, as \`${String(before)}\`.`);
  } else into.set(name, value);
}

function takeKey(line: Line, name: string, key: Key, value: string, typed: string): void {
  const { values } = key;
  if (values !== undefined && !values.includes(value)) {
    const near = didYouMean(value, values);
    const guess = near === undefined ? '' : ` Did you mean ${near}?`;
    trouble(line, `\`${typed}\`: ${name} is one of ${values.join(', ')}.${guess}`);
    return;
  }
  switch (key.kind) {
    case 'number':
      if (isNumber(value)) once(line, line.keys, name, String(Number(value)), typed);
      else trouble(line, `\`${typed}\`: a whole number was expected.`);
      return;
    case 'yes or no': {
      const answer = yesOrNo(value);
      if (answer === undefined) trouble(line, `\`${typed}\`: True or False was expected.`);
      else once(line, line.keys, name, String(answer), typed);
      return;
    }
    case 'words':
      once(line, line.keys, name, value.replaceAll('_', ' '), typed);
      return;
    case 'text':
      once(line, line.keys, name, value, typed);
  }
}

function takeNumber(line: Line, name: string, value: string, typed: string): void {
  if (isNumber(value)) once(line, line.numbers, name, Number(value), typed);
  else trouble(line, `\`${typed}\`: a whole number was expected.`);
}

function takeUser(line: Line, name: string, typed: string): void {
  const found = userNamed(line, name);
  if (found !== undefined) {
    setUser(line, found, typed);
    return;
  }
  const near = didYouMean(
    name,
    line.known.users.map((user) => user.name),
  );
  const guess = near === undefined ? ' `tpu list-users` shows them.' : ` Did you mean ${near}?`;
  trouble(line, `There is no user ${name}.${guess}`, exitCode.notFound);
}

function takeUserId(line: Line, value: string, typed: string): void {
  const found = line.known.users.find(({ id }) => isNumber(value) && id === Number(value));
  if (found !== undefined) setUser(line, found.name, typed);
  else trouble(line, `There is no user with the id ${value}. \`tpu list-users\` shows them.`, exitCode.notFound);
}

function setUser(line: Line, name: string, typed: string): void {
  if (line.user !== null && line.user !== name) {
    trouble(line, `\`${typed}\`: the user was said already, as ${line.user}. Which of the two is it?`);
  } else line.user = name;
}

function takeTpu(line: Line, name: string, typed: string): void {
  const found = tpuNamed(line, name);
  if (typeof found === 'object') {
    setTpu(line, found, typed);
    return;
  }
  if (found === undefined && line.takes.types !== undefined && isType(name, line.takes.types)) {
    line.types.push(name);
    return;
  }
  if (found !== undefined) {
    trouble(line, lostAlias(name, found), exitCode.notFound);
    return;
  }
  const near = didYouMean(name, tpuNames(line));
  const guess = near === undefined ? ' `tpu -lta` shows them, `tpu register` adds one.' : ` Did you mean ${near}?`;
  trouble(line, `There is no TPU ${name}.${guess}`, exitCode.notFound);
}

function setTpu(line: Line, tpu: LabTpu, typed: string): void {
  if (line.tpu !== null && line.tpu.name !== tpu.name) {
    trouble(line, `\`${typed}\`: the TPU was said already, as ${line.tpu.name}. Which of the two is it?`);
  } else line.tpu = tpu;
}

function takeType(line: Line, value: string, typed: string): void {
  if (isType(value, line.takes.types ?? 'accelerators')) line.types.push(value);
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
  if (first !== undefined && mostOf(line.takes.windows) === 1) {
    trouble(line, `\`${typed}\`: one window is enough, and ${first} was said already.`);
  } else line.windows.push(window);
}

// ---------------------------------------------------------------------------------------- bare words

/**
 * Each word goes to the one kind that it can be. Two kinds that a word could be are a problem, and so are two words for
 * one place while another place for words is open: which of them was meant for it, nobody can tell.
 */
function takeBare(line: Line, words: readonly string[]): void {
  const open = (line.takes.texts ?? []).filter(({ name }) => !line.texts.has(name));
  // What a key has said is not looked for among the other words, where these may be words of the command's own.
  const kinds = kindsOf(line).filter(({ isSaid }) => !(isSaid && open.length > 0));
  const rest: string[] = [];
  const claimed = new Map<Kind, string[]>();
  for (const word of words) {
    const [kind, other] = kinds.filter((one) => one.has(word));
    if (word === '') trouble(line, 'One of the words is empty.');
    else if (kind !== undefined && other !== undefined) {
      trouble(
        line,
        `\`${word}\` may be ${kind.called} or ${other.called}. Say which: ${kind.as(word)} or ${other.as(word)}.`,
      );
    } else if (kind === undefined) rest.push(word);
    else claimed.set(kind, [...(claimed.get(kind) ?? []), word]);
  }
  for (const [kind, found] of claimed) {
    const [slot] = open;
    // Of two words for one place, one may have been meant for a word of the command's own that is still open.
    if (found.length > kind.most && slot !== undefined && open.length > rest.length) {
      const either = [...new Set(found)].map((word) => `\`${word}\``).join(' and ');
      const [word = ''] = found;
      trouble(
        line,
        `${either} may be ${kind.called} or the ${slot.brief}. Say which: ${kind.as(word)} or ${slot.name}=${word}.`,
      );
    } else for (const word of found) kind.take(word);
  }
  takeTexts(line, open, rest);
}

function kindsOf(line: Line): readonly Kind[] {
  const { takes } = line;
  const kinds: Kind[] = [];
  if (takes.user !== undefined) {
    kinds.push({
      called: 'the user',
      isSaid: line.user !== null,
      as: (word) => `user=${word}`,
      most: 1,
      has: (word) => userNamed(line, word) !== undefined,
      take: (word) => takeUser(line, word, word),
    });
  }
  if (takes.tpu !== undefined) {
    kinds.push({
      called: 'the TPU',
      isSaid: line.tpu !== null,
      as: (word) => `tpu=${word}`,
      most: mostOf(takes.tpu),
      has: (word) => tpuNamed(line, word) !== undefined,
      take: (word) => takeTpu(line, word, word),
    });
  }
  if (takes.types !== undefined) {
    const forms = takes.types;
    kinds.push({
      called: 'a type of TPU',
      isSaid: false,
      as: (word) => `type=${word}`,
      most: Infinity,
      // `v2-1` has the form of a type and is none: labs call TPUs so, and then it is that TPU.
      has: (word) => isType(word, forms) && (tpuNamed(line, word) === undefined || acceleratorCalled(word) !== null),
      take: (word) => takeType(line, word, word),
    });
  }
  if (takes.windows !== undefined) {
    kinds.push({
      called: 'the window',
      isSaid: mostOf(takes.windows) === 1 && line.windows.length > 0,
      as: (word) => `window=${word}`,
      most: mostOf(takes.windows),
      has: (word) => isNumber(word) || (mostOf(takes.windows) > 1 && /^\d+(,\d+)+$/.test(word)),
      take: (word) => takeWindows(line, word, word),
    });
  }
  const numbers = takes.numbers ?? [];
  const [first] = numbers;
  if (first !== undefined) {
    kinds.push({
      called: `the ${first.brief}`,
      isSaid: numbers.every(({ name }) => line.numbers.has(name)),
      as: (word) => `${first.name}=${word}`,
      most: numbers.length,
      has: isNumber,
      take: (word) => takeNextNumber(line, word),
    });
  }
  return kinds;
}

function takeNextNumber(line: Line, word: string): void {
  const slot = line.takes.numbers?.find(({ name }) => !line.numbers.has(name));
  if (slot === undefined) trouble(line, `\`${word}\` is one number too many.`);
  else line.numbers.set(slot.name, Number(word));
}

function takeTexts(line: Line, open: readonly TextSlot[], words: readonly string[]): void {
  const left = [...words];
  const slots = [...open];
  // What tells itself apart goes first, so that the order of the others is all that counts.
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

/** The sentence about a word that is nothing here. */
function leftOver(line: Line, word: string): string {
  const { takes, known } = line;
  const kinds = [
    ...(takes.user === undefined ? [] : ['user']),
    ...(takes.tpu === undefined ? [] : ['TPU']),
    ...(takes.types === undefined ? [] : ['type']),
    ...(takes.windows === undefined && takes.numbers === undefined ? [] : ['number']),
  ];
  if (kinds.length === 0 || (takes.texts ?? []).length > 0) {
    const near = nearest(line, word);
    return `\`${word}\` is one word too many.${near}`;
  }
  const quotes = takes.types === 'families' ? " If a shell pattern such as v* was meant, put it in quotes: 'v*'." : '';
  const alias = known.tpuAliases.get(word);
  if (takes.tpu !== undefined && alias !== undefined) return lostAlias(word, alias);
  const last = kinds.pop() ?? '';
  const list = kinds.length === 0 ? last : `${kinds.join(', ')} or ${last}`;
  return `\`${word}\` is no ${list} that is known here.${nearest(line, word)}${whereToLook(line, word)}${quotes}`;
}

/** Where the one that is meant may be found, or made known. */
function whereToLook({ takes, known }: Line, word: string): string {
  // What tells a type by its name is most likely meant for a TPU.
  if (takes.tpu !== undefined && acceleratorIn(word) !== null)
    return ' `tpu -lta` shows all TPUs, `tpu register` adds one.';
  if (takes.user !== undefined && known.users.length === 0) return ' There are no users yet; `tpu add-user` adds one.';
  return '';
}

function nearest(line: Line, word: string): string {
  const { takes, known } = line;
  const users = takes.user === undefined ? [] : known.users.map(({ name }) => name);
  const tpus = takes.tpu === undefined ? [] : tpuNames(line);
  const near = didYouMean(word, [...users, ...tpus, ...Object.keys(takes.flags ?? {})]);
  return near === undefined ? '' : ` Did you mean ${near}?`;
}

// ---------------------------------------------------------------------------------------- what is known

function userNamed(line: Line, word: string): string | undefined {
  const name = word.normalize('NFC');
  return line.known.users.find((user) => user.name === name)?.name;
}

/** The TPU; its full name where only an alias knows of it; undefined where nothing does. */
function tpuNamed(line: Line, word: string): LabTpu | string | undefined {
  const name = line.known.tpuAliases.get(word) ?? word;
  const { tpus, tpuAliases } = line.known;
  return tpus.find((tpu) => tpu.name === name) ?? tpuAliases.get(word) ?? tpuCalled(tpus, word);
}

function tpuNames(line: Line): readonly string[] {
  return [...line.known.tpuAliases.keys(), ...line.known.tpus.map(({ name }) => name)];
}

function lostAlias(alias: string, name: string): string {
  return `The alias ${alias} means ${name}, which is not registered; \`tpu register ${name}\` does that.`;
}

function mostOf(count: Count | undefined): number {
  return count === 'one' || count === 'maybe one' ? 1 : Infinity;
}

function isNumber(word: string): boolean {
  return /^\d{1,9}$/.test(word);
}
