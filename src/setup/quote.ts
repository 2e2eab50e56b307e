// Quote: the one way by which a word of the user, or of this program, gets into a shell script.

/** One word of a POSIX shell, whatever it holds. Throws for a zero byte, which no shell can carry. */
export function quote(word: string): string {
  if (word.includes('\0')) throw new Error('a word of a shell script cannot hold a zero byte');
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
}

/** A path on a worker as one word: `~` and `~/x` are below the login folder of whoever runs the script. */
export function quotePath(path: string): string {
  if (path === '~') return '"$HOME"';
  return path.startsWith('~/') ? `"$HOME"/${quote(path.slice(2))}` : quote(path);
}

/**
 * Writes a text to a file, without a shell ever reading it: `target` is a shell word. The file ends with a newline. Marks in the
 * text stay replaceable, which is why it is not encoded.
 */
export function writeFile(target: string, text: string): string {
  const lines = text.split('\n');
  let end = 'JOBMAN_END';
  while (lines.includes(end)) end += '_';
  return `cat >${target} <<'${end}'\n${text.endsWith('\n') || text === '' ? text : `${text}\n`}${end}\n`;
}

/** Splits a line of flags as a shell does (spaces, quotes, backslashes), without expanding anything. Undefined when a quote is open. */
export function splitWords(line: string): readonly string[] | undefined {
  const words: string[] = [];
  let word: string | undefined;
  let quoting = '';
  for (let at = 0; at < line.length; at += 1) {
    const character = line[at] ?? '';
    if (quoting === "'" && character !== "'") word += character;
    else if (character === quoting && quoting !== '') quoting = '';
    else if (quoting === '' && (character === '"' || character === "'")) {
      quoting = character;
      word ??= '';
    } else if (character === '\\' && quoting !== "'") {
      const next = line[at + 1];
      if (next === undefined) return undefined;
      // Inside double quotes a backslash keeps itself, except before what it protects.
      word = `${word ?? ''}${quoting === '"' && !'"\\$`'.includes(next) ? '\\' : ''}${next}`;
      at += 1;
    } else if (quoting === '' && /\s/.test(character)) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else word = `${word ?? ''}${character}`;
  }
  if (quoting !== '') return undefined;
  if (word !== undefined) words.push(word);
  return words;
}
