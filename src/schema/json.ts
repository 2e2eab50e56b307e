// JSON: JSON.parse reads correct files. Only for a file with mistakes the `yaml` package finds their positions: loading
// it takes 20 ms, too long for the settings that nearly every command reads.

import {
  linePosOf,
  newFindings,
  toProblems,
  type Findings,
  type FoundProblem,
  type SourcePosition,
  type Report,
  formatProblems,
} from './problems.ts';
import { maxDepth, type Tree } from './tree.ts';

/** Returns the result of `read` and what it reports; undefined for text that is not JSON. */
export async function readJson<T>(
  text: string,
  read: (tree: Tree, report: Report) => T,
): Promise<Pick<Findings, 'problems' | 'warnings'> & { readonly value: T | undefined }> {
  const tree = treeWithoutPositions(text);
  if (tree !== undefined) {
    const findings = newFindings();
    const value = read(tree, findings);
    if (findings.problems.length + findings.warnings.length === 0) return { value, problems: [], warnings: [] };
  }
  const { parseJson } = await import('./yaml.ts');
  const findings = newFindings();
  const positioned = parseJson(text, findings);
  const value = positioned === undefined ? undefined : read(positioned, findings);
  return { value, problems: findings.problems, warnings: findings.warnings };
}

/** Undefined for text that is not JSON, and for JSON with a repeated name. */
function treeWithoutPositions(text: string): Tree | undefined {
  let names = 0;
  try {
    const tree = treeOf(JSON.parse(text.replace(/^\uFEFF/, '')), 0, () => (names += 1));
    // JSON.parse keeps only one of two equal names, so count the strings before a colon.
    const strings = [...text.matchAll(/"(?:[^"\\]|\\.)*"(\s*:)?/g)];
    return strings.filter(([, colon]) => colon !== undefined).length === names ? tree : undefined;
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof RangeError) return undefined;
    throw error;
  }
}

/** Of a value that JSON.parse has returned. Throws RangeError for one that is nested too deep. */
export function treeOf(value: unknown, depth = 0, onName: () => void = () => undefined): Tree {
  if (depth > maxDepth) throw new RangeError('nested too deep');
  const position: SourcePosition = { in: 'file', offset: 0 };
  if (Array.isArray(value)) {
    return { kind: 'list', items: value.map((item) => treeOf(item, depth + 1, onName)), position };
  }
  if (typeof value === 'object' && value !== null) {
    const entries = Object.entries(value).map(([name, member]) => {
      onName();
      return [name, { position, value: treeOf(member, depth + 1, onName) }] as const;
    });
    return { kind: 'map', entries: new Map(entries), position, keyPosition: position };
  }
  // JSON.parse returns no other types.
  const scalar = value as string | number | boolean | null;
  return { kind: 'scalar', value: scalar, source: String(scalar), position };
}

/** One line for each mistake. */
export function formatJsonProblems(text: string, file: string, findings: readonly FoundProblem[]): readonly string[] {
  return formatProblems(file, toProblems(findings, linePosOf(text)));
}
