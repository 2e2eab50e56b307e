// A manifest from the command line: the file, the `--set`s, the settings; a spec comes out, or every problem at once.

import type { JobSpec } from '../core/spec.ts';
import type { BucketFindings } from '../app/buckets.ts';
import { JobmanError, usageError } from '../app/errors.ts';
import { countText } from '../app/figures.ts';
import type { NamedBucket } from '../manifest/buckets.ts';
import type { FileDoor } from '../manifest/files.ts';
import type { ClusterManifest } from '../manifest/kubernetes.ts';
import { loadManifest } from '../manifest/parse.ts';
import { formatProblems, type Problem } from '../schema/problems.ts';
import { parseSet } from '../manifest/overrides.ts';
import type { Cli } from './context.ts';
import { disk } from './disk.ts';

interface Manifest {
  readonly spec: JobSpec;
  readonly text: string;
}

/** A manifest of a job of ours, or of one that lives in a Kubernetes cluster. */
type ManifestRead =
  | { readonly manifest: Manifest }
  | { readonly cluster: ClusterManifest; readonly flavorAt: NamedBucket['at'] };

type ManifestFindings = { readonly warnings: readonly Problem[]; readonly unchecked: string | null } & (
  | ManifestRead
  | { readonly problems: readonly Problem[] }
);

/** The manifest, its warnings said on standard error. Throws a usage error with one line for each problem. */
export async function readManifest(
  cli: Cli,
  path: string,
  sets: readonly string[],
  options: CheckOptions = {},
): Promise<ManifestRead & { readonly warnings: readonly Problem[] }> {
  const found = await checkManifest(cli, path, sets, options);
  sayWarnings(cli, path, found.warnings);
  if (found.unchecked !== null) cli.note(`note: ${found.unchecked}.`);
  if (!('problems' in found)) return found;
  const lines = formatProblems(path, found.problems);
  const count = countText(lines.length, 'problem');
  throw usageError(`Nothing was created: the manifest has ${count}.`, lines);
}

/** One line for each, in the form of problems, behind a word that stands out. */
export function sayWarnings(cli: Cli, path: string, warnings: readonly Problem[]): void {
  const { err } = cli.screen;
  // Bold magenta as everything that asks for attention: yellow vanishes on a white terminal.
  const word = err('bold', err('magenta', 'warning:'));
  for (const line of formatProblems(path, warnings)) cli.note(`${word} ${line}`);
}

interface CheckOptions {
  /** The job is created if nothing is wrong: a bucket that the emulator lacks is then made for it. */
  readonly isCreating?: boolean;
  readonly offline?: boolean;
  readonly door?: FileDoor;
}

/**
 * The same with all findings as values, and nothing printed. A check finds the problems that `create` finds, in the same
 * words: a manifest that passes may be created.
 */
export async function checkManifest(
  cli: Cli,
  path: string,
  sets: readonly string[],
  { isCreating = false, offline = false, door = disk }: CheckOptions = {},
): Promise<ManifestFindings> {
  const { io, services } = cli;
  // As of a script's variable that is not set; it would be read as the folder we stand in.
  if (path === '') throw usageError('The path of the manifest is empty.');
  const settings = await services.settings();
  const result = loadManifest({
    file: path,
    cwd: io.cwd,
    sets: sets.map(parseSet),
    home: io.userHome,
    env: io.env,
    door,
    project: settings.tpu.project,
    purpose: 'create',
  });
  if ('problems' in result) return { problems: result.problems, warnings: result.warnings, unchecked: null };
  if ('cluster' in result) {
    const { cluster, flavorAt, warnings } = result;
    return { cluster, flavorAt, warnings, unchecked: null };
  }
  const { spec, buckets, recorded, workdirAt } = result;
  const trouble = spec.workdir === undefined ? null : await workdirTrouble(cli, spec.workdir.from);
  const refused = trouble === null ? [] : [{ ...workdirAt, message: trouble, suggestion: null }];
  // For a job that is not created, no emulator is started.
  const isRefused = isCreating && refused.length > 0;
  const asked = buckets.length > 0 && spec.capacity.kind === 'tpu' && !offline && !isRefused;
  const found = asked ? await askForBuckets(cli, buckets, spec.capacity.project, isCreating ? spec : null) : nothing;
  const { unchecked } = found;
  const warnings = [...result.warnings, ...found.warnings];
  const problems = [...refused, ...found.problems];
  if (problems.length > 0) return { problems, warnings, unchecked };
  return { manifest: { spec, text: recorded }, warnings, unchecked };
}

/**
 * What the settings make of a cluster's job: a flavor that they do not have, no image. For `validate`; who submits it may say these
 * in flags, and hears it from there.
 */
export async function clusterProblems(
  { io, services }: Cli,
  { cluster, flavorAt }: Extract<ManifestRead, { readonly cluster: ClusterManifest }>,
): Promise<readonly Problem[]> {
  const [{ submitRequest }, { flavorFile }] = await Promise.all([
    import('../app/cluster/submit-request.ts'),
    import('./cluster/submission.ts'),
  ]);
  const { settings } = await services.clusterSettings();
  try {
    submitRequest(cluster, { settings, freshName: 'job', readFile: (path) => flavorFile(io.cwd, path) });
    return [];
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    const said = [error.message, ...error.lines].join(' ').replace(/\.$/, '');
    return [{ ...flavorAt, message: `${said.charAt(0).toLowerCase()}${said.slice(1)}`, suggestion: null }];
  }
}

async function workdirTrouble({ services }: Cli, from: string): Promise<string | null> {
  try {
    await services.checkWorkdir(from);
    return null;
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    return error.message.replace(/^job\.workdir: /, '').replace(/\.$/, '');
  }
}

const nothing: BucketFindings = { problems: [], warnings: [], unchecked: null };

async function askForBuckets(
  cli: Cli,
  buckets: readonly NamedBucket[],
  project: string,
  coming: JobSpec | null,
): Promise<BucketFindings> {
  // Loaded here: a job without a bucket has no use for it.
  const { checkBucketPlaces } = await import('../app/buckets.ts');
  const wanted = coming === null ? undefined : { spec: coming, say: (sentence: string) => cli.note(sentence) };
  return checkBucketPlaces(buckets, await cli.services.buckets(project, wanted));
}
