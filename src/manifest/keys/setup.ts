import { oneOf, listOf, section, int, path, text, either, line, mapOf, script, bool, flag } from '../kinds.ts';
import { key, ownJobs, type Key, type Kind } from '../../schema/kinds.ts';
import { environmentNames } from './environments.ts';

const moduleNames = ['files', 'ssh', 'gcsfuse', ...environmentNames, 'command'] as const;
export type ModuleName = (typeof moduleNames)[number];

export const setup = {
  jobs: ownJobs,
  description: 'Setup of each worker before the command.',
  defaultText: 'every section in the manifest, in the order ssh, gcsfuse, environment',
  kind: section({
    modules: key(
      listOf(oneOf(moduleNames), 'list of module names'),
      'The sections to use, in this order: `ssh`, `gcsfuse`, one of `docker`, `conda`, `venv` (or docker with one of the others inside it), `command`. Without `command` in the list the job only runs setup.',
      {
        defaultText: 'ssh, gcsfuse and the environment that have a section',
        example: '[ssh, gcsfuse, docker, command]',
      },
    ),
    tries: key(
      int(1, 100),
      'How often jobman tries one step on one worker before the attempt ends as `setup_failed`.',
      { defaultText: '3', example: '5' },
    ),
  }),
} satisfies Key<unknown>;

export const ssh = {
  jobs: ['tpu'],
  description: 'SSH keys: the key for the login of jobman, and keys to copy to the workers.',
  defaultText: "jobman's own key, and no keys on the workers",
  kind: section({
    private_key: key(
      path(),
      'Private key with which jobman logs in to the workers: a file on this machine, or `secret:NAME`.',
      {
        defaultText: "jobman's own key",
        example: '~/.ssh/id_rsa',
        aliases: ['tpu_private_key'],
      },
    ),
    tpu_public_key: key(
      path(),
      'Public half of `private_key`. If set, jobman copies both halves to the workers, so that they can log in to each other.',
      { example: '~/.ssh/id_rsa.pub' },
    ),
    identities: {
      kind: listOf(
        section({
          private_key: key(path(), 'Private key: a file on this machine, or `secret:NAME`.', {
            isRequired: true,
            example: '~/.ssh/id_ed25519_github',
          }),
          public_key: key(path(), 'Its public half.', { example: '~/.ssh/id_ed25519_github.pub' }),
          config_entry: key(text(), 'Lines for the ssh_config of the workers.', { example: '"Host github.com"' }),
        }),
        'list of identities',
      ),
      description: 'More keys to copy to `~/.ssh` of every worker, with lines for its ssh_config.',
    },
  }),
} satisfies Key<unknown>;

function gcsfuseOption<T>(kind: Kind<T>, description: string, example: string): Key<T> {
  return key(kind, description, { defaultText: "gcsfuse's default", example });
}

export const cache = section({
  dir: key(path(), 'Folder on the worker for the file cache; setting it enables the cache.', {
    defaultText: 'no file cache',
    example: '/tmp/gcsfuse-cache',
  }),
  metadata_ttl_secs: gcsfuseOption(int(-1), 'How long cached metadata is valid, in seconds; -1 is forever.', '60'),
  stat_cache_max_size_mb: gcsfuseOption(
    int(-1),
    'Size of the cache for file attributes, in MiB; -1 is no limit.',
    '32',
  ),
  type_cache_max_size_mb: gcsfuseOption(int(-1), 'Size of the cache for file types, in MiB; -1 is no limit.', '4'),
  file_cache_max_size_mb: gcsfuseOption(int(-1), 'Size of the file cache, in MiB; -1 is all available space.', '10240'),
  cache_file_for_range_read: gcsfuseOption(bool(), 'Cache the whole file when a program reads a part of it.', 'true'),
  enable_parallel_downloads: gcsfuseOption(bool(), 'Download large files in parallel parts.', 'true'),
  prefix: key(
    script,
    'Script that runs on the worker before the mount, for example to create a RAM disk for the cache.',
    { example: 'sudo mkdir -p /mnt/ram' },
  ),
});

const bucketName = line({
  description: 'bucket name',
  pattern: /^(gs:\/\/)?[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]\/?$/,
  rule: 'is not a bucket name (at least 3 lower-case letters, digits, - _ and .; without a folder)',
  suggest: (written) => /^(gs:\/\/)?([a-z0-9._-]+)\/.+$/.exec(written)?.[2] ?? written.trim().toLowerCase(),
});

const region = {
  pattern: /^[a-z]+-[a-z]+\d+$/,
  rule: 'is not a region; write a zone without its letter, such as us-central2',
};

/** One bucket, or one for each region of the job's alternatives. */
const bucketOrByRegion = either(mapOf(region, bucketName), (tree) => tree.kind === 'map', bucketName);

/** The keys of a mount, besides its bucket. */
const mount = {
  mount_path: key(
    path({ pattern: /^(?!\.?\/*$|~\/*$)/, rule: 'would hide all other files there; write a folder below it' }),
    'Mount point on the worker: an absolute path, or `~/bucket` in the login folder.',
    { isRequired: true, example: '/home/zephyr/gcs-bucket' },
  ),
  allow_other_region: flag(
    'Allow a bucket in another region than the TPU. Reading is slower, and Google bills the traffic between regions.',
  ),
  cache: key(cache, 'Caches of the mount.', { defaultText: "gcsfuse's defaults" }),
};

export const gcsfuse = {
  jobs: ['tpu'],
  description: 'Mounts a Google Cloud Storage bucket as a folder on every worker.',
  defaultText: 'no bucket',
  kind: section({
    bucket_name: key(
      bucketOrByRegion,
      'The bucket, or a map from regions to buckets (`us-east5: my-bucket-us`); jobman mounts the bucket for the region of the TPU.',
      { isRequired: true, example: 'llm_pruning_us_central2_b' },
    ),
    ...mount,
    extra_mounts: {
      kind: listOf(
        section({
          bucket_name: key(bucketOrByRegion, 'Another bucket, or a map by region.', {
            defaultText: 'the same bucket',
            example: 'my-data',
          }),
          ...mount,
        }),
        'list of mounts',
      ),
      description: 'More mounts.',
    },
  }),
} satisfies Key<unknown>;
