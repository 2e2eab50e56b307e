// Splits a line of `tpu` into tokens by form (`key=value`, flag, letters, bare), and formats its problems.

import { exitCode } from '../../app/errors.ts';
import { didYouMean } from '../../catalogue/did-you-mean.ts';
import { acceleratorFromName, type LabTpu, findTpuBySuffix } from '../../lab/tpus.ts';
import { formatUnknownFlag } from '../scan.ts';
import type { Count, KnownNames, TpuRow } from './command.ts';

export type Token =
  | { readonly form: 'pair'; readonly key: string; readonly value: string; readonly typed: string }
  | { readonly form: 'flag'; readonly name: string }
  | { readonly form: 'letters'; readonly letters: string }
  | { readonly form: 'bare'; readonly text: string }
  | { readonly form: 'problem'; readonly message: string };

export const windowKeys: readonly string[] = ['windows', 'window', 'w'];
const windowFlags: readonly string[] = ['-w', '-window', '-windows', '--window', '--windows'];

/** After `--` nothing is a flag. */
export function tokenize(row: TpuRow, typed: readonly string[]): readonly Token[] {
  const found: Token[] = [];
  for (let at = 0; at < typed.length; at += 1) {
    const arg = typed[at] ?? '';
    if (arg === '--') return [...found, ...typed.slice(at + 1).map((one) => pairToken(row, one) ?? bareToken(one))];
    const key = keyOfFlag(row, arg);
    if (key === undefined) found.push(pairToken(row, arg) ?? flagToken(row, arg) ?? bareToken(arg));
    else {
      at += 1;
      const value = typed[at];
      found.push(
        value === undefined
          ? { form: 'problem', message: `\`${arg}\` needs a value.` }
          : { form: 'pair', key, value, typed: `${arg} ${value}` },
      );
    }
  }
  return found;
}

