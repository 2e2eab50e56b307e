// Sections: reads the sections of a manifest one at a time. Unused sections are checked for their form only.

import { manifest, usedName, type Section, type SectionName } from './keys.ts';
import { notGiven, readIfGiven, type Path } from '../schema/kinds.ts';
import { formatPath, newFindings, type SourcePosition, type Report } from '../schema/problems.ts';
import { childOf, isNull, treeAt, type Mapping, type Tree } from '../schema/tree.ts';

export interface Sections {
  /** True when the manifest has a value at that path, even an invalid one. A null does not count. */
  has(path: Path): boolean;
  isPresent(name: SectionName): boolean;
  /** Undefined when the section is absent or invalid as a whole; problems are reported. Safe to repeat. */
  read<N extends SectionName>(name: N): Section<N> | undefined;
  /** Text at that path before interpolation; undefined where there is none. */
  sourceText(path: Path): string | undefined;
  /** Reads a section that the job does not use: reports its mistakes, but no missing keys. */
  readUnused(name: SectionName): void;
  /** False once a problem of the section has been reported; then its absent values mean nothing. */
  isValid(name: string): boolean;
  /** Position and written path of a key of the table. An absent key has the position of its nearest parent. */
  positionOf(path: Path): { readonly position: SourcePosition; readonly path: string };
  readonly problem: (path: Path, message: string, suggestion?: string) => void;
  readonly warning: (path: Path, message: string, suggestion?: string) => void;
  /** Something is missing on this machine: a problem for `create`, a warning for `check` (the job ran elsewhere). */
  readonly missingHere: (path: Path, message: string, suggestion?: string) => void;
}

/** `values`: the section of that name, with its references replaced. */
export function openSections(
  tree: Mapping,
  values: (name: string, report: Report) => Tree | undefined,
  purpose: 'create' | 'check',
  findings: Report,
): Sections {
  const invalidSections = new Set<string>();
  const report: Report = {
    problem(finding) {
      invalidSections.add(/^[^.[]*/.exec(finding.path)?.[0] ?? '');
      findings.problem(finding);
    },
    warning: (finding) => findings.warning(finding),
  };
  const resolved = new Map<string, Tree>();

  const positionOf: Sections['positionOf'] = (path) => {
    const [name = ''] = path;
    let position = tree.entries.get(String(name))?.position ?? tree.position;
    let node: Tree | undefined = resolved.get(String(name)) ?? treeAt(tree, [name]);
    const names: (string | number)[] = path.slice(0, 1);
    for (const [index, part] of path.slice(1).entries()) {
      // A single value counts as a list of one and has no index.
      if (node?.kind === 'scalar' && typeof part === 'number') continue;
      const own = usedName(node, path.slice(0, index + 2));
      names.push(own);
      node = node === undefined ? undefined : childOf(node, own);
      position = node?.position ?? position;
    }
    return { position, path: formatPath(names) };
  };

  const read = new Map<string, unknown>();
  const readSection = (name: SectionName, onResolve: Report, onRead: Report): unknown => {
    const value = values(name, onResolve);
    const key = manifest.keys?.[name];
    if (value === undefined || key === undefined) return undefined;
    resolved.set(name, value);
    const section = readIfGiven(value, key.kind, [name], onRead);
    return section === notGiven ? undefined : section;
  };

  const problem: Sections['problem'] = (path, message, suggestion) =>
    report.problem({ ...positionOf(path), message, suggestion });
  const warning: Sections['warning'] = (path, message, suggestion) =>
    report.warning({ ...positionOf(path), message, suggestion });

  return {
    has: (path) => !isNull(treeAt(tree, path)),
    isPresent: (name) => tree.entries.has(name),
    read<N extends SectionName>(name: N) {
      if (!read.has(name)) read.set(name, readSection(name, report, report));
      // The cast restores the section's type, which the lookup by name loses.
      return read.get(name) as Section<N> | undefined;
    },
    sourceText(path) {
      const node = treeAt(tree, path);
      return node?.kind === 'scalar' ? node.source : undefined;
    },
    readUnused(name) {
      const problem: Report['problem'] = (finding) =>
        finding.isMissing === true ? undefined : report.problem(finding);
      readSection(name, newFindings(), { ...report, problem });
    },
    isValid: (name) => !invalidSections.has(name),
    positionOf,
    problem,
    warning,
    missingHere: purpose === 'create' ? problem : warning,
  };
}
