// Names of users: they appear in columns of tables, in the names of folders and on command lines. Letters of any language
// are allowed. lab/names.ts has the names that only a line of `tpu` forbids.

/** In UTF-16 units. */
const maxNameLength = 64;

/** Unicode NFC, so that a letter with two encodings (é) has one. */
export function normalizeName(name: string): string {
  return name.normalize('NFC');
}

/** Of an identity provider. Nearly all mail servers ignore case, and people type their address in different ones. */
export function normalizeAccount(account: string): string {
  const name = normalizeName(account);
  return name.includes('@') ? name.toLowerCase() : name;
}

/** Joiners that are visible: inside Persian and Indic text, and inside some emoji. */
const joinerPattern =
  /(?<=[\p{L}\p{M}\p{Extended_Pictographic}\uFE0F])(?<!\p{ASCII})[\u200C\u200D](?!\p{ASCII})(?=[\p{L}\p{Extended_Pictographic}])/gu;

/** The reason why no name may have this form, as a clause; null if one may. */
export function formProblem(name: string): string | null {
  if (name === '') return 'it is empty';
  if (name.length > maxNameLength) return `it has more than ${maxNameLength} characters`;
  if (name !== normalizeName(name)) return 'it has decomposed letters; use Unicode NFC';
  // Control and bidirectional characters change the display of a whole line. Unassigned characters and lone surrogates
  // are invisible.
  if (/\p{C}/u.test(name.replaceAll(joinerPattern, ''))) return 'it has an invisible character';
  if (/[\s\p{Z}]/u.test(name)) return 'it has a space';
  if (/[/\\]/.test(name)) return 'it has a slash, and folders have this name';
  if (/^\.+$/.test(name)) return 'every system uses it for a folder';
  if (name.includes('=')) return 'it would be read as key=value';
  if (name.startsWith('-')) return 'it would be read as a flag';
  return null;
}

/** As `formProblem`. */
export function userNameProblem(name: string): string | null {
  return formProblem(name) ?? (/^\d+$/.test(name) ? 'it would be read as the number of a window or directory' : null);
}

/** The sentence of a refusal. Invisible characters are escaped, so that it shows them. */
export function nameRefusal(what: string, name: string, why: string): string {
  const shown = name.replaceAll(/[\p{C}\p{Zl}\p{Zp}]/gu, (sign) => `\\u{${(sign.codePointAt(0) ?? 0).toString(16)}}`);
  return `"${shown}" is not allowed as a ${what}: ${why}. Choose another.`;
}

/** Equal for names that users could confuse: they differ only in case or in the encoding of a letter. */
export function comparisonKey(name: string): string {
  return name.normalize('NFKC').replaceAll(joinerPattern, '').toLowerCase();
}
