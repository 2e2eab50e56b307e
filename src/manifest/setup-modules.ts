// Setup modules: which of the sections ssh, gcsfuse, docker, conda, venv and of job.files are used, in which order, and what the
// steps are made of. Sections that are not chosen may stay: people keep docker, conda and venv next to each other and switch.

import { basename } from 'node:path/posix';
import { bucketMark } from '../core/spec.ts';
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
import { splitWords } from '../setup/script.ts';
import { mountsOf, plainBucket } from './buckets.ts';
import { readText, leavesHome, pathHere, pathOnWorker, type Surroundings } from './files.ts';
import { readJobFiles } from './job-files.ts';
import type { CacheSection, Section, EnvironmentName, ModuleName } from './keys.ts';
import type { Sections } from './sections.ts';
import type { Path } from '../schema/kinds.ts';

/** Requirements and environment files travel inside the job. */
const recipeMost = 256 * 1024;

/** The chosen modules, in their order. What is wrong with one is said, and it is left out. */
export function readModules(sections: Sections, choice: Choice, around: Surroundings): readonly SetupModule[] {
  return choice.modules.flatMap((name): readonly SetupModule[] => {
    const module = readModule(name, sections, around);
    return module === undefined ? [] : [module];
  });
}

function readModule(
  name: Choice['modules'][number],
  sections: Sections,
  around: Surroundings,
): SetupModule | undefined {
  switch (name) {
    case 'files':
      return readJobFiles(sections, around);
    case 'ssh':
      return readSsh(sections, around);
    case 'gcsfuse':
      return readGcsfuse(sections);
    case 'docker':
      return readDocker(sections);
    case 'conda':
      return readConda(sections, around);
    case 'venv':
      return readVenv(sections, around);
  }
}

// ------------------------------------------------------------------------------------------ ssh

function readSsh(sections: Sections, around: Surroundings): SshModule | undefined {
  const ssh = sections.read('ssh');
  if (ssh === undefined) return undefined;
  const here = (path: string): string => pathHere(path, around.folder, around.home);
  const login = ssh.private_key === undefined ? undefined : here(ssh.private_key);
  if (login !== undefined) lookForKey(sections, around, ['ssh', 'private_key'], login);

  const keys: SshKey[] = [];
  const configEntries: string[] = [];
  // The older form: one pair of keys, with which the workers reach each other.
  if (ssh.tpu_public_key !== undefined) {
    const publicKey = here(ssh.tpu_public_key);
    lookForKey(sections, around, ['ssh', 'tpu_public_key'], publicKey);
    if (login === undefined) {
      if (!sections.has(['ssh', 'private_key']) && !sections.has(['ssh', 'tpu_private_key']))
        sections.problem(['ssh', 'tpu_public_key'], 'stands without ssh.private_key, its other half');
    } else {
      keys.push({ privateKey: login, publicKey, isAuthorized: true });
      configEntries.push(siblingsEntry(basename(login)));
    }
  }
  for (const [index, identity] of (ssh.identities ?? []).entries()) {
    const at = (key: string): Path => ['ssh', 'identities', index, key];
    const publicKey = identity.public_key === undefined ? null : here(identity.public_key);
    if (publicKey !== null) lookForKey(sections, around, at('public_key'), publicKey);
    if (identity.private_key === undefined) continue;
    const privateKey = here(identity.private_key);
    lookForKey(sections, around, at('private_key'), privateKey);
    keys.push({ privateKey, publicKey, isAuthorized: privateKey === login });
    if (identity.config_entry !== undefined) configEntries.push(identity.config_entry);
  }
  const twice = keys.find((key, index) => {
    return keys.some(
      (other, at) =>
        at < index && basename(other.privateKey) === basename(key.privateKey) && other.privateKey !== key.privateKey,
    );
  });
  if (twice !== undefined) {
    const message = `two keys are called ${basename(twice.privateKey)} and would replace each other in ~/.ssh of the workers`;
    sections.problem(['ssh', 'identities'], message);
  }
  return { name: 'ssh', keys, configEntries };
}

/** The entry of the older jobman; the addresses inside a slice begin with 10. */
function siblingsEntry(file: string): string {
  return `Host 10.*\n  IdentityFile ~/.ssh/${file}\n  IdentitiesOnly yes\n  StrictHostKeyChecking accept-new`;
}

/** Keys are read when a worker is set up, perhaps hours from now: that one is missing should be known before. */
function lookForKey(sections: Sections, { door }: Surroundings, at: Path, file: string): void {
  const look = door.look(file);
  if (look.kind === 'file' || look.kind === 'stream') return;
  const is =
    look.kind === 'unreadable'
      ? `cannot be read (${look.detail})`
      : look.kind === 'folder'
        ? 'is a folder'
        : 'does not exist';
  sections.missing(at, `the key file ${file} ${is} on this machine`);
}

