import { basename, dirname, extname } from 'node:path/posix';
import { secretNamesOf, type JobSpec } from '../core/model/spec.ts';
import { namedBuckets, type NamedBucket } from './buckets.ts';
import { buildSpec, type Uploads } from './build.ts';
import { readTextFile, localPath, type ManifestContext } from './files.ts';
import { manifest } from './keys.ts';
import { secretSources, type SecretSource } from './job-files.ts';
import { isKubernetesFile, readKubernetes, type ClusterManifest } from './kubernetes.ts';
import { misspelledKeys, reportUnknownKeys } from './kinds.ts';
import { overridesOf, storedTextOf, type SetArgument } from './overrides.ts';
import type { Path } from '../schema/kinds.ts';
import { newFindings, toProblems, toProblem, fileProblem, type Problem } from '../schema/problems.ts';
import { createInterpolator } from './interpolate.ts';
import { openSections } from './sections.ts';
import { parseText } from './yaml.ts';
import type { Mapping } from '../schema/tree.ts';

export interface ManifestInput extends Omit<ManifestContext, 'folder'> {
  readonly text: string;
  /** Absolute. The file need not exist; relative paths start at its folder. */
  readonly file: string;
  readonly sets?: readonly SetArgument[];
}

/** A later problem with the value of a key, such as one that depends on the settings. */
export type ProblemAt = (path: Path, message: string) => Problem;

/** Either a job or problems, never both; a job in a cluster has no spec. Warnings do not prevent the job. */
export type ManifestResult = { readonly warnings: readonly Problem[] } & (
  | {
      readonly spec: JobSpec;
      readonly uploads: Uploads;
      /** The manifest's text with the values of `sets`, as stored with the job. */
      readonly storedText: string;
      readonly buckets: readonly NamedBucket[];
      readonly secretSources: readonly SecretSource[];
      readonly problemAt: ProblemAt;
    }
  | { readonly cluster: ClusterManifest; readonly problemAt: ProblemAt }
  | { readonly problems: readonly Problem[] }
);

/** A larger file is refused before it is read. */
export const maxManifestBytes = 1024 * 1024;

/** Reports a missing, too large, binary or empty file or a folder like any other problem. Never throws. */
export function loadManifest(
  input: Omit<ManifestInput, 'text' | 'file'> & { readonly file: string; readonly cwd: string },
): ManifestResult & { readonly text: string | null } {
  // The shell expands `~`. A `~` that is still in the argument was quoted and belongs to the file's name.
  const file = localPath(input.file.startsWith('~') ? `./${input.file}` : input.file, input.cwd, input.home);
  const read = readTextFile(input.files, file, maxManifestBytes);
  if ('reason' in read) return { problems: [fileProblem(`the manifest ${read.reason}`)], warnings: [], text: null };
  return { ...parseManifest({ ...input, file, text: read.text }), text: read.text };
}

/** Parses a manifest's text. Pure except for the files that the manifest names, which it reads through `files`. */
export function parseManifest(input: ManifestInput): ManifestResult {
  const findings = newFindings();
  const sets = input.sets ?? [];
  const { tree, linePos } = parseText(input.text, sets, findings);
  const foreign = foreignFormatMessage(input.text, tree);
  if (foreign !== undefined) return { problems: [{ ...fileProblem(foreign), line: 1, column: 1 }], warnings: [] };
  const warnings = () => toProblems(findings.warnings, linePos);
  const problemResult = () => ({ problems: toProblems(findings.problems, linePos), warnings: warnings() });
  if (tree === undefined) return problemResult();

  reportUnknownKeys(tree, manifest, [], findings);
  const corrected = withCorrectedSections(tree);
  const values = createInterpolator(corrected, input.env, defaultNameOf(input.file));
  const sections = openSections(corrected, values, input.purpose, findings);
  const context = { ...input, folder: dirname(input.file) };
  const problemAt: ProblemAt = (path, message) => toProblem({ ...sections.positionOf(path), message }, linePos);
  if (sections.isPresent('kubernetes')) {
    const cluster = readKubernetes(sections, context);
    return findings.problems.length > 0 ? problemResult() : { cluster, problemAt, warnings: warnings() };
  }
  const built = buildSpec(sections, defaultNameOf(input.file), context);
  if (findings.problems.length > 0) return problemResult();
  if (built === undefined) throw new Error('a manifest without problems gave no spec');
  const { spec, uploads } = built;
  const mounts = spec.steps.some(({ name }) => name === 'gcsfuse');
  const buckets = mounts ? namedBuckets(sections, spec.capacity, problemAt) : [];
  const overrides = overridesOf(sets);
  return {
    spec: overrides.length === 0 ? spec : { ...spec, overrides },
    uploads,
    storedText: storedTextOf(input.text, overrides),
    buckets,
    secretSources: secretSources(sections, secretNamesOf(spec, 'job'), context),
    problemAt,
    warnings: warnings(),
  };
}

/** Recognises the files of other tools by their own top-level keys; undefined for a manifest. */
function foreignFormatMessage(text: string, tree: Mapping | undefined): string | undefined {
  if (isKubernetesFile(text))
    return 'This is a Kubernetes object, not a jobman manifest. Create the Job with: jobman submit FILE';
  if (/^#SBATCH\b/m.test(text)) return 'This looks like a Slurm script; see docs/migrating.md';
  if (tree === undefined || Object.keys(manifest.keys ?? {}).some((name) => name !== 'setup' && tree.entries.has(name)))
    return undefined;
  const hasKey = (name: string): boolean => tree.entries.has(name);
  const type = tree.entries.get('type')?.value;
  const isDstack =
    type?.kind === 'scalar' && /^(?:task|dev-environment|service|fleet|volume|gateway)$/.test(type.source);
  if (isDstack || hasKey('fleets')) return 'This looks like a dstack configuration; see docs/migrating.md';
  const others = ['setup', 'envs', 'file_mounts', 'num_nodes', 'workdir'];
  const isSkypilotTask = hasKey('resources') || (hasKey('run') && others.some(hasKey));
  return isSkypilotTask ? 'This looks like a SkyPilot task; see docs/migrating.md' : undefined;
}

/** Allows problems inside a misspelled section to be reported in the same run. */
function withCorrectedSections(tree: Mapping): Mapping {
  const entries = new Map(tree.entries);
  for (const [name, misspelled] of misspelledKeys(tree, manifest.keys ?? {})) {
    const entry = tree.entries.get(misspelled);
    if (entry !== undefined && !entries.has(name)) entries.set(name, entry);
  }
  return { ...tree, entries };
}

function defaultNameOf(file: string): string {
  const plain = basename(file, extname(file))
    .replace(/[\s/]+/g, '-')
    .replace(/^-+/, '')
    .slice(0, 100);
  return /^\d{0,6}$/.test(plain) ? `job-${plain}` : plain;
}
