// The one way in which a word that is not ours enters a shell text.

/** The word in single quotes, taken literally by every POSIX shell. Throws on a NUL, which no shell word can hold. */
export function quote(word: string): string {
  if (word.includes('\0')) throw new Error('a shell word cannot hold a NUL character');
  return `'${word.replaceAll("'", `'\\''`)}'`;
}
