// Text of others (names, log lines, what a cloud said) made harmless: on a terminal it may colour, and nothing else.

/**
 * Control characters become visible (`\x07`), so that no program's output can move the cursor, ring, or retitle the
 * window. Tabs stay, and colours (SGR, ECMA-48 8.3.117) stay unless `colour` is false. Characters that change the direction
 * of text become visible too, because they can make a line read as something else.
 */
export function inert(text: string, colour = true): string {
  if (plainAscii.test(text) || !hasControl.test(text)) return text;
  return text.replace(control, (found: string, graphic: string | undefined) => {
    if (found === '\t') return found;
    if (graphic !== undefined && found.startsWith(escape)) return colour ? found : '';
    const code = found.codePointAt(0) ?? 0;
    const shown = code < 0x100 ? `\\x${hexDigits(code, 2)}` : `\\u${hexDigits(code, 4)}`;
    return shown + found.slice(1);
  });
}

/** The same for one cell of a table or one line of a sentence: there, a tab or a colour is out of place too. */
export function inertWord(text: string): string {
  return plainAscii.test(text) ? text : inert(text, false).replaceAll('\t', ' ');
}

const escape = '\u001b';
/** Nearly every text, so that the slower expressions below are rarely compiled. */
const plainAscii = /^[ -~]*$/;
const hasControl = /[^\P{Cc}\t]|[\u202a-\u202e\u2066-\u2069]/u;
const control = /\p{Cc}(\[[0-9;:]*m)?|[\u202a-\u202e\u2066-\u2069]/gu;

/** The code of a character as it is written after a backslash. */
export function hexDigits(value: number, digits: number): string {
  return value.toString(16).padStart(digits, '0');
}
