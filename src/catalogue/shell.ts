// Arguments of a POSIX shell's command line.

/** Quotes any text, readable if no quotes are needed. Throws for a NUL character, which no argument can hold. */
export function quote(text: string): string {
  if (text.includes('\0')) throw new Error('a shell argument cannot contain a NUL character');
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

const quotedArgument = /(?:[^\s'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+/gs;

/** Splits a line as a shell does (spaces, quotes, backslashes) without expansion. Undefined for an open quote. */
export function splitArguments(line: string): readonly string[] | undefined {
  if (line.replaceAll(quotedArgument, '').trim() !== '') return undefined;
  return (line.match(quotedArgument) ?? []).map((part) =>
    part.replaceAll(
      /'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)/gs,
      (_, single?: string, double?: string, escaped?: string) =>
        single ?? escaped ?? (double ?? '').replaceAll(/\\(["\\$`])/g, '$1'),
    ),
  );
}
