// Widths of texts on a terminal, and texts made to fit.

/** Columns that the text takes: colours none, combining marks none, East Asian wide characters and most emoji two. */
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

/** The text, or its beginning and a `~` where something was left out. For text without colours. */
export function cutEnd(text: string, columns: number): string {
  if (width(text) <= columns) return text;
  if (columns < 1) return '';
  return `${take(text, columns - 1)}~`;
}

/** The same with the middle left out: names of one family differ at both ends (`vit-l~-3e4`). */
export function cutMiddle(text: string, columns: number): string {
  if (width(text) <= columns) return text;
  if (columns < 3) return cutEnd(text, columns);
  const tail = Math.floor((columns - 1) / 2);
  return `${take(text, columns - 1 - tail)}~${takeFromEnd(text, tail)}`;
}

/** Lines of at most `columns`, broken at blanks; a longer word stays whole. */
export function wrap(text: string, columns: number): readonly string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line === '') line = word;
    else if (width(line) + 1 + width(word) <= columns) line += ` ${word}`;
    else {
      lines.push(line);
      line = word;
    }
  }
  return [...lines, line];
}

const leastRoom = 24;

/**
 * A text behind a label or a time. What does not fit goes on below its beginning; where there is little room beside the
 * front, all of the text stands below it, a little to the right.
 */
export function hanging(front: string, text: string, columns: number): readonly string[] {
  const room = columns - width(front);
  if (width(text) <= room) return [front + text];
  if (room < leastRoom || text.split(' ').some((word) => width(word) > room)) {
    return [front.trimEnd(), ...wrap(text, columns - 5).map((line) => `     ${line}`)];
  }
  const indent = ' '.repeat(width(front));
  return wrap(text, room).map((line, index) => (index === 0 ? front : indent) + line);
}

/** These parts on as few lines as hold them, none of them broken. */
export function filled(parts: readonly string[], between: string, columns: number | null): readonly string[] {
  const lines: string[] = [];
  for (const part of parts) {
    const line = lines.at(-1);
    const isRoom = columns === null || width(line ?? '') + width(between) + width(part) <= columns;
    if (line !== undefined && isRoom) lines[lines.length - 1] = line + between + part;
    else lines.push(part);
  }
  return lines;
}

function take(text: string, columns: number): string {
  let used = 0;
  let taken = '';
  for (const character of text) {
    used += columnsOf(character.codePointAt(0) ?? 0);
    if (used > columns) break;
    taken += character;
  }
  return taken;
}

function takeFromEnd(text: string, columns: number): string {
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
const mark = /^[\p{Mn}\p{Me}\p{Cf}]$/u;

/** The blocks of Unicode's EastAsianWidth.txt that are Wide or Fullwidth, rounded to whole blocks. */
const wide: readonly (readonly [number, number])[] = [
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

/** Arrows, mathematics and shapes, as our glyphs are: no marks among them. Preparing the test for marks costs more than a list. */
function isSymbol(code: number): boolean {
  return code >= 0x2100 && code < 0x2c00;
}

function columnsOf(code: number): number {
  if (code < 0x300 || isSymbol(code)) return 1;
  if (mark.test(String.fromCodePoint(code))) return 0;
  return wide.some(([from, to]) => code >= from && code <= to) ? 2 : 1;
}
