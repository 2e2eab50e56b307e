// Text of others (names, log lines, what a cloud said) made harmless for an output. One line: src/app/inert.ts.

import { hexDigits as hex } from '../../app/inert.ts';
export { inert, inertWord } from '../../app/inert.ts';

/** True when `inert` would change nothing in any line of this text. Asked of a block, it spares the question for each line. */
export function isInert(block: string): boolean {
  return !hasControlInLines.test(block);
}

/**
 * A text that the program prints, with every control character made visible except line ends, tabs and `own`, the graphic
 * renditions of the program's own styles. A style that is still on at the end of a line is switched off there. Characters
 * above 0x7e become `\u009b`, which JSON reads as the character itself, so that an object in JSON stays the same object.
 */
export function harmless(text: string, own: ReadonlySet<string>, off: string): string {
  if (plainLines.test(text) || isInert(text)) return text;
  return text
    .split('\n')
    .map((line) => harmlessLine(line, own, off))
    .join('\n');
}

function harmlessLine(line: string, own: ReadonlySet<string>, off: string): string {
  if (isInert(line)) return line;
  let last = '';
  const shown = line.replace(control, (found: string) => {
    if (found === '\t') return found;
    if (own.has(found)) {
      last = found;
      return found;
    }
    const code = found.codePointAt(0) ?? 0;
    const first = code < 0x20 ? `\\x${hex(code, 2)}` : `\\u${hex(code, 4)}`;
    return first + found.slice(1);
  });
  return last === '' || offCode.test(last) ? shown : shown + off;
}

/** Bytes as text. What is not UTF-8 is shown byte by byte (`\xff`), so that nothing of a binary output is hidden or guessed. */
export function decode(bytes: Uint8Array): string {
  try {
    return strict.decode(bytes);
  } catch {
    return decodeMixed(bytes);
  }
}

/** Valid stretches stay as they are; each byte that belongs to none is written as `\xNN`. */
function decodeMixed(bytes: Uint8Array): string {
  const parts: string[] = [];
  let at = 0;
  while (at < bytes.length) {
    const size = validAt(bytes, at);
    if (size === 0) {
      parts.push(`\\x${hex(bytes[at] ?? 0, 2)}`);
      at += 1;
      continue;
    }
    const from = at;
    at += size;
    for (let next = validAt(bytes, at); next > 0; next = validAt(bytes, at)) at += next;
    parts.push(strict.decode(bytes.subarray(from, at)));
  }
  return parts.join('');
}

/** The length of the UTF-8 character at `at`; 0 if there is none (RFC 3629, section 4). */
function validAt(bytes: Uint8Array, at: number): number {
  const first = bytes[at];
  if (first === undefined) return 0;
  if (first < 0x80) return 1;
  const second = bytes[at + 1] ?? 0;
  const within = (low: number, high: number) => second >= low && second <= high;
  const tail = (offset: number) => ((bytes[at + offset] ?? 0) & 0xc0) === 0x80;
  if (first >= 0xc2 && first <= 0xdf) return tail(1) ? 2 : 0;
  if (first === 0xe0) return within(0xa0, 0xbf) && tail(2) ? 3 : 0;
  if (first === 0xed) return within(0x80, 0x9f) && tail(2) ? 3 : 0;
  if (first >= 0xe1 && first <= 0xef) return tail(1) && tail(2) ? 3 : 0;
  if (first === 0xf0) return within(0x90, 0xbf) && tail(2) && tail(3) ? 4 : 0;
  if (first >= 0xf1 && first <= 0xf3) return tail(1) && tail(2) && tail(3) ? 4 : 0;
  if (first === 0xf4) return within(0x80, 0x8f) && tail(2) && tail(3) ? 4 : 0;
  return 0;
}

// A byte order mark is text like any other here: leaving it out would make a copy differ from its original.
const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
/** Nearly every text. The tests of what may be wrong with the others are slow to prepare. */
const plainLines = /^[\n -~]*$/;
/** Codes 22 to 29 and 39 end a rendition (ECMA-48 8.3.117). */
const offCode = /^.\[(2\d|39)m$/u;
const hasControlInLines = /[^\P{Cc}\t\n]|[\u202a-\u202e\u2066-\u2069]/u;
const control = /\p{Cc}(\[[0-9;:]*m)?|[\u202a-\u202e\u2066-\u2069]/gu;
