// Modules: what a manifest asks to be set up on a worker, parsed and ready to become the texts of steps.

export type SetupModule = FilesModule | SshModule | GcsfuseModule | EnvironmentModule;

/** Names of the environment variables that a manifest gives its command. */
export interface VariableNames {
  readonly plain: readonly string[];
  /** Of `job.secrets`: their values reach the program and nothing else. */
  readonly secret: readonly string[];
}

export type EnvironmentModule = DockerModule | CondaModule | VenvModule;

export interface FilesModule {
  readonly name: 'files';
  readonly files: readonly FrozenFile[];
}

/** A file whose bytes travel with the job. */
export interface FrozenFile {
  readonly to: string;
  readonly base64: string;
  readonly mode: number;
}

export interface SshModule {
  readonly name: 'ssh';
  readonly keys: readonly SshKey[];
  readonly configEntries: readonly string[];
}

export interface SshKey {
  readonly privateKey: string;
  readonly publicKey: string | null;
  /** Workers accept a login with this key, so that they reach each other. Needs the public half. */
  readonly isAuthorized: boolean;
}

export interface GcsfuseModule {
  readonly name: 'gcsfuse';
  readonly mounts: readonly BucketMount[];
}

export interface BucketMount {
  /** Its name; of several by region, the mark that the allocation's place fills in (`bucketMark` in spec.ts). */
  readonly bucket: string;
  /** Absolute, or `~/…`. */
  readonly path: string;
  readonly cache: BucketCache;
}

/** The caches of gcsfuse; null leaves gcsfuse's own default. */
export interface BucketCache {
  readonly dir: string | null;
  readonly metadataTtlSeconds: number | null;
  readonly statCacheMostMb: number | null;
  readonly typeCacheMostMb: number | null;
  readonly fileCacheMostMb: number | null;
  readonly wholeFileOnRangeRead: boolean | null;
  readonly parallelDownloads: boolean | null;
  /** A script that runs before the mount, for example to make a RAM disk for the cache. */
  readonly before: string | null;
}

export interface DockerModule {
  readonly name: 'docker';
  /** The job's copy of a working directory is a folder of the container (`copiedFolder` in docker.ts) too. */
  readonly hasCopy?: true;
  readonly image: string;
  /** `NAME=value`, or `NAME` to hand on the worker's own. */
  readonly envVars: readonly string[];
  /** `/path`, `/path:/inside` or `/path:/inside:ro`; the worker's side may start with `~/`. */
  readonly mounts: readonly string[];
  /** The folder inside the container that the command starts in; null means the image's own. */
  readonly workdir: string | null;
  readonly flags: readonly string[];
}

export interface CondaModule {
  readonly name: 'conda';
  readonly environment: string;
  /** The text of environment.yaml; null means that the environment must be there already. */
  readonly config: string | null;
}

export interface VenvModule {
  readonly name: 'venv';
  /** Absolute, or `~/…`. */
  readonly folder: string;
  readonly python: string;
  /** The text of requirements.txt; null installs nothing. */
  readonly requirements: string | null;
}
