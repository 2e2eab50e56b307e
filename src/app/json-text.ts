// JSON text with places: what stands where, so that a mistake in a file that a person writes is told with line and column.
// JSON.parse says where at most in its own words, which change with its version, and of two equal keys keeps the last.

/** Both from 1; a column counts UTF-16 units, as editors do. */
export interface TextPlace {
  readonly line: number;
  readonly column: number;
}

/** A value and where it begins. */
export type JsonNode =
  | { readonly kind: 'object'; readonly at: TextPlace; readonly members: readonly JsonMember[] }
  | { readonly kind: 'array'; readonly at: TextPlace; readonly items: readonly JsonNode[] }
  | { readonly kind: 'single'; readonly at: TextPlace; readonly value: string | number | boolean | null };

/** One `"name": value`; `at` is where the name begins. Two of one name are both there. */
export interface JsonMember {
  readonly name: string;
  readonly at: TextPlace;
  readonly value: JsonNode;
}

/** The text is no JSON: where that shows first, and what is the matter, as a part of a sentence. */
export class JsonTextError extends Error {
  readonly at: TextPlace;

  constructor(message: string, at: TextPlace) {
    super(message);
    this.name = 'JsonTextError';
    this.at = at;
  }
}

const lineEnd = 0x0a;
/** Without the flag i, which makes a class of characters slow to prepare. */
const quotedText = /"(?:[^"\\\p{Cc}]|\\(?:["\\/bfnrt]|u[\da-fA-F]{4}))*"/uy;
const plainNumber = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const names = [
  { word: 'true', value: true },
  { word: 'false', value: false },
  { word: 'null', value: null },
] as const;

/** Deeper than any file of ours; a text that is deeper would end the program with its stack. */
const depthMost = 100;

/** The one value of the text. Throws JsonTextError at the first place that is no JSON (RFC 8259). `called`: what holds it. */
export function jsonIn(text: string, called = 'the file'): JsonNode {
  let at = text.startsWith('\uFEFF') ? 1 : 0;
  // Counted on the way: no line ends but between values.
  let [line, lineAt] = [1, 0];

  const wrong = (message: string, offset = at): never => {
    throw new JsonTextError(message, placeIn(text, offset));
  };
  const blanks = (): void => {
    for (; at < text.length; at += 1) {
      const code = text.charCodeAt(at);
      if (code === lineEnd) [line, lineAt] = [line + 1, at + 1];
      else if (code !== 0x20 && code !== 0x09 && code !== 0x0d) return;
    }
  };
  const placeHere = (): TextPlace => ({ line, column: at - lineAt + 1 });
  const matching = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at;
    return pattern.exec(text)?.[0];
  };
  /** What stands here, for people. */
  const here = (): string => {
    if (at >= text.length) return `${called} ends here`;
    if (text.startsWith('//', at) || text.startsWith('/*', at) || text[at] === '#') {
      return 'JSON has no comments';
    }
    if (text[at] === "'") return 'texts stand between double quotes';
    return `${JSON.stringify(String.fromCodePoint(text.codePointAt(at) ?? 0))} cannot stand here`;
  };

  /** A text of plain letters, as nearly all are: to prepare the pattern takes longer than to read a whole file of settings. */
  function plainString(): string | undefined {
    if (text[at] !== '"') return undefined;
    for (let end = at + 1; end < text.length; end += 1) {
      const code = text.charCodeAt(end);
      if (code === 0x22) return text.slice(at + 1, end);
      if (code < 0x20 || code > 0x7e || code === 0x5c) return undefined;
    }
    return undefined;
  }

  function string(): string {
    const plain = plainString();
    if (plain !== undefined) {
      at += plain.length + 2;
      return plain;
    }
    const quoted = matching(quotedText);
    if (quoted === undefined)
      return wrong(text[at] === '"' ? 'this text does not end on its line, or holds a wrong \\' : here());
    at += quoted.length;
    return JSON.parse(quoted) as string;
  }

  function value(depth: number): JsonNode {
    blanks();
    const place = placeHere();
    if (depth > depthMost) wrong('this is nested too deep');
    if (text[at] === '{') return { kind: 'object', at: place, members: list('}', () => member(depth)) };
    if (text[at] === '[') return { kind: 'array', at: place, items: list(']', () => value(depth + 1)) };
    if (text[at] === '"') return { kind: 'single', at: place, value: string() };
    const name = names.find((one) => text.startsWith(one.word, at));
    if (name !== undefined) {
      at += name.word.length;
      return { kind: 'single', at: place, value: name.value };
    }
    const number = matching(plainNumber);
    if (number === undefined) return wrong(here());
    at += number.length;
    return { kind: 'single', at: place, value: JSON.parse(number) as number };
  }

  function member(depth: number): JsonMember {
    blanks();
    const place = placeHere();
    if (text[at] !== '"') wrong(/[\w$]/.test(text[at] ?? '') ? 'a name stands between double quotes' : here());
    const name = string();
    blanks();
    if (text[at] !== ':') wrong(`a colon should follow the name ${JSON.stringify(name)}`);
    at += 1;
    return { name, at: place, value: value(depth + 1) };
  }

  function list<T>(end: '}' | ']', one: () => T): readonly T[] {
    const items: T[] = [];
    at += 1;
    blanks();
    while (text[at] !== end) {
      items.push(one());
      blanks();
      if (text[at] === end) break;
      if (text[at] !== ',')
        wrong(
          at >= text.length ? `${called} ends here, and "${end}" is missing` : `"," or "${end}" is missing before this`,
        );
      const comma = at;
      at += 1;
      blanks();
      if (text[at] === end) wrong('no comma may stand after the last one', comma);
    }
    at += 1;
    return items;
  }

  const whole = value(0);
  blanks();
  if (at < text.length) wrong(`${called} should hold one object, and goes on here`);
  return whole;
}

/** The value as JSON.parse would have it; of two members of one name the last. */
export function plainJson(node: JsonNode): unknown {
  switch (node.kind) {
    case 'single':
      return node.value;
    case 'array':
      return node.items.map(plainJson);
    case 'object':
      return Object.fromEntries(node.members.map(({ name, value }) => [name, plainJson(value)]));
  }
}

/** As of a text whose places nobody will ask for: every one of them is its beginning. */
function nodeOf(plain: unknown): JsonNode {
  const at = { line: 1, column: 1 };
  if (Array.isArray(plain)) return { kind: 'array', at, items: plain.map(nodeOf) };
  if (typeof plain === 'object' && plain !== null) {
    const members = Object.entries(plain).map(([name, value]) => ({ name, at, value: nodeOf(value) }));
    return { kind: 'object', at, members };
  }
  return { kind: 'single', at, value: plain as string | number | boolean | null };
}

/** Texts as they are, and what stands between them. */
const textOrBlanks = /("(?:[^"\\]|\\.)*")|\s+/g;
/** JSON.parse takes these within a text, and people cannot see them. */
const unseen = /[\u007f-\u009f]/;

/**
 * As jsonIn, without the places (see nodeOf), for a text in which nothing is wrong and every member stands once; undefined for every
 * other, of which jsonIn then tells more. A short command reads a page in a tenth of the time by this.
 */
export function jsonWithoutPlaces(text: string): JsonNode | undefined {
  try {
    const plain: unknown = JSON.parse(text);
    // Of two members of one name one is left, and what was read is then shorter than the text.
    const isAll = !unseen.test(text) && text.replace(textOrBlanks, '$1') === JSON.stringify(plain);
    return isAll ? nodeOf(plain) : undefined;
  } catch {
    return undefined;
  }
}

function placeIn(text: string, offset: number): TextPlace {
  const before = text.slice(0, offset);
  const column = offset - (before.lastIndexOf('\n') + 1) + 1;
  return { line: before.split('\n').length, column };
}
