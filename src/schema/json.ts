// JSON with places, for files that a person writes: a mistake is told with its line and column. JSON.parse tells no place of
// most mistakes, and of two members with one name it keeps the last. The `yaml` package takes comments, trailing commas and
// bare words, and loading it costs every command 20 ms: nearly all of them read a file of settings.

import { linePosIn, placed, type Found, type Place } from './problems.ts';
import type { Entry, Repeated, Tree } from './tree.ts';

/** The text is no JSON. */
export class JsonTextError extends Error {
  /** The first place that is no JSON, with the reason as a part of a sentence. */
  readonly found: Found;

  constructor(found: Found) {
    super(found.message);
    this.name = 'JsonTextError';
    this.found = found;
  }
}

const blanks = /[ \t\r\n]*/y;
/** JSON.parse takes \u007f to \u009f within a text, and people cannot see them. */
// oxlint-disable-next-line no-control-regex -- Control characters are what is refused here.
const quotedText = /"(?:[^"\\\u0000-\u001f\u007f-\u009f]|\\(?:["\\/bfnrt]|u[\da-fA-F]{4}))*"/y;
const single = /true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;

/** Deeper than any file of ours; a text that is deeper would end the program with its stack. */
const depthMost = 100;

/**
 * The one value of the text. `called` is what holds it, for messages. Throws JsonTextError at the first place that is no JSON
 * (RFC 8259): a comment and a trailing comma are none. Members with a name that is already there are in `repeated`.
 */
export function parseJson(text: string, called = 'the file'): Tree {
  let at = text.startsWith('\uFEFF') ? 1 : 0;

  const wrong = (message: string, offset = at): never => {
    throw new JsonTextError({ place: place(offset), path: '', message });
  };
  /** The text that matches here, and steps over it. */
  const take = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at;
    const found = pattern.exec(text)?.[0];
    at += found?.length ?? 0;
    return found;
  };
  const next = (): string | undefined => {
    take(blanks);
    return text[at];
  };
  const notHere = (): never => {
    if (at >= text.length) return wrong(`${called} ends here`);
    if (/^(?:\/\/|\/\*|#)/.test(text.slice(at, at + 2))) return wrong('JSON has no comments');
    if (text[at] === "'") return wrong('texts stand between double quotes');
    return wrong(`${JSON.stringify(String.fromCodePoint(text.codePointAt(at) ?? 0))} cannot stand here`);
  };
  const string = (): string => {
    const quoted = take(quotedText);
    if (quoted !== undefined) return JSON.parse(quoted) as string;
    return text[at] === '"' ? wrong('this text does not end on its line, or holds a wrong \\') : notHere();
  };
  const list = (end: '}' | ']', readOne: () => void): void => {
    at += 1;
    while (next() !== end) {
      readOne();
      if (next() === end) break;
      if (at >= text.length) wrong(`${called} ends here, and "${end}" is missing`);
      if (text[at] !== ',') wrong(`"," or "${end}" is missing before this`);
      const comma = at;
      at += 1;
      if (next() === end) wrong('no comma may stand after the last one', comma);
    }
    at += 1;
  };
  const value = (owner: number | null, depth: number): Tree => {
    const first = next();
    const here = place(at);
    if (depth > depthMost) wrong('this is nested too deep');
    if (first === '{') {
      const entries = new Map<string, Entry>();
      const repeated: Repeated[] = [];
      list('}', () => {
        const nameAt = at;
        if (text[at] !== '"' && /[\w$]/.test(text[at] ?? '')) wrong('a name stands between double quotes');
        const name = string();
        if (next() !== ':') wrong(`a colon should follow the name ${JSON.stringify(name)}`);
        at += 1;
        const entry: Entry = { place: place(nameAt), value: value(nameAt, depth + 1) };
        const before = entries.get(name);
        if (before === undefined) entries.set(name, entry);
        else repeated.push({ name, place: entry.place, first: before.place });
      });
      return { kind: 'map', entries, repeated, place: here, owner: owner === null ? here : place(owner) };
    }
    if (first === '[') {
      const items: Tree[] = [];
      list(']', () => items.push(value(null, depth + 1)));
      return { kind: 'list', items, place: here };
    }
    if (first === '"') {
      const written = string();
      return { kind: 'scalar', value: written, source: written, place: here };
    }
    const source = take(single) ?? notHere();
    return { kind: 'scalar', value: JSON.parse(source) as number | boolean | null, source, place: here };
  };

  const whole = value(null, 0);
  if (next() !== undefined) wrong(`${called} should hold one object, and goes on here`);
  return whole;
}

function place(offset: number): Place {
  return { in: 'file', offset };
}

/** A line for each mistake in the JSON of a file: `settings.json:3:5: "local.slots" should be ...; did you mean "x"?`. */
export function jsonLines(text: string, called: string, found: readonly Found[]): readonly string[] {
  return placed(found, linePosIn(text)).map(({ line, column, path, message, suggestion }) => {
    const about = path === '' ? '' : `"${path}" `;
    const meant = suggestion === null ? '' : `; did you mean "${suggestion}"?`;
    return `${called}:${line}:${column}: ${about}${message}${meant}`;
  });
}
