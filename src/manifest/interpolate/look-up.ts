// Look up: the value that a name of a manifest stands for.

import { jobIdMark, nodeNameMark } from '../../core/spec.ts';
import type { Path } from '../../schema/kind.ts';
import { pathText, type Place } from '../../schema/problems.ts';
import { childOf, isNull, type Mapping, type Scalar, type Tree } from '../../schema/tree.ts';
import { parsePath } from '../paths.ts';
import { isTemplate } from '../template.ts';
import type { Site } from './messages.ts';

export interface LookUpInput {
  readonly tree: Mapping;
  /** The job's name where `job.name` gives none. */
  readonly defaultName: string;
  /** Other names under which the same key may stand: `cmd` for `command.run`. */
  readonly aliases: (path: Path) => readonly string[];
}

/** The path that a name means where it is written; undefined when it leads out of the manifest. */
export function absolute(name: string, site: Site): Path | undefined {
  const dots = /^\.*/.exec(name)?.[0].length ?? 0;
  const path = parsePath(name.slice(dots));
  if (path === undefined || dots > site.path.length) return undefined;
  return dots === 0 ? path : [...site.path.slice(0, site.path.length - dots), ...path];
}

/**
 * The value at a path; a key may stand under another of its names, and an index may be written after a dot. Undefined when
 * nothing stands there. `resolve` puts values into what is found.
 */
export function lookUp(
  path: Path,
  site: Site,
  input: LookUpInput,
  resolve: (path: Path, raw: Tree) => Tree,
): Tree | undefined {
  const { entries } = input.tree;
  const name = pathText(path);
  // The name that the cloud sees is known only when the node is asked for. What is asked of the cloud itself (the section
  // tpu) is read before that, with the name as written.
  if (name === 'tpu.name' && site.path[0] !== 'tpu' && entries.has('tpu')) return scalar(nodeNameMark, site.place);
  // The id is known only once the job exists. A job of a cluster has none.
  if (name === 'job.id' && !entries.has('kubernetes')) return scalar(jobIdMark, site.place);
  const job = entries.get('job')?.value;
  if (name === 'job.name' && isNull(job?.kind === 'map' ? childOf(job, 'name') : undefined)) {
    return scalar(input.defaultName, site.place);
  }

  let at: Tree = input.tree;
  let walked: Path = [];
  for (const [index, part] of path.entries()) {
    if (at.kind === 'scalar' && typeof at.value === 'string' && isTemplate(at.value)) {
      // A section that is itself an interpolation: what stands below it is final already.
      return below(resolve(walked, at), path.slice(index));
    }
    const own = nameIn(at, part, walked, input);
    const next: Tree | undefined = own === undefined ? undefined : childOf(at, own);
    if (own === undefined || next === undefined) return undefined;
    walked = [...walked, own];
    at = next;
  }
  return resolve(walked, at);
}

/** The name under which a container holds a part of a path, among all names of that key. */
function nameIn(tree: Tree, part: string | number, walked: Path, input: LookUpInput): string | number | undefined {
  if (tree.kind === 'list') return /^\d+$/.test(String(part)) ? Number(part) : undefined;
  if (tree.kind !== 'map') return undefined;
  return [String(part), ...input.aliases([...walked, part])].find((name) => tree.entries.has(name));
}

function below(tree: Tree, path: Path): Tree | undefined {
  let at: Tree | undefined = tree;
  for (const part of path) {
    if (at === undefined || at.kind === 'unknown') return at;
    at = childOf(at, part);
  }
  return at;
}

export function scalar(value: string, place: Place): Scalar {
  return { kind: 'scalar', value, source: value, place };
}