export function acceptedKeys({ takes, args }: TpuRow): readonly string[] {
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

function bareToken(arg: string): Token {
  return { form: 'bare', text: arg };
}

function keyOfFlag({ takes }: TpuRow, arg: string): string | undefined {
  if (takes.windows !== undefined && windowFlags.includes(arg)) return 'window';
  if (!arg.startsWith('-')) return undefined;
  return Object.entries(takes.keys ?? {}).find(([, { also }]) => also?.includes(arg))?.[0];
}

/** Splits a `key=value` at the first equals sign. An argument that begins like a path is not a pair. */
function pairToken(row: TpuRow, arg: string): Token | undefined {
  const [, dashes = '', key = '', value = ''] = /^(-{0,2})([^\s=/.~-][^\s=/]*)=(.*)$/s.exec(arg) ?? [];
  if (key === '') return undefined;
  // `-w=101` equals `w=101`. Configs may be written as scripts receive them: `--config.lr=0.1`.
  if (dashes !== '' && !acceptedKeys(row).includes(key) && row.takes.configs !== true) return undefined;
  return { form: 'pair', key, value, typed: arg };
}

/** `-name` and `--name` are equal. */
function flagToken({ flags, takes: { letters } }: TpuRow, arg: string): Token | undefined {
  if (!/^-./.test(arg)) return undefined;
  const typedName = arg.replace(/^--?/, '');
  const found = Object.entries(flags).find(([name, { also = [] }]) => name === typedName || also.includes(typedName));
  if (found !== undefined) return { form: 'flag', name: found[0] };
  if (
    letters !== undefined &&
    !arg.startsWith('--') &&
    typedName.split('').every((letter) => letters.includes(letter))
  ) {
    return { form: 'letters', letters: typedName };
  }
  const names = Object.entries(flags).flatMap(([name, { also = [] }]) => [name, ...also]);
  const near = didYouMean(typedName, names);
  return { form: 'problem', message: formatUnknownFlag(arg, near === undefined ? undefined : `-${near}`) };
}

export interface Problem {
  readonly message: string;
  readonly code: number;
}

export interface ParseState {
  readonly row: TpuRow;
  readonly known: KnownNames;
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

export function missingArguments(line: ParseState): readonly Problem[] {
  const { takes, args } = line.row;
  const sentences: string[] = [];
  const isNeeded = (count: Count | undefined): boolean => count === 'one' || count === 'some';
  if (isNeeded(takes.tpu) && line.tpu === null)
    sentences.push('Which TPU? Give its alias or full name; `tpu list` shows them.');
  if (isNeeded(takes.windows) && line.windows.length === 0)
    sentences.push('Which window? Give its number; `tpu check` shows them.');
  const open = args.filter(({ name, needed }) => needed && !line.numbers.has(name) && !line.texts.has(name));
  for (const { summary } of open.filter(({ number }) => number)) sentences.push(`The ${summary} is missing.`);
  // The intended argument may have been read as the user.
  const read = line.user === null || takes.user === undefined ? '' : ` \`${line.user}\` was read as the user.`;
  for (const { name, summary } of open.filter(({ number }) => !number))
    sentences.push(`The ${summary} is missing.${read} You can give it as ${name}=...`);
  return sentences.map((message) => ({ message, code: exitCode.usage }));
}

export function unknownKeyMessage({ row }: ParseState, key: string, typed: string): string {
  const keys = acceptedKeys(row);
  const others =
    keys.length === 0 ? ' This command has no keys.' : ` Keys: ${keys.map((one) => `${one}=`).join(', ')}.`;
  const near = didYouMean(key, keys);
  return `Unknown key in \`${typed}\`.${near === undefined ? others : ` Did you mean \`${near}=\`?`}`;
}

export function unknownUserMessage({ known }: ParseState, name: string): string {
  const names = known.users.map((user) => user.name);
  return `There is no user ${name}.${suggestion(name, names, ' `tpu list-users` shows them.')}`;
}

export function unknownTpuMessage(line: ParseState, name: string): string {
  return `There is no TPU ${name}.${suggestion(name, tpuNames(line), ' `tpu list` shows all TPUs, `tpu register` adds one.')}`;
}

export function danglingAliasMessage(alias: string, name: string): string {
  return `The TPU ${name} of the alias ${alias} is not registered; \`tpu register ${name}\` adds it.`;
}

export function unexpectedArgumentMessage(line: ParseState, arg: string): string {
  const { row, known } = line;
  const { takes, args } = row;
  const users = takes.user === undefined ? [] : known.users.map(({ name }) => name);
  const tpus = takes.tpu === undefined ? [] : tpuNames(line);
  const near = suggestion(arg, [...users, ...tpus, ...Object.keys(row.flags)], '');
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
  return `Unknown ${list} \`${arg}\`.${near}${listingHint(line, arg)}${quotes}`;
}

function listingHint({ row: { takes }, known }: ParseState, arg: string): string {
  // An argument that contains a type is most likely a TPU.
  if (takes.tpu !== undefined && acceleratorFromName(arg) !== null)
    return ' `tpu list` shows all TPUs, `tpu register` adds one.';
  if (takes.user !== undefined && known.users.length === 0) return ' There are no users yet; `tpu add-user` adds one.';
  return '';
}

function suggestion(arg: string, candidates: readonly string[], otherwise: string): string {
  const near = didYouMean(arg, candidates);
  return near === undefined ? otherwise : ` Did you mean ${near}?`;
}

/** Names compare in Unicode NFC. */
export function findUser({ known }: ParseState, arg: string): string | undefined {
  const name = arg.normalize('NFC');
  return known.users.find((user) => user.name === name)?.name;
}

/** The TPU; its full name if only an alias knows it; undefined if it is unknown. */
export function findTpu({ known: { tpus, tpuAliases } }: ParseState, arg: string): LabTpu | string | undefined {
  const name = tpuAliases.get(arg) ?? arg;
  return tpus.find((tpu) => tpu.name === name) ?? tpuAliases.get(arg) ?? findTpuBySuffix(tpus, arg);
}

function tpuNames({ known }: ParseState): readonly string[] {
  return [...known.tpuAliases.keys(), ...known.tpus.map(({ name }) => name)];
}
