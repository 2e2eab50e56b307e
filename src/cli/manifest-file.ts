import { hostsOf } from '../app/hosts.ts';
import { basename, dirname, join, resolve } from 'node:path';
import { didYouMean } from '../catalogue/did-you-mean.ts';
import type { JobSpec } from '../core/model/spec.ts';
import type { Instant } from '../core/model/time.ts';
import type { BucketFindings } from '../app/buckets.ts';
import type { Client } from '../app/client.ts';
import { channelsOf } from '../app/notifications/recipients.ts';
import { exitCode, JobmanError, usageError, type ManifestProblem } from '../app/errors.ts';
import { maxSecretBytes } from '../app/secrets.ts';
import type { Settings } from '../app/settings.ts';
import { pluralize } from '../app/format.ts';
import type { NamedBucket } from '../manifest/buckets.ts';
import type { Uploads } from '../manifest/build.ts';
import type { FileReader } from '../manifest/files.ts';
import type { SecretSource } from '../manifest/job-files.ts';
import type { ClusterManifest } from '../manifest/kubernetes.ts';
import { loadManifest, type ProblemAt } from '../manifest/parse.ts';
import { fileProblem, formatProblems, type Problem } from '../schema/problems.ts';
import { parseSetArgument } from '../manifest/overrides.ts';
import type { Cli } from './context.ts';
import { disk } from './disk.ts';

interface Manifest {
  readonly spec: JobSpec;
  readonly uploads: Uploads;
  readonly text: string;
  readonly secretSources: readonly SecretSource[];
}

type LoadedManifest =
  | { readonly manifest: Manifest }
  | { readonly cluster: ClusterManifest; readonly problemAt: ProblemAt };

type ManifestFindings = { readonly warnings: readonly Problem[]; readonly unchecked: string | null } & (
  | LoadedManifest
  | { readonly problems: readonly Problem[] }
);

/** Prints warnings on standard error. Throws a usage error with one line for each problem. */
export async function readManifest(
  cli: Cli,
  path: string,
  sets: readonly string[],
  options: CheckOptions = {},
): Promise<LoadedManifest & { readonly warnings: readonly Problem[] }> {
  const found = await checkManifest(cli, path, sets, options);
  printWarnings(cli, path, found.warnings);
  if (found.unchecked !== null) cli.note(`note: ${found.unchecked}.`);
  if (!('problems' in found)) return found;
  const lines = formatProblems(path, found.problems);
  const count = pluralize(lines.length, 'problem');
  const problems = found.problems.map((problem) => problemJson(path, problem));
  const details = { errorCode: 'invalid_manifest' as const, problems };
  throw new JobmanError(`Nothing was created: the manifest has ${count}.`, exitCode.usage, lines, details);
}

export function problemJson(file: string, { path: key, ...problem }: Problem): ManifestProblem {
  return { file, key, ...problem };
}

export function printWarnings(cli: Cli, path: string, warnings: readonly Problem[]): void {
  const { styleErr } = cli.screen;
  // Bold magenta, like every request for attention: yellow is invisible on a white terminal.
  const label = styleErr('bold', styleErr('magenta', 'warning:'));
  for (const line of formatProblems(path, warnings)) cli.note(`${label} ${line}`);
}

interface CheckOptions {
  /** Then a bucket that the emulator lacks is created. */
  readonly isCreating?: boolean;
  readonly offline?: boolean;
  readonly files?: FileReader;
}

/** The hosts and channels of a server are in its settings. Only the server knows whether it can send mail. */
async function namesOfServer(client: Client): Promise<{ hosts: readonly string[]; channels: readonly string[] }> {
  const [queues, recipients] = await Promise.all([client.hostQueues(), client.recipients()]);
  return {
    hosts: queues.map(({ pool }) => pool),
    channels: ['mail', ...recipients.flatMap(({ recipient, channel }) => (channel === null ? [] : [recipient]))],
  };
}

