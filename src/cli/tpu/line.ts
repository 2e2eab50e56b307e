// A line of `tpu`: its words by their form alone (`key=value`, flags, letters, all others), and the sentences about its problems.

import { exitCode } from '../../app/errors.ts';
import { didYouMean } from '../../catalogue/did-you-mean.ts';
import { acceleratorIn, type LabTpu, tpuCalled } from '../../lab/tpus.ts';
import { noFlagText } from '../scan.ts';
import type { Count, Known, TpuRow } from './command.ts';

export type Piece =
  | { readonly form: 'pair'; readonly key: string; readonly value: string; readonly typed: string }
  | { readonly form: 'flag'; readonly name: string }
  | { readonly form: 'letters'; readonly letters: string }
  | { readonly form: 'bare'; readonly word: string }
  | { readonly form: 'problem'; readonly sentence: string };

export const windowKeys: readonly string[] = ['windows', 'window', 'w'];
const windowFlags: readonly string[] = ['-w', '-window', '-windows', '--window', '--windows'];

/** The line in pieces. Behind `--` nothing is a flag. */
export function pieces(row: TpuRow, typed: readonly string[]): readonly Piece[] {
  const found: Piece[] = [];
  for (let at = 0; at < typed.length; at += 1) {
    const word = typed[at] ?? '';
    if (word === '--') return [...found, ...typed.slice(at + 1).map((one) => pairOf(row, one) ?? bare(one))];
    const key = keyOfFlag(row, word);
    if (key === undefined) found.push(pairOf(row, word) ?? flagOf(row, word) ?? bare(word));
    else {
      at += 1;
      const value = typed[at];
      found.push(
        value === undefined
          ? { form: 'problem', sentence: `Nothing stands behind \`${word}\`.` }
          : { form: 'pair', key, value, typed: `${word} ${value}` },
      );
    }
  }
  return found;
}

export function keysOf({ takes, args }: TpuRow): readonly string[] {
  return [
    ...Object.entries(takes.keys ?? {}).flatMap(([name, { also = [] }]) => [
      name,
      ...also.filter((form) => !form.startsWith('-')),
    ]),
    ...args.map(({ name }) => name),
    ...(takes.user === undefined ? [] : ['user', 'id']),
    ...(takes.tpu === undefined ? [] : ['tpu', 'ka']),
    ...(takes.types === undefined ? [] : ['type']),
    ...(takes.windows === undefined ? [] : windowKeys),
  ];
}

function bare(word: string): Piece {
  return { form: 'bare', word };
}

function keyOfFlag({ takes }: TpuRow, word: string): string | undefined {
  if (takes.windows !== undefined && windowFlags.includes(word)) return 'window';
  if (!word.startsWith('-')) return undefined;
  return Object.entries(takes.keys ?? {}).find(([, { also }]) => also?.includes(word))?.[0];
}

/** A `key=value`, split at its first equals sign. What begins as a path does is none. */
function pairOf(row: TpuRow, word: string): Piece | undefined {
  const [, dashes = '', key = '', value = ''] = /^(-{0,2})([^\s=/.~-][^\s=/]*)=(.*)$/s.exec(word) ?? [];
  if (key === '') return undefined;
  // `-w=101` is as good as `w=101`, and `--config.lr=0.1` as the scripts are told it.
  if (dashes !== '' && !keysOf(row).includes(key) && row.takes.configs !== true) return undefined;
  return { form: 'pair', key, value, typed: word };
}

/** `-name` and `--name` are the same. */
function flagOf({ flags, takes: { letters } }: TpuRow, word: string): Piece | undefined {
  if (!/^-./.test(word)) return undefined;
  const said = word.replace(/^--?/, '');
  const found = Object.entries(flags).find(([name, { also = [] }]) => name === said || also.includes(said));
  if (found !== undefined) return { form: 'flag', name: found[0] };
  if (letters !== undefined && !word.startsWith('--') && said.split('').every((letter) => letters.includes(letter))) {
    return { form: 'letters', letters: said };
  }
  const names = Object.entries(flags).flatMap(([name, { also = [] }]) => [name, ...also]);
  const near = didYouMean(said, names);
  return { form: 'problem', sentence: noFlagText(word, near === undefined ? undefined : `-${near}`) };
}

export interface Problem {
  readonly sentence: string;
  readonly code: number;
}

