// Setup modules: from sections to modules. A section that is not chosen is allowed, because users keep docker, conda
// and venv in one manifest and switch.

import { basename } from 'node:path/posix';
import { bucketPlaceholder, type CapacitySpec, isOnThisMachine } from '../core/model/spec.ts';
import type {
  BucketCache,
  CondaModule,
  DockerModule,
  GcsfuseModule,
  SetupModule,
  SshKey,
  SshModule,
  VenvModule,
} from '../setup/modules.ts';
import { mountsOf, bucketNameOf } from './buckets.ts';
import {
  fileProblem,
  readNamedFile,
  readTextFile,
  leavesHome,
  localPath,
  remotePath,
  type ManifestContext,
} from './files.ts';
import { fileRef, readJobFiles, readNamedSecret } from './job-files.ts';
import type { CacheSection, Section, ModuleName } from './keys.ts';
import { environmentNames, type EnvironmentName } from './keys/environments.ts';
import type { Sections } from './sections.ts';
import type { Path } from '../schema/kinds.ts';

export function readModules(
  sections: Sections,
  choice: ModuleChoice,
  context: ManifestContext,
): readonly SetupModule[] {
  const readers = {
    files: readJobFiles,
    ssh: readSsh,
    gcsfuse: readGcsfuse,
    docker: readDocker,
    conda: readConda,
    venv: readVenv,
  };
  return choice.modules.flatMap((name): SetupModule | readonly [] => readers[name](sections, context) ?? []);
}

function readSsh(sections: Sections, context: ManifestContext): SshModule | undefined {
  const ssh = sections.read('ssh');
  if (ssh === undefined) return undefined;
  const login = readLoginKey(sections, context);
  const keys: SshKey[] = [];
  const configEntries: string[] = [];
  // Older form: one key pair, with which the workers log in to each other.
  const loginPublicKey = readPublicKey(sections, ['ssh', 'tpu_public_key'], ssh.tpu_public_key, context);
  if (loginPublicKey !== null && login !== null) {
    keys.push({ ...login, publicKey: loginPublicKey, isAuthorized: true });
    configEntries.push(sliceSshEntry(login.file));
  } else if (loginPublicKey !== null && !['private_key', 'tpu_private_key'].some((key) => sections.has(['ssh', key])))
    sections.problem(['ssh', 'tpu_public_key'], 'requires ssh.private_key, the other half of the key');
  const written = new Map<string, string>();
  for (const [index, identity] of (ssh.identities ?? []).entries()) {
    const at = (key: string): Path => ['ssh', 'identities', index, key];
    const publicKey = readPublicKey(sections, at('public_key'), identity.public_key, context);
    const isLogin = identity.private_key !== undefined && identity.private_key === ssh.private_key;
    const key = isLogin
      ? login
      : readPrivateKey(sections, at('private_key'), identity.private_key, `ssh.identities.${index}`, context);
    if (key === null) continue;
    const source = keySource(identity.private_key ?? '', context);
    const other = written.get(key.file);
    if (other !== undefined && other !== source) {
      const message = `two keys have the name ${key.file} and would overwrite each other in ~/.ssh of the workers`;
      sections.problem(['ssh', 'identities'], message);
    }
    written.set(key.file, source);
    keys.push({ ...key, publicKey, isAuthorized: isLogin });
    if (identity.config_entry !== undefined) configEntries.push(identity.config_entry);
  }
  return { name: 'ssh', keys, configEntries };
}

type PrivateKey = Pick<SshKey, 'file' | 'privateKey'>;

/** The key with which jobman logs in; null for its own. */
export function readLoginKey(sections: Sections, context: ManifestContext): PrivateKey | null {
  const written = sections.read('ssh')?.private_key;
  return readPrivateKey(sections, ['ssh', 'private_key'], written, 'ssh.private_key', context);
}

/** The path of its file, or the reference to a secret. */
function keySource(written: string, { folder, home }: ManifestContext): string {
  return written.startsWith('secret:') ? written : localPath(written, folder, home);
}

/** A path, or `secret:NAME`. `secret` is the name under which `create` stores the file. */
function readPrivateKey(
  sections: Sections,
  at: Path,
  written: string | undefined,
  secret: string,
  context: ManifestContext,
): PrivateKey | null {
  if (written === undefined) return null;
  const named = readNamedSecret(sections, at, written, context);
  if (named !== null) return { file: named.secret, privateKey: named };
  const path = localPath(written, context.folder, context.home);
  const problem = fileProblem(context.files.inspect(path));
  if (problem !== undefined) sections.missingHere(at, `the key file ${path} ${problem}`);
  return { file: basename(path), privateKey: fileRef(path, secret, context) };
}

