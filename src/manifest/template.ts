// Template: splits a text with `${…}` into its parts; interpolate.ts finds their values.
//
// The grammar is OmegaConf's, which manifests of the older jobman use: `${a.b}`, `${list[0]}`, relative `${.x}` and
// `${..x}`, nested `${a.${b}}`, resolvers `${oc.env:HOME,none}`, and `\${` for a plain `${`. A shell script uses `${…}`
// for its own variables. Inside a script, a name with a dot or a bracket is a manifest key, a simple name may be either
// (interpolate.ts checks the manifest), and everything else belongs to the shell.

export type Part =
  | { readonly kind: 'text'; readonly text: string }
  /** `name` is a path in the manifest; its parts may be templates. */
  | { readonly kind: 'name'; readonly name: readonly Part[]; readonly written: string; readonly mayBeShell: boolean }
  | { readonly kind: 'resolver'; readonly name: string; readonly args: readonly Arg[]; readonly written: string }
  | { readonly kind: 'mistake'; readonly message: string; readonly written: string };

/** An argument of a resolver: a template, or quoted text, which is never read as a number. */
export interface Arg {
  readonly parts: readonly Part[];
  readonly isQuoted: boolean;
}

/** Replaces a nested `${…}` while the text around it is classified. */
const nestedPlaceholder = '\uE010';

const key = `[\\p{L}\\p{N}_${nestedPlaceholder}-]+`;
const namePattern = new RegExp(`^\\s*\\.*${key}(?:\\.${key}|\\[\\s*${key}\\s*\\])*\\s*$`, 'u');
const resolverPattern = /^\s*([A-Za-z_][A-Za-z0-9_.]*)\s*:/;
/** A text that begins with a name with a dot or a bracket refers to the manifest, even when its rest is invalid. */
const manifestNamePattern = new RegExp(`^\\s*(?:\\.+${key}|${key}[.[])`, 'u');
/** Whole shell arrays such as `${hosts[@]}`, which no manifest key can be. */
const shellArrayPattern = /^[A-Za-z_]\w*\[[@*]\]/;

/** A longer text is not a name: a script can have that much text between two braces. */
const maxNameLength = 2000;
const maxDepth = 16;

/** Splits a text. `isShell`: the text is a script, in which parts that are not manifest keys stay unchanged. */
export function parseTemplate(text: string, isShell: boolean, depth = 0): readonly Part[] {
  const ends = findClosings(text);
  const parts: Part[] = [];
  let literal = '';
  const add = (part: Part) => {
    if (literal !== '') parts.push({ kind: 'text', text: literal });
    literal = '';
    parts.push(part);
  };

  let at = 0;
  while (at < text.length) {
    const start = text.indexOf('${', at);
    if (start === -1) break;
    // Backslashes count only before `${`: an odd one escapes it, and each pair is one backslash.
    let slashes = 0;
    while (start - slashes > at && text[start - slashes - 1] === '\\') slashes += 1;
    literal += text.slice(at, start - slashes) + '\\'.repeat(Math.floor(slashes / 2));
    if (slashes % 2 === 1) {
      literal += '${';
      at = start + 2;
      continue;
    }
    const end = ends.get(start);
    const part =
      end === undefined ? unclosed(text, start, isShell) : classify(text.slice(start + 2, end), isShell, depth);
    if (part === 'shell') {
      // Copies only the opening, because the inside may contain manifest keys: `${NAME:-${vars.x}}`.
      literal += '${';
      at = start + 2;
    } else {
      add(part);
      at = end === undefined ? text.length : end + 1;
    }
  }
  literal += text.slice(at);
  if (literal !== '' || parts.length === 0) parts.push({ kind: 'text', text: literal });
  return parts;
}

export function isTemplate(text: string): boolean {
  return text.includes('${');
}

function unclosed(text: string, start: number, isShell: boolean): Part | 'shell' {
  if (isShell) return 'shell';
  const written = text.slice(start, start + 30).split('\n', 1)[0] ?? '';
  return { kind: 'mistake', message: `${written} has no closing brace; write \\\${ for a literal \${`, written };
}

function classify(inner: string, isShell: boolean, depth: number): Part | 'shell' {
  const written = `\${${inner}}`;
  const masked = maskNested(inner.slice(0, maxNameLength));
  if (depth > maxDepth)
    return { kind: 'mistake', message: `names are nested deeper than ${maxDepth} levels`, written: '' };
  if (inner.length <= maxNameLength && namePattern.test(masked)) {
    const bare = !/[.[]/.test(masked);
    return { kind: 'name', name: parseTemplate(inner.trim(), false, depth + 1), written, mayBeShell: isShell && bare };
  }
  const resolver = resolverPattern.exec(masked);
  if (resolver?.[1]?.includes('.') === true) {
    return {
      kind: 'resolver',
      name: resolver[1],
      args: parseArgs(inner.slice(resolver[0].length), depth + 1),
      written,
    };
  }
  if (isShell && (shellArrayPattern.test(masked) || !manifestNamePattern.test(masked))) return 'shell';
  const shown = written.length > 60 ? `${written.slice(0, 57)}...` : written;
  const hint = isShell ? `; write \\${shown} if it is a shell expression` : '; write \\${ for a literal ${';
  return { kind: 'mistake', message: `${shown} is not a valid key${hint}`, written };
}

function parseArgs(text: string, depth: number): readonly Arg[] {
  if (text.trim() === '') return [];
  const args: string[] = [];
  let current = '';
  let quote = '';
  let brackets = 0;
  for (let at = 0; at < text.length; at += 1) {
    const character = text[at] ?? '';
    if (quote !== '') {
      if (character === quote) quote = '';
    } else if (character === '"' || character === "'") quote = character;
    else if ('[{('.includes(character)) brackets += 1;
    else if (']})'.includes(character)) brackets -= 1;
    else if (character === ',' && brackets === 0) {
      args.push(current);
      current = '';
      continue;
    }
    current += character;
  }
  args.push(current);
  return args.map((raw) => {
    const arg = raw.trim();
    const isQuoted = /^(["']).*\1$/s.test(arg) && arg.length > 1;
    return { parts: parseTemplate(isQuoted ? arg.slice(1, -1) : arg, false, depth), isQuoted };
  });
}

/** Maps each `${` to its closing brace, in one pass, so that a text with a hundred thousand of them stays fast. */
function findClosings(text: string): ReadonlyMap<number, number> {
  const ends = new Map<number, number>();
  const open: number[] = [];
  for (let at = 0; at < text.length; at += 1) {
    const character = text[at];
    if (character === '{') open.push(text[at - 1] === '$' ? at - 1 : -1);
    else if (character === '}') {
      const start = open.pop();
      if (start !== undefined && start !== -1) ends.set(start, at);
    }
  }
  return ends;
}

/** Replaces every nested `${…}` by one character, so that the outer form can be matched. */
function maskNested(inner: string): string {
  const masked = inner.replaceAll(/\$\{[^{}]*\}/g, nestedPlaceholder);
  return masked === inner ? masked : maskNested(masked);
}