// ------------------------------------------------------------------------------------------ gcsfuse

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
      return [{ bucket: bucketText(bucket), path: onWorker, cache: bucketCache(cache) }];
    },
  );
  return { name: 'gcsfuse', mounts };
}

function bucketText(bucket: string | Readonly<Record<string, string>>): string {
  if (typeof bucket === 'string') return plainBucket(bucket);
  return bucketMark(Object.fromEntries(Object.entries(bucket).map(([region, name]) => [region, plainBucket(name)])));
}

function bucketCache(cache: CacheSection | undefined): BucketCache {
  return {
    dir: cache?.dir === undefined ? null : pathOnWorker(cache.dir),
    metadataTtlSeconds: cache?.metadata_ttl_secs ?? null,
    statCacheMostMb: cache?.stat_cache_max_size_mb ?? null,
    typeCacheMostMb: cache?.type_cache_max_size_mb ?? null,
    fileCacheMostMb: cache?.file_cache_max_size_mb ?? null,
    wholeFileOnRangeRead: cache?.cache_file_for_range_read ?? null,
    parallelDownloads: cache?.enable_parallel_downloads ?? null,
    before: cache?.prefix ?? null,
  };
}

// ------------------------------------------------------------------------------------------ environments

function readDocker(sections: Sections): DockerModule | undefined {
  const docker = sections.read('docker');
  if (docker === undefined) return undefined;
  const flags = (docker.flags ?? []).flatMap((flag, index) => {
    const words = splitWords(flag);
    if (words === undefined) sections.problem(['docker', 'flags', index], 'has a quote that is not closed');
    // `docker run` would end at once, with 0: the job would have succeeded, and its container would go on with nobody to end it.
    const detaching = words?.find((word) => /^(-[itPq]*d[itPq]*|--detach(=true)?)$/.test(word));
    if (detaching !== undefined)
      sections.problem(
        ['docker', 'flags', index],
        `${detaching} lets the container go, so that nobody would see its end; leave it out, the job goes on without a terminal anyway`,
      );
    return words ?? [];
  });
  if (docker.image === undefined) return undefined;
  return {
    name: 'docker',
    image: docker.image,
    envVars: docker.env_vars ?? [],
    mounts: docker.mount_dirs ?? [],
    workdir: sections.read('command')?.workdir ?? docker.workdir ?? null,
    flags,
  };
}

function readConda(sections: Sections, around: Surroundings): CondaModule | undefined {
  const conda = sections.read('conda');
  const config = readRecipe(sections, ['conda', 'config_file'], conda?.config_file, around);
  return config === undefined || conda?.name === undefined
    ? undefined
    : { name: 'conda', environment: conda.name, config };
}

function readVenv(sections: Sections, around: Surroundings): VenvModule | undefined {
  const venv: Partial<Section<'venv'>> | undefined = sections.read('venv');
  if (venv === undefined) return undefined;
  const requirements = readRecipe(sections, ['venv', 'requirements_file'], venv.requirements_file, around);
  const folder =
    venv.path === undefined ? `~/venv/${venv.name ?? 'venv'}` : workerPath(sections, ['venv', 'path'], venv.path);
  if (venv.path !== undefined && venv.name !== undefined && basename(pathOnWorker(venv.path)) !== venv.name) {
    sections.problem(
      ['venv', 'path'],
      `path and name disagree: ${venv.path} is no folder called ${venv.name}; keep one of them`,
    );
  }
  if (requirements === undefined) return undefined;
  const other =
    requirements === null ? null : /^\s*(-r|-c|--requirement|--constraint|-e|\.{1,2}\/)[^\n]*/m.exec(requirements);
  if (other !== null) {
    sections.warning(
      ['venv', 'requirements_file'],
      `names another file (${other[0].trim()}), which is not copied with it`,
    );
  }
  return {
    name: 'venv',
    folder,
    python: venv.python === undefined ? 'python3' : venv.python.replace(/^(?=\d)/, 'python'),
    requirements,
  };
}

/** The text of a file that an environment is made from; null when none is named, undefined after having said what is wrong. */
function readRecipe(
  sections: Sections,
  at: Path,
  path: string | undefined,
  around: Surroundings,
): string | null | undefined {
  if (path === undefined) return null;
  const file = pathHere(path, around.folder, around.home);
  const read = readText(around.door, file, recipeMost);
  if ('text' in read) return read.text;
  sections.problem(at, `the file ${file} ${read.why}`);
  return undefined;
}