function readPublicKey(
  sections: Sections,
  at: Path,
  written: string | undefined,
  { files, folder, home }: ManifestContext,
): SshKey['publicKey'] {
  if (written === undefined) return null;
  const path = localPath(written, folder, home);
  const read = readTextFile(files, path, maxPublicKeyBytes);
  if ('text' in read) return { file: basename(path), text: read.text };
  sections.missingHere(at, `the key file ${path} ${read.reason}`);
  return null;
}

const maxPublicKeyBytes = 64 * 1024;

/** The addresses inside a slice begin with 10. */
function sliceSshEntry(file: string): string {
  return `Host 10.*\n  IdentityFile ~/.ssh/${file}\n  IdentitiesOnly yes\n  StrictHostKeyChecking accept-new`;
}

function readGcsfuse(sections: Sections): GcsfuseModule | undefined {
  const gcsfuse = sections.read('gcsfuse');
  if (gcsfuse === undefined) return undefined;
  const paths = new Set<string>();
  const mounts = mountsOf(gcsfuse).flatMap(
    ({ at, bucket_name: bucket = gcsfuse.bucket_name, mount_path: path, cache }) => {
      if (path === undefined) return [];
      const onWorker = workerPath(sections, [...at, 'mount_path'], path);
      if (paths.has(onWorker)) sections.problem([...at, 'mount_path'], `${path} is mounted twice`);
      paths.add(onWorker);
      if (bucket === undefined) return [];
      return [{ bucket: bucketOrPlaceholder(bucket), path: onWorker, cache: bucketCache(cache) }];
    },
  );
  return { name: 'gcsfuse', mounts };
}

function bucketOrPlaceholder(bucket: string | Readonly<Record<string, string>>): string {
  if (typeof bucket === 'string') return bucketNameOf(bucket);
  return bucketPlaceholder(
    Object.fromEntries(Object.entries(bucket).map(([region, name]) => [region, bucketNameOf(name)])),
  );
}

/** Flags as in `gcsfuse --help`, version 2 and later. */
const cacheFlags = {
  metadata_ttl_secs: 'metadata-cache-ttl-secs',
  stat_cache_max_size_mb: 'stat-cache-max-size-mb',
  type_cache_max_size_mb: 'type-cache-max-size-mb',
  file_cache_max_size_mb: 'file-cache-max-size-mb',
  cache_file_for_range_read: 'file-cache-cache-file-for-range-read',
  enable_parallel_downloads: 'file-cache-enable-parallel-downloads',
} satisfies Partial<Record<keyof CacheSection, string>>;

function bucketCache(cache: Partial<CacheSection> = {}): BucketCache {
  const flags = Object.entries(cacheFlags).flatMap(([key, flag]) => {
    const value = cache[key as keyof typeof cacheFlags];
    return value === undefined ? [] : [`--${flag}=${value}`];
  });
  return { dir: cache.dir === undefined ? null : remotePath(cache.dir), flags, prepareScript: cache.prefix ?? null };
}

function readDocker(sections: Sections): DockerModule | undefined {
  const docker = sections.read('docker');
  if (docker === undefined) return undefined;
  if (docker.image === undefined) return undefined;
  return {
    name: 'docker',
    image: docker.image,
    envVars: docker.env_vars ?? [],
    mounts: docker.mount_dirs ?? [],
    workdir: sections.read('command')?.workdir ?? docker.workdir ?? null,
    flags: (docker.flags ?? []).flat(),
  };
}

/** It is stored in the job. */
function readEnvironmentFile(sections: Sections, at: Path, path: string | undefined, context: ManifestContext) {
  return readNamedFile(sections, at, path, 256 * 1024, context);
}

function readConda(sections: Sections, context: ManifestContext): CondaModule | undefined {
  const conda = sections.read('conda');
  const config = readEnvironmentFile(sections, ['conda', 'config_file'], conda?.config_file, context);
  return config === undefined || conda?.name === undefined
    ? undefined
    : { name: 'conda', environment: conda.name, config };
}

function readVenv(sections: Sections, context: ManifestContext): VenvModule | undefined {
  const venv: Partial<Section<'venv'>> | undefined = sections.read('venv');
  if (venv === undefined) return undefined;
  const requirements = readEnvironmentFile(sections, ['venv', 'requirements_file'], venv.requirements_file, context);
  const folder =
    venv.path === undefined ? `~/venv/${venv.name ?? 'venv'}` : workerPath(sections, ['venv', 'path'], venv.path);
  if (venv.path !== undefined && venv.name !== undefined && basename(remotePath(venv.path)) !== venv.name) {
    sections.problem(['venv', 'path'], `${venv.path} does not end with the name ${venv.name}; remove path or name`);
  }
  if (requirements === undefined) return undefined;
  const other =
    requirements === null ? null : /^\s*(-r|-c|--requirement|--constraint|-e|\.{1,2}\/)[^\n]*/m.exec(requirements);
  if (other !== null) {
    sections.warning(['venv', 'requirements_file'], `refers to another file (${other[0].trim()}), which is not copied`);
  }
  return {
    name: 'venv',
    folder,
    python: venv.python === undefined ? 'python3' : venv.python.replace(/^(?=\d)/, 'python'),
    requirements,
  };
}

