// Plain YAML: the little of it that kubectl and the tools of clouds write. A whole YAML library takes as long to load and to warm
// up as a cluster takes to answer, so it is asked only about files that hold more than this: anchors, tags, texts over several
// lines, numbers. What is read here means the same there; a test holds the two together.

/** Lines with something in them. */
interface Line {
  readonly indent: number;
  readonly text: string;
}

/** Something that this reader leaves to others. */
class NotPlain extends Error {}

/** What the text holds, maps as objects; undefined where it is empty or holds more than is known here, or is wrong. */
export function readPlainYaml(text: string): unknown {
  try {
    const lines = linesOf(text);
    if (lines.length === 0) return undefined;
    const reader: Reader = { lines, at: 0 };
    const value = block(reader, lines[0]?.indent ?? 0);
    return reader.at === lines.length ? value : undefined;
  } catch (error) {
    if (error instanceof NotPlain) return undefined;
    throw error;
  }
}

function linesOf(text: string): readonly Line[] {
  const lines: Line[] = [];
  if (/\r(?!\n)/.test(text)) throw new NotPlain();
  for (const written of text.split('\n')) {
    const line = written.replace(/ *\r?$/, '');
    const indent = line.length - line.replace(/^ */, '').length;
    if (line === '' || line[indent] === '#') continue;
    // A mark of the beginning may stand once, at the top.
    if (line === '---' && lines.length === 0) continue;
    if (/^(?:---|\.\.\.|%)/.test(line)) throw new NotPlain();
    lines.push({ indent, text: line.slice(indent) });
  }
  return lines;
}

interface Reader {
  readonly lines: readonly Line[];
  at: number;
}

/** The map or the list that begins at this line. */
function block(reader: Reader, indent: number): unknown {
  return isItem(reader.lines[reader.at]?.text ?? '') ? list(reader, indent) : map(reader, indent, undefined);
}

function isItem(text: string): boolean {
  return text === '-' || text.startsWith('- ');
}

function list(reader: Reader, indent: number): unknown[] {
  const items: unknown[] = [];
  for (
    let line = reader.lines[reader.at];
    line?.indent === indent && isItem(line.text);
    line = reader.lines[reader.at]
  ) {
    const after = line.text.replace(/^- */, '');
    reader.at += 1;
    if (after === '') items.push(below(reader, indent));
    // A map begins behind its dash, and goes on in that column.
    else if (/^[\w.-]+:(?: |$)/.test(after)) items.push(map(reader, indent + line.text.length - after.length, after));
    else if (isItem(after)) throw new NotPlain();
    else items.push(single(reader, after, indent));
  }
  return items;
}

/** `first`: its first line, where that stood behind a dash and has been passed. */
function map(reader: Reader, indent: number, first: string | undefined): Record<string, unknown> {
  const found: Record<string, unknown> = {};
  let text = first;
  for (;;) {
    if (text === undefined) {
      const line = reader.lines[reader.at];
      if (line === undefined || line.indent < indent) return found;
      if (line.indent > indent) throw new NotPlain();
      // The list that this map stands in goes on.
      if (isItem(line.text)) return found;
      text = line.text;
      reader.at += 1;
    }
    const [, key, said = ''] = /^([\w.-]+):(?: +(.*))?$/.exec(text) ?? [];
    if (key === undefined || !isName(key) || Object.hasOwn(found, key)) throw new NotPlain();
    found[key] = said === '' ? below(reader, indent, true) : single(reader, said, indent);
    text = undefined;
  }
}

/** What stands below a key or a dash; null where nothing does. A list may stand in the column of its key. */
function below(reader: Reader, indent: number, mayBeBeside = false): unknown {
  const line = reader.lines[reader.at];
  if (line === undefined) return null;
  if (line.indent > indent) return block(reader, line.indent);
  return mayBeBeside && line.indent === indent && isItem(line.text) ? list(reader, indent) : null;
}

/** A value on one line. One that goes on below is left to others. */
function single(reader: Reader, text: string, indent: number): unknown {
  if ((reader.lines[reader.at]?.indent ?? 0) > indent) throw new NotPlain();
  const flow: Flow = { text, at: 0 };
  const value = text[0] === '{' || text[0] === '[' || text[0] === '"' || text[0] === "'" ? inFlow(flow) : plain(text);
  if (flow.at !== 0 && flow.at !== text.length) throw new NotPlain();
  return value;
}

/** A text without quotes, to the end of its line. */
function plain(text: string): unknown {
  // A word, a path or a flag at its beginning, and nothing in it that ends a text or begins another thing.
  if (!/^(?:[A-Za-z/~]|--[A-Za-z])/.test(text) || /: |:$| #|\t/.test(text)) throw new NotPlain();
  return meaning(text);
}

/** Words that mean something else than themselves (YAML 1.2, core schema). */
function meaning(text: string): unknown {
  if (/^(?:null|Null|NULL|~)$/.test(text)) return null;
  if (/^(?:true|True|TRUE)$/.test(text)) return true;
  if (/^(?:false|False|FALSE)$/.test(text)) return false;
  return text;
}

/** Where the reading of a line with brackets or quotes stands. */
interface Flow {
  readonly text: string;
  at: number;
}

function inFlow(flow: Flow): unknown {
  const take = (pattern: RegExp): string => {
    pattern.lastIndex = flow.at;
    const [found] = pattern.exec(flow.text) ?? [];
    if (found === undefined) throw new NotPlain();
    flow.at += found.length;
    return found;
  };
  const begin = flow.text[flow.at];
  if (begin === '"') return fromJson(take(/"(?:[^"\\]|\\["\\/bfnrt])*"/y));
  if (begin === "'")
    return take(/'(?:[^']|'')*'/y)
      .slice(1, -1)
      .replaceAll("''", "'");
  if (begin !== '{' && begin !== '[') return meaning(take(/[A-Za-z/][\w./-]*(?= *[,}\]])/y));
  const end = begin === '{' ? '}' : ']';
  const items: unknown[] = [];
  const found: Record<string, unknown> = {};
  take(/[{[] */y);
  while (flow.text[flow.at] !== end) {
    if (begin === '[') items.push(inFlow(flow));
    else {
      const key = take(/[\w.-]+: +/y).replace(/: +$/, '');
      if (!isName(key) || Object.hasOwn(found, key)) throw new NotPlain();
      found[key] = inFlow(flow);
    }
    take(/ */y);
    if (flow.text[flow.at] === end) break;
    take(/, */y);
    // A comma before the end is YAML; nobody writes it.
    if (flow.text[flow.at] === end) throw new NotPlain();
  }
  flow.at += 1;
  return begin === '[' ? items : found;
}

function fromJson(quoted: string): unknown {
  try {
    return JSON.parse(quoted);
  } catch {
    throw new NotPlain();
  }
}

/** A key that is a text and nothing else. */
function isName(key: string): boolean {
  return /^[A-Za-z]/.test(key) && key !== '__proto__' && typeof meaning(key) === 'string';
}
