// Sections: reads the sections of a manifest one by one, those that are used strictly and the others only for their shape.

import { aliasesAt, keysAround, kindAt, manifest, type Section, type SectionName } from './keys.ts';
import { interpolation } from './interpolate.ts';
import { absent, readGiven, type Path } from '../schema/kinds.ts';
import { pathText, type Place, type Report } from '../schema/problems.ts';
import { didYouMean } from '../catalogue/did-you-mean.ts';
import { childOf, isNull, type Mapping, type Tree } from '../schema/tree.ts';

export interface Sections {
  /** True when something stands at that path of the file, be it wrong; null counts as nothing. */
  has(path: Path): boolean;
  stands(name: SectionName): boolean;
  /** The section's values. Undefined when it is not there or wrong as a whole; what is wrong is reported. Safe to repeat. */
  read<N extends SectionName>(name: N): Section<N> | undefined;
  /** The text as written at that path, before anything is put in; undefined where there is none. */
  written(path: Path): string | undefined;
  /** Reads a section that is not used: slips in it are reported, what it lacks is not. */
  readUnused(name: SectionName): void;
  /** False once a problem of the section has been reported: then nothing can be supposed from what it does not hold. */
  isSound(name: SectionName): boolean;
  /** The place of a key, by its path in the table, and the path as the user wrote it. For a key that is not there, the nearest that is. */
  at(path: Path): { readonly place: Place; readonly path: string };
  readonly problem: (path: Path, message: string, suggestion?: string) => void;
  readonly warning: (path: Path, message: string, suggestion?: string) => void;
  /** Reports what is missing on this machine: a problem for `create`, and a warning for a check of a job that ran elsewhere. */
  readonly missing: (path: Path, message: string) => void;
}

export function openSections(
  tree: Mapping,
  env: Readonly<Record<string, string | undefined>>,
  defaultName: string,
  purpose: 'create' | 'check',
  findings: Report,
): Sections {
  const unsound = new Set<string>();
  const report: Report = {
    problem(found) {
      unsound.add(/^[^.[]*/.exec(found.path)?.[0] ?? '');
      findings.problem(found);
    },
    warning: (found) => findings.warning(found),
  };
  const values = interpolation({
    tree,
    env,
    defaultName,
    isScript: (path) => kindAt(path)?.isScript === true,
    aliases: aliasesAt,
    isKnown: (path) => kindAt(path) !== undefined && !isFree(path),
    meant: (path) => meantBy(path, tree),
  });
  const silent: Report = { problem: () => {}, warning: () => {} };
  const resolved = new Map<string, Tree>();

  const resolve = (name: string, to: Report): Tree | undefined => {
    const value = values(name, to);
    if (value !== undefined) resolved.set(name, value);
    return value;
  };

  const written = (path: Path): Tree | undefined => writtenIn(tree, path);

  const at: Sections['at'] = (path) => {
    const [name = ''] = path;
    let place = tree.entries.get(String(name))?.place ?? tree.place;
    let node: Tree | undefined = resolved.get(String(name)) ?? written([name]);
    const names: (string | number)[] = path.slice(0, 1);
    for (const [index, part] of path.slice(1).entries()) {
      // One value alone is a list of one, and has no index of its own.
      if (node?.kind === 'scalar' && typeof part === 'number') continue;
      const own = nameUsed(node, part, path.slice(0, index + 2));
      names.push(own);
      node = node === undefined ? undefined : childOf(node, own);
      place = node?.place ?? place;
    }
    return { place, path: pathText(names) };
  };

  const read = new Map<string, unknown>();
  const readSection = (name: SectionName): unknown => {
    const value = resolve(name, report);
    const key = manifest.keys?.[name];
    if (value === undefined || key === undefined) return undefined;
    const section = readGiven(value, key.kind, [name], report);
    return section === absent ? undefined : section;
  };

  const problem: Sections['problem'] = (path, message, suggestion) =>
    report.problem({ ...at(path), message, suggestion });
  const warning: Sections['warning'] = (path, message, suggestion) =>
    report.warning({ ...at(path), message, suggestion });

  return {
    has: (path) => !isNull(written(path)),
    stands: (name) => tree.entries.has(name),
    read<N extends SectionName>(name: N) {
      if (!read.has(name)) read.set(name, readSection(name));
      // The table says what each section reads as; the lookup by name loses that.
      return read.get(name) as Section<N> | undefined;
    },
    written(path) {
      const node = written(path);
      return node?.kind === 'scalar' ? node.source : undefined;
    },
    readUnused(name) {
      const value = resolve(name, silent);
      const key = manifest.keys?.[name];
      if (value === undefined || key === undefined) return;
      readGiven(value, key.kind, [name], {
        ...report,
        problem: (found) => (found.isLack === true ? undefined : report.problem(found)),
      });
    },
    isSound: (name) => !unsound.has(name),
    at,
    problem,
    warning,
    missing: purpose === 'create' ? problem : warning,
  };
}

function writtenIn(tree: Tree, path: Path): Tree | undefined {
  let node: Tree | undefined = tree;
  for (const part of path) node = node?.kind === 'map' ? node.entries.get(String(part))?.value : undefined;
  return node;
}

function nameUsed(node: Tree | undefined, part: string | number, path: Path): string | number {
  if (node?.kind !== 'map') return part;
  return [String(part), ...aliasesAt(path)].find((name) => node.entries.has(name)) ?? part;
}

/** Keys of the user's own have no place in the table: they are there or they are not. */
function isFree(path: Path): boolean {
  const keys = keysAround(path);
  return path[0] === 'vars' || keys === undefined || !Object.hasOwn(keys, String(path.at(-1)));
}

/** The key that `${...}` most likely meant: among all that the manifest has and all that it may have at that place. */
function meantBy(path: Path, tree: Mapping): string | undefined {
  const before = path.slice(0, -1);
  const node = writtenIn(tree, before);
  const given = node?.kind === 'map' ? [...node.entries.keys()] : [];
  const last = didYouMean(String(path.at(-1)), [...given, ...Object.keys(keysAround(path) ?? {})]);
  if (last !== undefined) return pathText([...before, last]);
  // The section may be the slip: `${comand.lr}`.
  const section = didYouMean(String(path[0]), [...tree.entries.keys()]);
  return section === undefined || section === path[0] ? undefined : pathText([section, ...path.slice(1)]);
}
