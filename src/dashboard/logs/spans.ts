// A line as spans with the colours of the program. All other control characters are shown as text and have no effect.

import { escapeForTerminal } from '../../app/format.ts';
import { withoutTime } from '../../app/log-text.ts';
import type { Hits } from './find.ts';

export interface Span {
  readonly text: string;
  /** Class names of its colours and style; empty for plain text. */
  readonly style: string;
  readonly isHit: boolean;
}

interface Style {
  text: number | null;
  background: number | null;
  readonly flags: Set<string>;
}

// eslint-disable-next-line no-control-regex -- colours are control sequences (ECMA-48 8.3.117)
const colour = /\u001B\[([\d;:]*)m/;

/** Colours end with the line. `hits`: null without a search. */
export function spansOf(text: string, hits: Hits | null): readonly Span[] {
  const [first = '', ...rest] = escapeForTerminal(text).split(colour);
  const style: Style = { text: null, background: null, flags: new Set() };
  const spans: { readonly text: string; readonly style: string }[] = [{ text: first, style: '' }];
  for (let at = 0; at < rest.length; at += 2) {
    apply(style, rest[at] ?? '');
    spans.push({ text: rest[at + 1] ?? '', style: className(style) });
  }
  const shown = spans.filter((span) => span.text !== '');
  return hits === null ? shown.map((span) => ({ ...span, isHit: false })) : withHits(shown, hits);
}

/** The text of a line without colours, as a person sees it. */
export function plainText(text: string): string {
  return escapeForTerminal(text, false);
}

function withHits(spans: readonly { readonly text: string; readonly style: string }[], hits: Hits): readonly Span[] {
  const edges = hits(spans.map(({ text }) => text).join(''));
  // Both ascend: a line may have thousands of hits.
  let passed = 0;
  const isHitAt = (position: number): boolean => {
    while ((edges[passed] ?? Infinity) <= position) passed += 1;
    return passed % 2 === 1;
  };
  let at = 0;
  return spans.flatMap(({ text, style }) => {
    const begin = at;
    at += text.length;
    const cuts = [begin, ...edges.filter((edge) => edge > begin && edge < at), at];
    return cuts.slice(1).map((end, index) => {
      const from = cuts[index] ?? begin;
      return { text: text.slice(from - begin, end - begin), style, isHit: isHitAt(from) };
    });
  });
}

const flags: Readonly<Record<number, string>> = {
  1: 'bold',
  2: 'dim',
  3: 'italic',
  4: 'underline',
  7: 'inverse',
  9: 'crossed',
};
/** 21: not bold on some terminals. */
const endedFlags: Readonly<Record<number, readonly string[]>> = {
  21: ['bold'],
  22: ['bold', 'dim'],
  23: ['italic'],
  24: ['underline'],
  27: ['inverse'],
  29: ['crossed'],
};

function apply(style: Style, parameters: string): void {
  const codes = parameters.split(/[;:]/).map(Number);
  for (let at = 0; at < codes.length; at += 1) {
    const code = codes[at] ?? 0;
    if (code === 38 || code === 48) {
      const colourOf = codes[at + 1] === 5 ? paletteColour(codes[at + 2] ?? 0) : nearest(codes.slice(at + 2, at + 5));
      style[code === 38 ? 'text' : 'background'] = colourOf;
      at += codes[at + 1] === 5 ? 2 : 4;
    } else applyCode(style, code);
  }
}

function applyCode(style: Style, code: number): void {
  const flag = flags[code];
  if (code === 0) {
    style.text = null;
    style.background = null;
    style.flags.clear();
  } else if (flag !== undefined) style.flags.add(flag);
  else if (endedFlags[code] !== undefined) for (const one of endedFlags[code]) style.flags.delete(one);
  else if (code >= 30 && code <= 37) style.text = code - 30;
  else if (code >= 90 && code <= 97) style.text = code - 90 + 8;
  else if (code === 39) style.text = null;
  else if (code >= 40 && code <= 47) style.background = code - 40;
  else if (code >= 100 && code <= 107) style.background = code - 100 + 8;
  else if (code === 49) style.background = null;
}

/** A colour of xterm's palette of 256, as one of the 16 colours that are readable on the background of the page. */
function paletteColour(index: number): number {
  if (index < 16) return index;
  if (index >= 232) return index < 244 ? 8 : 7;
  const cube = index - 16;
  return nearest([Math.floor(cube / 36), Math.floor(cube / 6) % 6, cube % 6].map((level) => level * 51));
}

/** Red, green and blue from 0 to 255. */
function nearest(channels: readonly number[]): number {
  const [red = 0, green = 0, blue = 0] = channels;
  const brightest = Math.max(red, green, blue);
  if (brightest - Math.min(red, green, blue) < 32) return brightest < 96 ? 8 : 7;
  const bits = [red, green, blue].map((channel, index) => (channel > brightest / 2 ? 1 << index : 0));
  return bits.reduce((sum, bit) => sum + bit, 0) + (brightest > 200 ? 8 : 0);
}

function className({ text, background, flags: set }: Style): string {
  return [
    ...(text === null ? [] : [`ansi-${text % 8}`]),
    ...(background === null ? [] : [`ansi-back-${background % 8}`]),
    ...[...set].map((flag) => `ansi-${flag}`),
  ].join(' ');
}

/** As the page shows it. */
export function shownText(text: string, showsTimes: boolean): string {
  return showsTimes ? text : withoutTime(text);
}
