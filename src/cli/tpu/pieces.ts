// The words of a line of `tpu` by their form alone: `key=value`, flags, letters, and all others.

import { didYouMean } from '../../catalogue/did-you-mean.ts';
import type { TpuRow } from './row.ts';

export type Piece =
  | { readonly form: 'pair'; readonly key: string; readonly value: string; readonly typed: string }
  | { readonly form: 'flag'; readonly name: string }
  | { readonly form: 'letters'; readonly letters: string }
  | { readonly form: 'bare'; readonly word: string }
  | { readonly form: 'problem'; readonly sentence: string };

/** Keys that name a window, whatever the command. */
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

/** All keys that a command takes. */
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

/** The key whose value is the word after that flag. */
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
  const guess = near === undefined ? '' : ` Did you mean \`-${near}\`?`;
  const choice = letters === undefined ? '' : ` Its letters are ${letters}.`;
  return { form: 'problem', sentence: `It has no flag \`${word}\`.${guess}${choice}` };
}