/** A path on a worker, which `~name/` and `~/..` must not lead out of. */
export function workerPath(sections: Sections, at: Path, path: string): string {
  if (leavesHome(path))
    sections.problem(at, `${path} is not below the login folder; write an absolute path, or one that begins with ~/`);
  return pathOnWorker(path);
}

// ------------------------------------------------------------------------------------------ the choice of modules

type StepModule = Exclude<ModuleName, 'command'>;

export interface Choice {
  /** In the order of the steps; `files` comes first unless `setup.modules` puts it elsewhere. */
  readonly modules: readonly StepModule[];
  readonly environments: readonly EnvironmentName[];
}

const environmentNames: readonly EnvironmentName[] = ['docker', 'conda', 'venv'];

/** Reports a section that is chosen and missing, two environments, or several and none chosen. */
export function readChoice(
  sections: Sections,
  job: Partial<Section<'job'>>,
  { modules: listed }: Partial<Section<'setup'>>,
): Choice {
  const isThere = (name: StepModule): boolean => {
    if (name === 'files') return job.files !== undefined && job.files.length > 0;
    return sections.has([name]) && !/^(false|no|off)$/i.test(sections.written([name, 'enabled']) ?? '');
  };
  const steps = (listed ?? []).filter((name) => name !== 'command');
  for (const [index, name] of (listed ?? []).entries()) {
    if (listed?.indexOf(name) !== index) sections.problem(['setup', 'modules', index], `lists ${name} twice`);
  }

  const environments = chooseEnvironments(sections, steps, job.env_type, listed !== undefined, isThere);
  for (const name of new Set([...steps, ...environments])) {
    if (isThere(name)) continue;
    const message =
      name === 'files' ? 'lists files, and job.files names none' : `chooses ${name}, and there is no section ${name}`;
    sections.problem(whoChose(name, steps), message);
  }
  const [first, second] = environments;
  if (first !== undefined && second !== undefined && (environments.length > 2 || !environments.includes('docker'))) {
    const rule = 'a command runs in one of them, or in a container and one of conda and venv inside it';
    sections.problem(whoChose(second, steps), `two environments are chosen, ${environments.join(' and ')}; ${rule}`);
  }

  const unasked: readonly StepModule[] = isThere('files') && !steps.includes('files') ? ['files'] : [];
  const ordered = listed === undefined ? (['ssh', 'gcsfuse'] as const).filter(isThere) : steps;
  const chosen = [...new Set([...unasked, ...ordered, ...environments])];
  // This machine is set up by its owner: jobman copies nothing to it, mounts nothing and writes no keys.
  const isLocal = isLocalJob(sections);
  const modules = isLocal ? chosen.filter((name) => environments.some((one) => one === name)) : chosen;
  for (const name of chosen) {
    if (modules.includes(name)) continue;
    sections.warning(
      name === 'files' ? ['job', 'files'] : [name],
      'is not used: the job runs on this machine, which is set up already',
    );
  }
  for (const name of ['ssh', 'gcsfuse', 'docker', 'conda', 'venv'] as const) {
    // The login key of the section ssh counts, whether or not the workers are given keys.
    if (!modules.includes(name) && (name !== 'ssh' || isLocal)) sections.readUnused(name);
  }
  sections.readUnused('vars');
  return { modules, environments };
}

/** Whether the manifest means this machine; what is wrong with a section makes it no other. */
export function isLocalJob(sections: Sections): boolean {
  return sections.stands('local');
}

/** Those that are named; when nothing says anything, the one whose section stands alone. */
function chooseEnvironments(
  sections: Sections,
  steps: readonly StepModule[],
  envType: EnvironmentName | undefined,
  isListed: boolean,
  isThere: (name: StepModule) => boolean,
): readonly EnvironmentName[] {
  const named = environmentNames.filter((name) => steps.includes(name) || envType === name);
  if (named.length > 0 || isListed) return named;
  const there = environmentNames.filter(isThere);
  const [first, second] = there;
  if (first === undefined || second === undefined) return there;
  if (sections.has(['setup', 'modules']) || sections.has(['job', 'env_type'])) return [];
  sections.problem(
    [second],
    `${there.join(' and ')} stand here and none is chosen; say which with job.env_type, for example ${first}`,
  );
  return [];
}

function whoChose(name: StepModule, steps: readonly StepModule[]): readonly string[] {
  return steps.includes(name) ? ['setup', 'modules'] : ['job', 'env_type'];
}
