// Text of others (names, log lines, what a cloud said) made harmless: on a terminal it may colour, and nothing else.

/**
 * Control characters become visible (`\x07`), so that no program's output can move the cursor, ring, or retitle the
 * window. Tabs stay, and colours (SGR, ECMA-48 8.3.117) stay unless `colour` is false. Marks that turn the direction of
 * text around are shown as well: they can make a line read as something else.
 */
export function inert(text: string, colour = true): string {
  if (plainAscii.test(text) || !hasControl.test(text)) return text;
  return text.replace(control, (found: string, graphic: string | undefined) => {
    if (found === '\t') return found;
    if (graphic !== undefined && found.startsWith(escape)) return colour ? found : '';
    const code = found.codePointAt(0) ?? 0;
    const shown = code < 0x100 ? `\\x${hex(code, 2)}` : `\\u${hex(code, 4)}`;
    return shown + found.slice(1);
  });
}

/** True when `inert` would change nothing in any line of this text. Asked of a block, it spares the question for each line. */
export function isInert(block: string): boolean {
  return !hasControlInLines.test(block);
}

/** The same for one cell of a table or one line of a sentence: there, a tab or a colour is out of place too. */
export function inertWord(text: string): string {
  return plainAscii.test(text) ? text : inert(text, false).replaceAll('\t', ' ');
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

/** How many bytes the UTF-8 character at `at` has; 0 when there is none (RFC 3629, section 4). */
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
const escape = '\u001b';
/** Nearly every text. The tests of what may be wrong with the others are slow to prepare. */
const plainAscii = /^[ -~]*$/;
const hasControl = /[^\P{Cc}\t]|[\u202a-\u202e\u2066-\u2069]/u;
const hasControlInLines = /[^\P{Cc}\t\n]|[\u202a-\u202e\u2066-\u2069]/u;
const control = /\p{Cc}(\[[0-9;:]*m)?|[\u202a-\u202e\u2066-\u2069]/gu;

function hex(value: number, digits: number): string {
  return value.toString(16).padStart(digits, '0');
}
