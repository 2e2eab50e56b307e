import { choice, listOf, section, int, path, text, either, line, mapOf, script, bool } from '../kinds.ts';
import type { Key } from '../../schema/kinds.ts';
import { environmentNames } from './environments.ts';

const moduleNames = ['files', 'ssh', 'gcsfuse', ...environmentNames, 'command'] as const;
export type ModuleName = (typeof moduleNames)[number];

export const setup = {
  description: 'What is set up on each worker before the command.',
  defaultText: 'every section that is there, in the order ssh, gcsfuse, environment',
  kind: section({
    modules: {
      kind: listOf(choice(...moduleNames), 'list of module names'),
      description:
        'Which sections are used, in this order: `ssh`, `gcsfuse`, one of `docker`, `conda`, `venv` (or docker and one of the others inside it), `command`. Without `command` in the list the job sets up and runs nothing.',
      defaultText: 'ssh, gcsfuse and the environment, those that are there',
      example: '[ssh, gcsfuse, docker, command]',
    },
    tries: {
      kind: int(1, 100),
      description: 'How often one step is tried on one worker; after the last time the attempt ends as `setup_failed`.',
      defaultText: '3',
      example: '5',
    },
  }),
} satisfies Key<unknown>;

export const ssh = {
  description: 'Keys: the one that jobman logs in with, and those that the workers get.',
  defaultText: "jobman's own key, and nothing on the workers",
  kind: section({
    private_key: {
      kind: path(),
      description: 'The private key file here that jobman logs in to the workers with.',
      defaultText: "jobman's own key",
      example: '~/.ssh/id_rsa',
      aliases: ['tpu_private_key'],
    },
    tpu_public_key: {
      kind: path(),
      description:
        'Its public half. When given, both halves are copied to the workers, so that they can log in to each other.',
      example: '~/.ssh/id_rsa.pub',
    },
    identities: {
      kind: listOf(
        section({
          private_key: {
            kind: path(),
            description: 'A private key file here.',
            isRequired: true,
            example: '~/.ssh/id_ed25519_github',
          },
          public_key: {
            kind: path(),
            description: 'Its public half.',
            example: '~/.ssh/id_ed25519_github.pub',
          },
          config_entry: {
            kind: text(),
            description: 'Lines for the ssh_config of the workers.',
            example: '"Host github.com"',
          },
        }),
        'list of identities',
      ),
      description: 'Further keys that are copied to `~/.ssh` of every worker, with lines for its ssh_config.',
    },
  }),
} satisfies Key<unknown>;

export const cache = section({
  dir: {
    kind: path(),
    description: 'Folder on the worker that file contents are cached in; giving it turns the file cache on.',
    defaultText: 'no file cache',
    example: '/tmp/gcsfuse-cache',
  },
  metadata_ttl_secs: {
    kind: int(-1),
    description: 'How long what is known of a file counts as true, in seconds; -1 is for ever.',
    defaultText: "gcsfuse's own",
    example: '60',
  },
  stat_cache_max_size_mb: {
    kind: int(-1),
    description: 'Size of the cache of file attributes, in MiB; -1 is without limit.',
    defaultText: "gcsfuse's own",
    example: '32',
  },
  type_cache_max_size_mb: {
    kind: int(-1),
    description: 'Size of the cache of file types, in MiB; -1 is without limit.',
    defaultText: "gcsfuse's own",
    example: '4',
  },
  file_cache_max_size_mb: {
    kind: int(-1),
    description: 'Size of the file cache, in MiB; -1 is all the space there is.',
    defaultText: "gcsfuse's own",
    example: '10240',
  },
  cache_file_for_range_read: {
    kind: bool(),
    description: 'Fetch the whole file when a part from its middle is read.',
    defaultText: "gcsfuse's own",
    example: 'true',
  },
  enable_parallel_downloads: {
    kind: bool(),
    description: 'Fetch large files in parts, side by side.',
    defaultText: "gcsfuse's own",
    example: 'true',
  },
  prefix: {
    kind: script(),
    description: 'A script that runs on the worker before the mount, for example to make a RAM disk for the cache.',
    example: 'sudo mkdir -p /mnt/ram',
  },
});

const mountPath = {
  kind: path({
    pattern: /^(?!\.?\/*$|~\/*$)/,
    rule: 'would hide every other file there; write a folder below it',
  }),
  description: 'Folder on the worker where the bucket appears: absolute, or below the login folder as `~/bucket`.',
  isRequired: true,
  example: '/home/zephyr/gcs-bucket',
} as const;

export const bucketPattern = /^(gs:\/\/)?[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]\/?$/;
export const invalidBucketMessage =
  'is no name of a bucket (3 characters or more: small letters, digits, - _ and .; no folder behind it)';

const bucketName = line({
  description: 'bucket name',
  pattern: bucketPattern,
  rule: invalidBucketMessage,
  suggest: (written) => /^(gs:\/\/)?([a-z0-9._-]+)\/.+$/.exec(written)?.[2] ?? written.trim().toLowerCase(),
});

const region = {
  pattern: /^[a-z]+-[a-z]+\d+$/,
  rule: 'is no region; a region is a zone without its letter, as in us-central2',
};

/** One bucket, or one for each region of the job's alternatives. */
const bucketOrByRegion = either(mapOf(region), (tree) => tree.kind === 'map', bucketName);

const allowOtherRegion = {
  kind: bool(),
  description:
    'Take the bucket also where it is in another region than the TPU: reading it is slower then, and what crosses over is billed.',
  defaultText: 'false',
  example: 'true',
} as const;

export const gcsfuse = {
  description: 'Mounts a bucket of Google Cloud Storage as a folder of every worker.',
  defaultText: 'no bucket',
  kind: section({
    bucket_name: {
      kind: bucketOrByRegion,
      description:
        'The bucket; or a map from regions to buckets (`us-east5: my-bucket-us`), of which the one in the region of the TPU is mounted.',
      isRequired: true,
      example: 'llm_pruning_us_central2_b',
    },
    mount_path: mountPath,
    allow_other_region: allowOtherRegion,
    cache: { kind: cache, description: 'How gcsfuse caches.', defaultText: "gcsfuse's own way" },
    extra_mounts: {
      kind: listOf(
        section({
          bucket_name: {
            kind: bucketOrByRegion,
            description: 'Another bucket, or a map by region.',
            defaultText: 'the same bucket',
            example: 'my-data',
          },
          mount_path: mountPath,
          allow_other_region: allowOtherRegion,
          cache: { kind: cache, description: 'How gcsfuse caches this mount.', defaultText: "gcsfuse's own way" },
        }),
        'list of mounts',
      ),
      description: 'Further mounts.',
    },
  }),
} satisfies Key<unknown>;
