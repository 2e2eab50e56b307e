// The one way by which a word gets into a script that the lab makes.

/** The word as one word of a POSIX shell, taken literally. Throws on a NUL, which no shell word can hold. */
export function shellWord(word: string): string {
  if (word.includes('\0')) throw new Error('a shell word cannot hold a NUL character');
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
}
