// JSON: files that a person writes are read by JSON.parse. For a file with a mistake the `yaml` package finds the places; loading it
// costs 20 ms, too much for the settings that nearly every command reads.

import { linePosIn, newFindings, placed, type Found, type Place, type Report, printable } from './problems.ts';
import { nestedMost, unseen, type Tree } from './tree.ts';

/** What `read` makes of the JSON, and every problem that it reports. Throws JsonTextError where the text is no JSON (RFC 8259). */
export async function readJson<T>(
  text: string,
  read: (whole: Tree, report: Report) => T,
): Promise<{ readonly value: T; readonly problems: readonly Found[] }> {
  const whole = treeWithoutPlaces(text);
  if (whole !== undefined) {
    const findings = newFindings();
    const value = read(whole, findings);
    if (findings.problems.length === 0) return { value, problems: [] };
  }
  const { parseJson } = await import('./yaml.ts');
  const findings = newFindings();
  return { value: read(parseJson(text), findings), problems: findings.problems };
}

/** Undefined for what is no JSON, and for JSON in which a name is repeated. */
function treeWithoutPlaces(text: string): Tree | undefined {
  if (unseen.test(text)) return undefined;
  let names = 0;
  try {
    const whole = treeOf(JSON.parse(text.replace(/^\uFEFF/, '')), 0, () => (names += 1));
    // In JSON a name is a string before a colon. JSON.parse keeps each name once.
    const strings = [...text.matchAll(/"(?:[^"\\]|\\.)*"(\s*:)?/g)];
    return strings.filter(([, colon]) => colon !== undefined).length === names ? whole : undefined;
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof RangeError) return undefined;
    throw error;
  }
}

function treeOf(value: unknown, depth: number, onName: () => void): Tree {
  if (depth > nestedMost) throw new RangeError('nested too deep');
  const place: Place = { in: 'file', offset: 0 };
  if (Array.isArray(value)) {
    return { kind: 'list', items: value.map((item) => treeOf(item, depth + 1, onName)), place };
  }
  if (typeof value === 'object' && value !== null) {
    const entries = Object.entries(value).map(([name, member]) => {
      onName();
      return [name, { place, value: treeOf(member, depth + 1, onName) }] as const;
    });
    return { kind: 'map', entries: new Map(entries), place, owner: place };
  }
  // JSON.parse makes nothing else.
  const scalar = value as string | number | boolean | null;
  return { kind: 'scalar', value: scalar, source: String(scalar), place };
}

/** A line for each mistake in the JSON of a file: `settings.json:3:5: "local.slots" should be ...; did you mean "x"?`. */
export function jsonLines(text: string, called: string, found: readonly Found[]): readonly string[] {
  return placed(found, linePosIn(text)).map(({ line, column, path, message, suggestion }) => {
    const about = path === '' ? '' : `"${path}" `;
    const meant = suggestion === null ? '' : `; did you mean "${suggestion}"?`;
    return printable(`${called}:${line}:${column}: ${about}${message}${meant}`);
  });
}