/** Finds the problems that `create` finds, with the same messages: a manifest that passes may be created. */
export async function checkManifest(
  cli: Cli,
  path: string,
  sets: readonly string[],
  { isCreating = false, offline = false, files = disk }: CheckOptions = {},
): Promise<ManifestFindings> {
  const { io, services } = cli;
  // An unset variable of a script gives an empty path, which would mean the current folder.
  if (path === '') throw usageError('The path of the manifest is empty.');
  if (path === '-') throw usageError('jobman reads manifests from files only, not from standard input.');
  checkExists(path, io.cwd, files);
  const settings = await services.settings();
  const isLocal = offline || (await services.server()) === null;
  const known = isLocal
    ? { hosts: hostsOf(settings).map(({ name }) => name), channels: channelsOf(settings.notify) }
    : await namesOfServer(await services.client());
  const context = {
    file: path,
    cwd: io.cwd,
    sets: sets.map(parseSetArgument),
    home: io.userHome,
    env: io.env,
    files,
    project: settings.tpu.project,
    ...known,
    purpose: 'create',
  } as const;
  const first = loadManifest(context);
  // Only a manifest that may name secrets needs their names from the database.
  const namesSecrets = [first.text ?? '', ...sets].some((text) => text.includes('secret:'));
  const result = namesSecrets && !offline ? loadManifest({ ...context, secretNames: await secretNamesOf(cli) }) : first;
  if ('problems' in result) return { problems: result.problems, warnings: result.warnings, unchecked: null };
  if ('cluster' in result) {
    return { ...result, unchecked: null };
  }
  const { spec, uploads, secretSources, buckets, storedText, problemAt } = result;
  const workdirProblem = uploads.workdir === null ? null : await findWorkdirProblem(cli, uploads.workdir);
  const refused = workdirProblem === null ? [] : [problemAt(['job', 'workdir'], workdirProblem)];
  // No emulator is started for a job that is not created.
  const isRefused = isCreating && refused.length > 0;
  const asked = buckets.length > 0 && spec.capacity.kind === 'tpu' && !offline && !isRefused;
  const found = asked ? await checkBuckets(cli, buckets, spec.capacity.project, isCreating ? spec : null) : noFindings;
  const unpriced = await findUnpricedBudgets(settings, spec, io.now());
  const budgetWarnings = unpriced.map(({ key, message }) =>
    key === null ? fileProblem(message) : problemAt(['job', 'budget'], message),
  );
  const warnings = [...result.warnings, ...budgetWarnings, ...found.warnings];
  const problems = [...refused, ...found.problems];
  if (problems.length > 0) return { problems, warnings, unchecked: found.unchecked };
  return { manifest: { spec, uploads, secretSources, text: storedText }, warnings, unchecked: found.unchecked };
}

async function secretNamesOf({ services }: Cli): Promise<readonly string[]> {
  return (await (await services.client()).secrets()).map(({ name }) => name);
}

/** The values of the job's own secrets, in Base64. Throws JobmanError (2) for one that cannot be read. */
export function readSecretValues(
  { io }: Pick<Cli, 'io'>,
  sources: readonly SecretSource[],
): Readonly<Record<string, string>> {
  const values = sources.map(({ secret, from }) => {
    if (from.kind === 'environment') return [secret, Buffer.from(io.env[from.variable] ?? '')] as const;
    const read = disk.read(from.path, maxSecretBytes);
    if ('detail' in read)
      throw usageError(`Nothing was created: the file of the secret ${secret} cannot be read: ${read.detail}`);
    return [secret, Buffer.from(read.bytes)] as const;
  });
  return Object.fromEntries(values.map(([secret, value]) => [secret, value.toString('base64')]));
}

async function findUnpricedBudgets(settings: Settings, spec: JobSpec, now: Instant) {
  const mayApply = spec.limits.budgetUsd !== undefined || settings.grants.some((one) => one.budgetUsd !== undefined);
  return mayApply ? (await import('../app/grants.ts')).unpricedBudgets(settings, spec, now) : [];
}

function checkExists(path: string, cwd: string, files: FileReader): void {
  const file = resolve(cwd, path);
  if (files.inspect(file).kind !== 'absent') return;
  const folder = files.inspect(dirname(file));
  const manifests = folder.kind === 'folder' ? folder.entries.filter((name) => /\.ya?ml$/.test(name)) : [];
  const near = didYouMean(basename(file), manifests);
  const hint = near === undefined ? '' : ` Did you mean ${join(dirname(path), near)}?`;
  throw usageError(`${path} does not exist.${hint}`);
}

/** Problems that depend on the settings: an unknown flavor, no image. For `validate`: `submit` reports them itself. */
export async function clusterProblems(
  { io, services }: Cli,
  { cluster, problemAt }: Extract<LoadedManifest, { readonly cluster: ClusterManifest }>,
): Promise<readonly Problem[]> {
  const [{ submitRequest }, { readFlavorFile }] = await Promise.all([
    import('../app/cluster/submit-request.ts'),
    import('./cluster/flavor-file.ts'),
  ]);
  const { settings } = await services.clusterSettings();
  try {
    submitRequest(cluster, { settings, generatedName: 'job', readFile: (path) => readFlavorFile(io.cwd, path) });
    return [];
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    const message = [error.message, ...error.lines].join(' ').replace(/\.$/, '');
    const at = cluster.flavor === undefined ? ['kubernetes'] : ['kubernetes', 'flavor'];
    return [problemAt(at, `${message.charAt(0).toLowerCase()}${message.slice(1)}`)];
  }
}

async function findWorkdirProblem({ services }: Cli, from: string): Promise<string | null> {
  try {
    await services.checkWorkdir(from);
    return null;
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    return error.message.replace(/^job\.workdir: /, '').replace(/\.$/, '');
  }
}

const noFindings: BucketFindings = { problems: [], warnings: [], unchecked: null };

async function checkBuckets(
  cli: Cli,
  buckets: readonly NamedBucket[],
  project: string,
  pendingSpec: JobSpec | null,
): Promise<BucketFindings> {
  // Loaded lazily: only a job with a bucket needs it.
  const { checkBucketLocations } = await import('../app/buckets.ts');
  const client = await cli.services.client();
  return checkBucketLocations(buckets, async (names) => {
    const { statuses, notice } = await client.bucketStatuses(project, names, pendingSpec);
    if (notice !== null) cli.note(notice);
    return statuses;
  });
}
