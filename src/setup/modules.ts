// Modules: parsed requests of a manifest for the setup of a worker. steps.ts turns them into scripts.

import type { SecretRef } from '../core/model/spec.ts';

export type SetupModule = FilesModule | SshModule | GcsfuseModule | EnvironmentModule;

export interface VariableNames {
  readonly plain: readonly string[];
  /** From `job.secrets`; only the program receives their values. */
  readonly secret: readonly string[];
}

export type EnvironmentModule = DockerModule | CondaModule | VenvModule;

export interface FilesModule {
  readonly name: 'files';
  readonly files: readonly SentFile[];
}

export interface SentFile {
  readonly to: string;
  readonly content: Uint8Array;
  readonly mode: number;
}

export interface SshModule {
  readonly name: 'ssh';
  readonly keys: readonly SshKey[];
  readonly configEntries: readonly string[];
}

export interface SshKey {
  /** Its file in ~/.ssh of the workers. */
  readonly file: string;
  readonly privateKey: SecretRef;
  readonly publicKey: { readonly file: string; readonly text: string } | null;
  /** Workers accept a login with this key, so that they reach each other. Needs the public half. */
  readonly isAuthorized: boolean;
}

export interface GcsfuseModule {
  readonly name: 'gcsfuse';
  readonly mounts: readonly BucketMount[];
}

export interface BucketMount {
  /** A name; with several buckets by region, `bucketPlaceholder` (spec.ts), which each allocation replaces. */
  readonly bucket: string;
  /** Absolute, or `~/…`. */
  readonly path: string;
  readonly cache: BucketCache;
}

export interface BucketCache {
  readonly dir: string | null;
  /** `--stat-cache-max-size-mb=32`; gcsfuse has a default for every absent one. */
  readonly flags: readonly string[];
  /** A script to run before the mount, for example to make a RAM disk for the cache. */
  readonly prepareScript: string | null;
}

export interface DockerModule {
  readonly name: 'docker';
  /** The container also has the job's copy of a working directory, as `containerWorkdir` (docker.ts). */
  readonly hasWorkdirCopy?: true;
  readonly image: string;
  /** `NAME=value`, or `NAME` for the worker's own value. */
  readonly envVars: readonly string[];
  /** `/path`, `/path:/inside` or `/path:/inside:ro`; the worker's side may start with `~/`. */
  readonly mounts: readonly string[];
  /** Folder inside the container in which the command starts; null means the image's own. */
  readonly workdir: string | null;
  readonly flags: readonly string[];
}

export interface CondaModule {
  readonly name: 'conda';
  readonly environment: string;
  /** Text of environment.yaml; null means that the environment must already exist. */
  readonly config: string | null;
}

export interface VenvModule {
  readonly name: 'venv';
  /** Absolute, or `~/…`. */
  readonly folder: string;
  readonly python: string;
  /** Text of requirements.txt; null installs nothing. */
  readonly requirements: string | null;
}
