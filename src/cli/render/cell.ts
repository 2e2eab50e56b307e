/** Colours and combining characters take no columns, East Asian wide characters and most emoji two. */
export function width(text: string): number {
  if (plainAscii.test(text)) return text.length;
  let columns = 0;
  const visible = text.includes('\u001b') ? text.replace(graphics, '') : text;
  for (const character of visible) columns += columnsOf(character.codePointAt(0) ?? 0);
  return columns;
}

export function padEnd(text: string, columns: number): string {
  return text + ' '.repeat(Math.max(0, columns - width(text)));
}

export function padStart(text: string, columns: number): string {
  return ' '.repeat(Math.max(0, columns - width(text))) + text;
}

/** The text, or its beginning and a `~`. For text without colours. */
export function cutEnd(text: string, columns: number): string {
  if (width(text) <= columns) return text;
  if (columns < 1) return '';
  return `${takeColumns(text, columns - 1)}~`;
}

/** The first of these texts, from the longest to the shortest, that fits; the last one is cut. */
export function fitting(variants: readonly string[], columns: number): string {
  return variants.find((text) => width(text) <= columns) ?? cutEnd(variants.at(-1) ?? '', columns);
}

/** Names of one family differ at both ends (`vit-l~-3e4`). */
export function cutMiddle(text: string, columns: number): string {
  if (width(text) <= columns) return text;
  if (columns < 3) return cutEnd(text, columns);
  const tail = Math.floor((columns - 1) / 2);
  return `${takeColumns(text, columns - 1 - tail)}~${takeLastColumns(text, tail)}`;
}

/** Wraps at spaces; a longer part stays whole. */
export function wrap(text: string, columns: number): readonly string[] {
  const lines: string[] = [];
  let line = '';
  for (const part of text.split(' ')) {
    if (line === '') line = part;
    else if (width(line) + 1 + width(part) <= columns) line += ` ${part}`;
    else {
      lines.push(line);
      line = part;
    }
  }
  return [...lines, line];
}

const minRoom = 24;

/** Wraps the text behind `front`, or below it if there is little space next to it. */
export function hangingIndent(front: string, text: string, columns: number): readonly string[] {
  const room = columns - width(front);
  if (width(text) <= room) return [front + text];
  if (room < minRoom || text.split(' ').some((part) => width(part) > room)) {
    return [front.trimEnd(), ...wrap(text, columns - 5).map((line) => `     ${line}`)];
  }
  const indent = ' '.repeat(width(front));
  return wrap(text, room).map((line, index) => (index === 0 ? front : indent) + line);
}

/** No part is split. */
export function fillLines(parts: readonly string[], between: string, columns: number | null): readonly string[] {
  const lines: string[] = [];
  for (const part of parts) {
    const line = lines.at(-1);
    const isRoom = columns === null || width(line ?? '') + width(between) + width(part) <= columns;
    if (line !== undefined && isRoom) lines[lines.length - 1] = line + between + part;
    else lines.push(part);
  }
  return lines;
}

function takeColumns(text: string, columns: number): string {
  let used = 0;
  let taken = '';
  for (const character of text) {
    used += columnsOf(character.codePointAt(0) ?? 0);
    if (used > columns) break;
    taken += character;
  }
  return taken;
}

function takeLastColumns(text: string, columns: number): string {
  const characters = Array.from(text);
  let used = 0;
  let from = characters.length;
  while (from > 0) {
    used += columnsOf(characters[from - 1]?.codePointAt(0) ?? 0);
    if (used > columns) break;
    from -= 1;
  }
  return characters.slice(from).join('');
}

const plainAscii = /^[ -~]*$/;
const graphics = /\p{Cc}\[[0-9;:]*m/gu;
const combining = /^[\p{Mn}\p{Me}\p{Cf}]$/u;

/** The Wide and Fullwidth blocks of Unicode's EastAsianWidth.txt, rounded to whole blocks. */
const wideRanges: readonly (readonly [number, number])[] = [
  [0x1100, 0x115f],
  [0x2e80, 0xa4cf],
  [0xa960, 0xa97c],
  [0xac00, 0xd7a3],
  [0xf900, 0xfaff],
  [0xfe30, 0xfe6f],
  [0xff00, 0xff60],
  [0xffe0, 0xffe6],
  [0x1f300, 0x1f64f],
  [0x1f680, 0x1f6ff],
  [0x1f900, 0x1f9ff],
  [0x20000, 0x3fffd],
];

/** Arrows, mathematics and shapes, such as our glyphs. Preparing the Unicode test costs more than this range. */
function isSymbol(code: number): boolean {
  return code >= 0x2100 && code < 0x2c00;
}

function columnsOf(code: number): number {
  if (code < 0x300 || isSymbol(code)) return 1;
  if (combining.test(String.fromCodePoint(code))) return 0;
  return wideRanges.some(([from, to]) => code >= from && code <= to) ? 2 : 1;
}
