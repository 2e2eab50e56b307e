// Parse: a manifest in, a spec or every problem out. This is the door of the room.

import { basename, dirname, extname } from 'node:path/posix';
import type { JobSpec } from '../core/spec.ts';
import { namedBuckets, type NamedBucket } from './buckets.ts';
import { buildSpec } from './build.ts';
import { readText, pathHere, type Surroundings } from './files.ts';
import { aliasesAt, manifest } from './keys.ts';
import { isKubernetesFile } from './kubernetes-job.ts';
import { misspelt, sayUnknownKeys } from './kinds.ts';
import { readKubernetes, type ClusterManifest } from './kubernetes.ts';
import { overridesOf, withOverrides, applySets, type SetValue } from './overrides.ts';
import type { Path } from '../schema/kinds.ts';
import { newFindings, placed, problemAt, problemOfFile, type Problem } from '../schema/problems.ts';
import { openSections } from './sections.ts';
import { parseText } from './yaml.ts';
import type { Mapping } from '../schema/tree.ts';

export interface ManifestInput extends Omit<Surroundings, 'folder'> {
  readonly text: string;
  /** The manifest's file, absolute. It need not exist: its folder is where relative paths start. */
  readonly file: string;
  readonly sets?: readonly SetValue[];
}

/** Either a spec or problems, never both; and what is worth a warning, which stands in no one's way. */
export type ManifestResult = { readonly warnings: readonly Problem[] } & (
  | {
      readonly spec: JobSpec;
      /** The manifest's text with the values of `sets` in it, for the record. */
      readonly recorded: string;
      readonly buckets: readonly NamedBucket[];
      /** The place of `job.workdir`, for whoever finds that the folder cannot be copied. */
      readonly workdirAt: NamedBucket['at'];
    }
  /** A job that lives in a Kubernetes cluster, and is no spec of ours. */
  | {
      readonly cluster: ClusterManifest;
      /** The place of its flavor or its section: the settings may not have what it asks for. */
      readonly flavorAt: NamedBucket['at'];
    }
  | { readonly problems: readonly Problem[] }
);

/** A manifest larger than this is something else. It is refused by its size, before it is read. */
export const manifestMost = 1024 * 1024;

/** Reads and parses. A file that is missing, a folder, too large, binary or empty is a problem like any other; nothing is thrown. */
export function loadManifest(
  input: Omit<ManifestInput, 'text' | 'file'> & { readonly file: string; readonly cwd: string },
): ManifestResult & { readonly text: string | null } {
  // `~` is the shell's affair here: what reaches us was expanded by it, or quoted on purpose.
  const file = pathHere(input.file.startsWith('~') ? `./${input.file}` : input.file, input.cwd, input.home);
  const read = readText(input.door, file, manifestMost);
  if ('why' in read) {
    const where = read.why === 'does not exist' && file !== input.file ? ` (looked for ${file})` : '';
    return { problems: [problemOfFile(`the manifest ${read.why}${where}`)], warnings: [], text: null };
  }
  return { ...parseManifest({ ...input, file, text: read.text }), text: read.text };
}

/** Parses a manifest's text. Pure but for the files that the manifest names, which come through `door`. */
export function parseManifest(input: ManifestInput): ManifestResult {
  if (isKubernetesFile(input.text)) {
    const message =
      'this is an object of Kubernetes, not a manifest of jobman; to create a Job from the file: jobman submit -f FILE';
    return { problems: [{ ...problemOfFile(message), line: 1, column: 1 }], warnings: [] };
  }
  const findings = newFindings();
  const { tree: written, linePos } = parseText(input.text, findings);
  const problemsNow = (): ManifestResult => ({
    problems: placed(findings.problems, linePos),
    warnings: placed(findings.warnings, linePos),
  });
  if (written === undefined) return problemsNow();

  const set = applySets(written, input.sets ?? [], aliasesAt, findings);
  sayUnknownKeys(set, manifest, [], findings);
  const sections = openSections(asMeant(set), input.env, nameOf(input.file), input.purpose, findings);
  const around = { ...input, folder: dirname(input.file) };
  const locate = (path: Path) => problemAt({ ...sections.at(path), message: '' }, linePos);
  if (sections.stands('kubernetes')) {
    const cluster = readKubernetes(sections, around);
    if (findings.problems.length > 0) return problemsNow();
    const flavorAt = locate(cluster.flavor === undefined ? ['kubernetes'] : ['kubernetes', 'flavor']);
    return { cluster, flavorAt, warnings: placed(findings.warnings, linePos) };
  }
  const spec = buildSpec(sections, nameOf(input.file), around);
  if (findings.problems.length > 0) return problemsNow();
  if (spec === undefined) throw new Error('a manifest without problems gave no spec');
  const mounts = spec.steps.some(({ name }) => name === 'gcsfuse');
  const buckets = mounts ? namedBuckets(sections, spec.capacity, locate) : [];
  const overrides = overridesOf(input.sets ?? []);
  return {
    spec: overrides.length === 0 ? spec : { ...spec, overrides },
    recorded: withOverrides(input.text, written, overrides),
    buckets,
    workdirAt: locate(['job', 'workdir']),
    warnings: placed(findings.warnings, linePos),
  };
}

/** The tree with each misspelt section under the name that was meant: what is wrong inside is told in the same round. */
function asMeant(tree: Mapping): Mapping {
  const entries = new Map(tree.entries);
  for (const [name, written] of misspelt(tree, manifest.keys ?? {})) {
    const entry = tree.entries.get(written);
    if (entry !== undefined && !entries.has(name)) entries.set(name, entry);
  }
  return { ...tree, entries };
}

function nameOf(file: string): string {
  const plain = basename(file, extname(file))
    .replace(/[\s/]+/g, '-')
    .replace(/^-+/, '')
    .slice(0, 100);
  return /^\d{0,6}$/.test(plain) ? `job-${plain}` : plain;
}