export interface Line {
  readonly row: TpuRow;
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

export function missing(line: Line): readonly Problem[] {
  const { takes, args } = line.row;
  const sentences: string[] = [];
  const isNeeded = (count: Count | undefined): boolean => count === 'one' || count === 'some';
  if (isNeeded(takes.tpu) && line.tpu === null)
    sentences.push('Which TPU? Say its alias or full name; `tpu -lta` shows them.');
  if (isNeeded(takes.windows) && line.windows.length === 0)
    sentences.push('Which window? Say its number; `tpu check` shows them.');
  const open = args.filter(({ name, needed }) => needed && !line.numbers.has(name) && !line.texts.has(name));
  for (const { summary } of open.filter(({ number }) => number)) sentences.push(`A number is missing: ${summary}.`);
  // The word that was meant may have been read as something else that it is as well.
  const read = line.user === null || takes.user === undefined ? '' : ` \`${line.user}\` was read as the user.`;
  for (const { name, summary } of open.filter(({ number }) => !number))
    sentences.push(`The ${summary} is missing.${read} It can be said as ${name}=...`);
  return sentences.map((sentence) => ({ sentence, code: exitCode.usage }));
}

export function noKey({ row }: Line, key: string, typed: string): string {
  const keys = keysOf(row);
  const others = keys.length === 0 ? ' It takes no keys.' : ` It takes ${keys.map((one) => `${one}=`).join(', ')}.`;
  const near = didYouMean(key, keys);
  return `\`${typed}\`: it knows no \`${key}=\`.${near === undefined ? others : ` Did you mean \`${near}=\`?`}`;
}

export function noUser({ known }: Line, name: string): string {
  const names = known.users.map((user) => user.name);
  return `There is no user ${name}.${guess(name, names, ' `tpu list-users` shows them.')}`;
}

export function noTpu(line: Line, name: string): string {
  return `There is no TPU ${name}.${guess(name, tpuNames(line), ' `tpu -lta` shows them, `tpu register` adds one.')}`;
}

export function lostAlias(alias: string, name: string): string {
  return `The alias ${alias} means ${name}, which is not registered; \`tpu register ${name}\` does that.`;
}

export function leftOver(line: Line, word: string): string {
  const { row, known } = line;
  const { takes, args } = row;
  const users = takes.user === undefined ? [] : known.users.map(({ name }) => name);
  const tpus = takes.tpu === undefined ? [] : tpuNames(line);
  const near = guess(word, [...users, ...tpus, ...Object.keys(row.flags)], '');
  const kinds = [
    ...(takes.user === undefined ? [] : ['user']),
    ...(takes.tpu === undefined ? [] : ['TPU']),
    ...(takes.types === undefined ? [] : ['type']),
    ...(takes.windows === undefined && !args.some(({ number }) => number) ? [] : ['number']),
  ];
  if (kinds.length === 0 || args.some(({ number }) => !number)) return `\`${word}\` is one word too many.${near}`;
  const alias = known.tpuAliases.get(word);
  if (takes.tpu !== undefined && alias !== undefined) return lostAlias(word, alias);
  const quotes = takes.types === 'families' ? " If a shell pattern such as v* was meant, put it in quotes: 'v*'." : '';
  const last = kinds.pop() ?? '';
  const list = kinds.length === 0 ? last : `${kinds.join(', ')} or ${last}`;
  return `\`${word}\` is no ${list} that is known here.${near}${whereToLook(line, word)}${quotes}`;
}

function whereToLook({ row: { takes }, known }: Line, word: string): string {
  // A word that contains a type is most likely a TPU.
  if (takes.tpu !== undefined && acceleratorIn(word) !== null)
    return ' `tpu -lta` shows all TPUs, `tpu register` adds one.';
  if (takes.user !== undefined && known.users.length === 0) return ' There are no users yet; `tpu add-user` adds one.';
  return '';
}

function guess(word: string, candidates: readonly string[], otherwise: string): string {
  const near = didYouMean(word, candidates);
  return near === undefined ? otherwise : ` Did you mean ${near}?`;
}

/** The user of that name, however its letters are written. */
export function userNamed({ known }: Line, word: string): string | undefined {
  const name = word.normalize('NFC');
  return known.users.find((user) => user.name === name)?.name;
}

/** The TPU; its full name where only an alias knows of it; undefined where nothing does. */
export function tpuNamed({ known: { tpus, tpuAliases } }: Line, word: string): LabTpu | string | undefined {
  const name = tpuAliases.get(word) ?? word;
  return tpus.find((tpu) => tpu.name === name) ?? tpuAliases.get(word) ?? tpuCalled(tpus, word);
}

function tpuNames({ known }: Line): readonly string[] {
  return [...known.tpuAliases.keys(), ...known.tpus.map(({ name }) => name)];
}
