// Template: a text with `${…}` in it, taken apart. What each part stands for is found out in interpolate.ts.
//
// The grammar is OmegaConf's, since the manifests of the older jobman were written for it: `${a.b}`, `${list[0]}`,
// relative `${.x}` and `${..x}`, nested `${a.${b}}`, resolvers `${oc.env:HOME,none}`, and `\${` for a plain `${`.
// A shell script uses the same two characters for its own variables, so inside one the border is drawn here: a name with a
// dot or a bracket is ours, a bare name may be either (interpolate.ts asks the manifest), everything else is the shell's.

export type Part =
  | { readonly kind: 'text'; readonly text: string }
  /** `name` is a path of the manifest, whose parts may be templates themselves. */
  | { readonly kind: 'name'; readonly name: readonly Part[]; readonly written: string; readonly mayBeShell: boolean }
  | { readonly kind: 'resolver'; readonly name: string; readonly args: readonly Arg[]; readonly written: string }
  | { readonly kind: 'mistake'; readonly message: string; readonly written: string };

/** One argument of a resolver: a template, or quoted text, which is never taken for a number. */
export interface Arg {
  readonly parts: readonly Part[];
  readonly quoted: boolean;
}

/** Stands for a nested `${…}` while the text around it is classified. */
const hole = '\uE010';

const key = `[\\p{L}\\p{N}_${hole}-]+`;
const namePattern = new RegExp(`^\\s*\\.*${key}(?:\\.${key}|\\[\\s*${key}\\s*\\])*\\s*$`, 'u');
const resolverPattern = /^\s*([A-Za-z_][A-Za-z0-9_.]*)\s*:/;
/** A name with a dot or a bracket at the head of something: ours, even when the rest is not understood. */
const oursPattern = new RegExp(`^\\s*(?:\\.+${key}|${key}[.[])`, 'u');
/** Whole arrays of a shell, which no key of ours can be: `${hosts[@]}`. */
const shellArrayPattern = /^[A-Za-z_]\w*\[[@*]\]/;

/** A name longer than this is none; a script may well have that much between two braces. */
const nameMost = 2000;
const depthMost = 16;

/** Takes a text apart. `shell`: the text is a script, where what is not ours is left as it stands. */
export function parseTemplate(text: string, shell: boolean, depth = 0): readonly Part[] {
  const ends = closings(text);
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
    // Backslashes count only before a `${`: an odd one takes its meaning away, each pair stands for one.
    let slashes = 0;
    while (start - slashes > at && text[start - slashes - 1] === '\\') slashes += 1;
    literal += text.slice(at, start - slashes) + '\\'.repeat(Math.floor(slashes / 2));
    if (slashes % 2 === 1) {
      literal += '${';
      at = start + 2;
      continue;
    }
    const end = ends.get(start);
    const part = end === undefined ? unclosed(text, start, shell) : classify(text.slice(start + 2, end), shell, depth);
    if (part === 'shell') {
      // Only the opening is copied: what stands inside may hold names of ours again, `${NAME:-${vars.x}}`.
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

function unclosed(text: string, start: number, shell: boolean): Part | 'shell' {
  if (shell) return 'shell';
  const written = text.slice(start, start + 30).split('\n', 1)[0] ?? '';
  return { kind: 'mistake', message: `${written} has no closing brace; write \\\${ for a plain \${`, written };
}

function classify(inner: string, shell: boolean, depth: number): Part | 'shell' {
  const written = `\${${inner}}`;
  const masked = mask(inner.slice(0, nameMost));
  if (depth > depthMost)
    return { kind: 'mistake', message: `names are nested deeper than ${depthMost} levels`, written: '' };
  if (inner.length <= nameMost && namePattern.test(masked)) {
    const bare = !/[.[]/.test(masked);
    return { kind: 'name', name: parseTemplate(inner.trim(), false, depth + 1), written, mayBeShell: shell && bare };
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
  if (shell && (shellArrayPattern.test(masked) || !oursPattern.test(masked))) return 'shell';
  const shown = written.length > 60 ? `${written.slice(0, 57)}...` : written;
  const hint = shell ? `; write \\${shown} when it is the shell's` : '; write \\${ for a plain ${';
  return { kind: 'mistake', message: `${shown} is no name of a key${hint}`, written };
}

/** The arguments of a resolver, split at commas that are not inside quotes, brackets or a nested `${…}`. */
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
    const quoted = /^(["']).*\1$/s.test(arg) && arg.length > 1;
    return { parts: parseTemplate(quoted ? arg.slice(1, -1) : arg, false, depth), quoted };
  });
}

/** For each `${`, where its brace is closed: one pass, so that a text of a hundred thousand of them is no trouble. */
function closings(text: string): ReadonlyMap<number, number> {
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

/** The text with every nested `${…}` made one character, so that its own shape can be seen. */
function mask(inner: string): string {
  const ends = closings(inner);
  let masked = '';
  for (let at = 0; at < inner.length; at += 1) {
    const end = ends.get(at);
    if (end === undefined) masked += inner[at];
    else {
      masked += hole;
      at = end;
    }
  }
  return masked;
}
