// Splits a line of `tpu` into tokens by form: `key=value`, flag, letters, bare.

import { didYouMean } from '../../catalogue/did-you-mean.ts';
import { formatUnknownFlag } from '../scan.ts';
import type { TpuRow } from './command.ts';

type Token =
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