/** A path on a worker. Reports one that leaves the login folder (`~name/`, `~/..`). */
export function workerPath(sections: Sections, at: Path, path: string): string {
  if (leavesHome(path))
    sections.problem(at, `${path} is outside the login folder; write an absolute path, or a path that begins with ~/`);
  return remotePath(path);
}

type StepModule = Exclude<ModuleName, 'command'>;

export interface ModuleChoice {
  /** In the order of the steps; `files` is first unless `setup.modules` lists it elsewhere. */
  readonly modules: readonly StepModule[];
  readonly environments: readonly EnvironmentName[];
}

/** Reports a listed module without its section, two environments, and an ambiguous choice of environment. */
export function chooseModules(
  sections: Sections,
  job: Partial<Section<'job'>>,
  { modules: listed }: Partial<Section<'setup'>>,
  capacity: CapacitySpec | undefined,
): ModuleChoice {
  const isPresent = (name: StepModule): boolean => {
    if (name === 'files') return job.files !== undefined && job.files.length > 0;
    return sections.has([name]) && !/^(false|no|off)$/i.test(sections.sourceText([name, 'enabled']) ?? '');
  };
  const steps = (listed ?? []).filter((name) => name !== 'command');
  for (const [index, name] of (listed ?? []).entries()) {
    if (listed?.indexOf(name) !== index) sections.problem(['setup', 'modules', index], `lists ${name} twice`);
  }

  const environments = chooseEnvironments(sections, steps, job.env_type, listed !== undefined, isPresent);
  for (const name of new Set([...steps, ...environments])) {
    if (isPresent(name)) continue;
    const message =
      name === 'files'
        ? 'lists files, but job.files is empty'
        : `selects ${name}, but the manifest has no section ${name}`;
    sections.problem(choicePath(name, steps), message);
  }
  const [first, second] = environments;
  if (first !== undefined && second !== undefined && (environments.length > 2 || !environments.includes('docker'))) {
    const rule = 'choose one, or docker with conda or venv inside the container';
    sections.problem(choicePath(second, steps), `selects ${environments.join(' and ')}; ${rule}`);
  }

  const implicit: readonly StepModule[] = isPresent('files') && !steps.includes('files') ? ['files'] : [];
  const ordered = listed === undefined ? (['ssh', 'gcsfuse'] as const).filter(isPresent) : steps;
  const chosen = [...new Set([...implicit, ...ordered, ...environments])];
  // The owner sets up own machines: jobman mounts nothing there and writes no keys, and copies files only to others.
  const isOwn = capacity === undefined ? sections.isPresent('local') : capacity.kind === 'hosts';
  const isHere = sections.isPresent('local') || (capacity !== undefined && isOnThisMachine({ capacity }));
  const isUsable = (name: StepModule) => environments.some((one) => one === name) || (name === 'files' && !isHere);
  const modules = isOwn ? chosen.filter(isUsable) : chosen;
  if (isHere && isPresent('files')) sections.warning(['job', 'files'], 'has no effect: the job runs on this machine');
  for (const name of ['ssh', 'gcsfuse', 'docker', 'conda', 'venv'] as const) {
    // The login key of the section ssh is used even when the workers get no keys.
    if (!modules.includes(name) && (name !== 'ssh' || isOwn)) sections.readUnused(name);
  }
  sections.readUnused('vars');
  return { modules, environments };
}

function chooseEnvironments(
  sections: Sections,
  steps: readonly StepModule[],
  envType: EnvironmentName | undefined,
  isListed: boolean,
  isPresent: (name: StepModule) => boolean,
): readonly EnvironmentName[] {
  const named = environmentNames.filter((name) => steps.includes(name) || envType === name);
  if (named.length > 0 || isListed) return named;
  const present = environmentNames.filter(isPresent);
  const [first, second] = present;
  if (first === undefined || second === undefined) return present;
  if (sections.has(['setup', 'modules']) || sections.has(['job', 'env_type'])) return [];
  sections.problem(
    [second],
    `the manifest has the sections ${present.join(' and ')}; choose one with job.env_type, for example ${first}`,
  );
  return [];
}

function choicePath(name: StepModule, steps: readonly StepModule[]): readonly string[] {
  return steps.includes(name) ? ['setup', 'modules'] : ['job', 'env_type'];
}
