// Setup modules: the sections ssh, gcsfuse, docker, conda and venv, and job.files, as what the steps are made of.

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
import { splitWords } from '../setup/quote.ts';
import { mountsOf, plainBucket } from './buckets.ts';
import type { Choice } from './choose.ts';
import { readText } from './door.ts';
import { readJobFiles } from './job-files.ts';
import type { CacheSection, Section } from './keys.ts';
import { leavesHome, pathHere, pathOnWorker } from './paths.ts';
import type { Sections } from './sections.ts';
import type { Surroundings } from './surroundings.ts';
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

/** The one bucket, or the mark for the one of the region. */
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
