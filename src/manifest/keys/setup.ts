// Keys of `setup` and of the sections that it orders: `ssh` with keys to log in and keys for the workers, `gcsfuse` with buckets.

import { choice, listOf, section, whole, path, text, either, line, mapOf, script, truth } from '../kinds.ts';
import type { Key } from '../../schema/kinds.ts';
import { environmentNames } from './environments.ts';

const moduleNames = ['files', 'ssh', 'gcsfuse', ...environmentNames, 'command'] as const;
export type ModuleName = (typeof moduleNames)[number];

export const setup = {
  about: 'What is set up on each worker before the command.',
  otherwise: 'every section that is there, in the order ssh, gcsfuse, environment',
  kind: section({
    modules: {
      kind: listOf(choice(...moduleNames), 'list of module names'),
      about:
        'Which sections are used, in this order: `ssh`, `gcsfuse`, one of `docker`, `conda`, `venv` (or docker and one of the others inside it), `command`. Without `command` in the list the job sets up and runs nothing.',
      otherwise: 'ssh, gcsfuse and the environment, those that are there',
      example: '[ssh, gcsfuse, docker, command]',
    },
    tries: {
      kind: whole(1, 100),
      about: 'How often one step is tried on one worker; after the last time the attempt ends as `setup_failed`.',
      otherwise: '3',
      example: '5',
    },
  }),
} satisfies Key<unknown>;

export const ssh = {
  about: 'Keys: the one that jobman logs in with, and those that the workers get.',
  otherwise: "jobman's own key, and nothing on the workers",
  kind: section({
    private_key: {
      kind: path(),
      about: 'The private key file here that jobman logs in to the workers with.',
      otherwise: "jobman's own key",
      example: '~/.ssh/id_rsa',
      aliases: ['tpu_private_key'],
    },
    tpu_public_key: {
      kind: path(),
      about:
        'Its public half. When given, both halves are copied to the workers, so that they can log in to each other.',
      example: '~/.ssh/id_rsa.pub',
    },
    identities: {
      kind: listOf(
        section({
          private_key: {
            kind: path(),
            about: 'A private key file here.',
            isRequired: true,
            example: '~/.ssh/id_ed25519_github',
          },
          public_key: {
            kind: path(),
            about: 'Its public half.',
            example: '~/.ssh/id_ed25519_github.pub',
          },
          config_entry: {
            kind: text(),
            about: 'Lines for the ssh_config of the workers.',
            example: '"Host github.com"',
          },
        }),
        'list of identities',
      ),
      about: 'Further keys that are copied to `~/.ssh` of every worker, with lines for its ssh_config.',
    },
  }),
} satisfies Key<unknown>;

export const cache = section({
  dir: {
    kind: path(),
    about: 'Folder on the worker that file contents are cached in; giving it turns the file cache on.',
    otherwise: 'no file cache',
    example: '/tmp/gcsfuse-cache',
  },
  metadata_ttl_secs: {
    kind: whole(-1),
    about: 'How long what is known of a file counts as true, in seconds; -1 is for ever.',
    otherwise: "gcsfuse's own",
    example: '60',
  },
  stat_cache_max_size_mb: {
    kind: whole(-1),
    about: 'Size of the cache of file attributes, in MiB; -1 is without limit.',
    otherwise: "gcsfuse's own",
    example: '32',
  },
  type_cache_max_size_mb: {
    kind: whole(-1),
    about: 'Size of the cache of file types, in MiB; -1 is without limit.',
    otherwise: "gcsfuse's own",
    example: '4',
  },
  file_cache_max_size_mb: {
    kind: whole(-1),
    about: 'Size of the file cache, in MiB; -1 is all the space there is.',
    otherwise: "gcsfuse's own",
    example: '10240',
  },
  cache_file_for_range_read: {
    kind: truth(),
    about: 'Fetch the whole file when a part from its middle is read.',
    otherwise: "gcsfuse's own",
    example: 'true',
  },
  enable_parallel_downloads: {
    kind: truth(),
    about: 'Fetch large files in parts, side by side.',
    otherwise: "gcsfuse's own",
    example: 'true',
  },
  prefix: {
    kind: script(),
    about: 'A script that runs on the worker before the mount, for example to make a RAM disk for the cache.',
    example: 'sudo mkdir -p /mnt/ram',
  },
});

const mountPath = {
  kind: path({
    pattern: /^(?!\.?\/*$|~\/*$)/,
    rule: 'would hide every other file there; write a folder below it',
  }),
  about: 'Folder on the worker where the bucket appears: absolute, or below the login folder as `~/bucket`.',
  isRequired: true,
  example: '/home/zephyr/gcs-bucket',
} as const;

/** The form of a bucket's name, and the sentence about one that does not fit. */
export const bucketPattern = /^(gs:\/\/)?[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]\/?$/;
export const bucketRule =
  'is no name of a bucket (3 characters or more: small letters, digits, - _ and .; no folder behind it)';

const bucketName = line({
  words: 'bucket name',
  pattern: bucketPattern,
  rule: bucketRule,
  meant: (written) => /^(gs:\/\/)?([a-z0-9._-]+)\/.+$/.exec(written)?.[2] ?? written.trim().toLowerCase(),
});

const region = {
  pattern: /^[a-z]+-[a-z]+\d+$/,
  rule: 'is no region; a region is a zone without its letter, as in us-central2',
};

/** One bucket, or one for each region that the job may come to. */
const bucketOrByRegion = either(mapOf(region), (tree) => tree.kind === 'map', bucketName);

const allowOtherRegion = {
  kind: truth(),
  about:
    'Take the bucket also where it is in another region than the TPU: reading it is slower then, and what crosses over is billed.',
  otherwise: 'false',
  example: 'true',
} as const;

export const gcsfuse = {
  about: 'Mounts a bucket of Google Cloud Storage as a folder of every worker.',
  otherwise: 'no bucket',
  kind: section({
    bucket_name: {
      kind: bucketOrByRegion,
      about:
        'The bucket; or a map from regions to buckets (`us-east5: my-bucket-us`), of which the one in the region of the TPU is mounted.',
      isRequired: true,
      example: 'llm_pruning_us_central2_b',
    },
    mount_path: mountPath,
    allow_other_region: allowOtherRegion,
    cache: { kind: cache, about: 'How gcsfuse caches.', otherwise: "gcsfuse's own way" },
    extra_mounts: {
      kind: listOf(
        section({
          bucket_name: {
            kind: bucketOrByRegion,
            about: 'Another bucket, or a map by region.',
            otherwise: 'the same bucket',
            example: 'my-data',
          },
          mount_path: mountPath,
          allow_other_region: allowOtherRegion,
          cache: { kind: cache, about: 'How gcsfuse caches this mount.', otherwise: "gcsfuse's own way" },
        }),
        'list of mounts',
      ),
      about: 'Further mounts.',
    },
  }),
} satisfies Key<unknown>;
