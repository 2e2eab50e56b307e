// Keys: every key that a manifest may have, in one table. The parser checks it, the JSON Schema and the tables of
// docs/configuration.md are made from it, so that the three cannot disagree.

import { second } from '../core/time.ts';
import {
  anything,
  choice,
  duration,
  either,
  freeValue,
  line,
  listOf,
  mapOf,
  script,
  section,
  text,
  truth,
  whole,
} from './kinds.ts';
import type { Keys, Kind, SectionValue } from './kinds.ts';
import { keyNamed, otherNames, refuse, wrongKind, asNumber } from './kinds.ts';

const environmentName = {
  pattern: /^(?!JOBMAN_)[A-Za-z_][A-Za-z0-9_]*$/,
  rule: "is no name for an environment variable (letters, digits and _; names with JOBMAN_ are jobman's own)",
};
const metadataName = { pattern: /^[A-Za-z0-9_-]{1,128}$/, rule: 'is no name for metadata (letters, digits, _ and -)' };

const environmentNames = ['docker', 'conda', 'venv'] as const;
const moduleNames = ['files', 'ssh', 'gcsfuse', ...environmentNames, 'command'] as const;
export type ModuleName = (typeof moduleNames)[number];
export type EnvironmentName = (typeof environmentNames)[number];

/** `all`, one number, or a list of numbers. */
const workers: Kind<'all' | readonly number[]> = {
  words: 'number | list | "all"',
  schema: {
    anyOf: [
      { enum: ['all'] },
      { type: 'integer', minimum: 0 },
      { type: 'array', items: { type: 'integer', minimum: 0 }, minItems: 1, uniqueItems: true },
      { type: 'string', pattern: '\\$\\{' },
    ],
  },
  read(tree, path, report) {
    if (tree.kind === 'scalar' && tree.value === 'all') return 'all';
    const items = tree.kind === 'list' ? tree.items : [tree];
    if (items.length === 0) return refuse(tree, path, report, 'is an empty list, so nothing would run the command');
    const numbers: number[] = [];
    for (const [index, item] of items.entries()) {
      const at = tree.kind === 'list' ? [...path, index] : path;
      const value = asNumber(item);
      if (item.kind === 'unknown') continue;
      if (value === undefined || !Number.isInteger(value) || value < 0) {
        const meant = item.kind === 'scalar' && /^a/i.test(item.source) ? 'all' : undefined;
        if (meant === undefined) wrongKind(item, 'the number of a worker, a list of numbers, or all', at, report);
        else refuse(item, at, report, 'wants the number of a worker, a list of numbers, or all', meant);
      } else if (numbers.includes(value)) refuse(item, at, report, `names worker ${value} twice`);
      else numbers.push(value);
    }
    return numbers;
  },
};

const cache = section({
  dir: {
    kind: line(),
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
    about: 'Size of the cache of file attributes.',
    otherwise: "gcsfuse's own",
    example: '32',
  },
  type_cache_max_size_mb: {
    kind: whole(-1),
    about: 'Size of the cache of file types.',
    otherwise: "gcsfuse's own",
    example: '4',
  },
  file_cache_max_size_mb: {
    kind: whole(-1),
    about: 'Size of the file cache; -1 is all the space there is.',
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
    otherwise: 'none',
    example: 'sudo mkdir -p /mnt/ram',
  },
});

const mountPath = {
  kind: line(),
  about: 'Folder on the worker where the bucket appears: absolute, or below the login folder as `~/bucket`.',
  isRequired: true,
  otherwise: 'must be given',
  example: '/home/zephyr/gcs-bucket',
} as const;

const bucketName = line({
  words: 'bucket name',
  pattern: /^(gs:\/\/)?[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]\/?$/,
  rule: 'is no name of a bucket (3 characters or more: small letters, digits, - _ and .; no folder behind it)',
});

const signals = ['TERM', 'INT', 'HUP', 'QUIT', 'USR1', 'USR2', 'KILL'] as const;
const reasons = ['preempted', 'unreachable', 'setup_failed', 'command_failed', 'hung', 'succeeded'] as const;

/** `3.9`, `"3.9"` and `python3.9` are one thing; the name of the program is answered. */
const python: Kind<string> = {
  ...line({
    words: 'version',
    pattern: /^((python)?\d+(\.\d+)?|\/\S+)$/,
    rule: 'is no version of Python; write 3.9 or python3.9',
  }),
};

const recoveryRule = section({
  reason: {
    kind: choice(...reasons),
    about: 'Why the attempt ended.',
    isRequired: true,
    otherwise: 'must be given',
    example: 'command_failed',
  },
  evidence: {
    kind: line(),
    about: 'Only when this pattern was found at the end of the output.',
    otherwise: 'any evidence',
    example: 'out_of_memory',
  },
  then: {
    kind: choice('resume', 'rerun', 'fail', 'done'),
    about: 'What follows: go on from the checkpoint, start from the beginning, or end the job as failed or as done.',
    isRequired: true,
    otherwise: 'must be given',
    example: 'resume',
  },
  on: {
    kind: choice('same', 'new'),
    about: 'Whether it follows on the same TPU or on a new one.',
    otherwise: '`new` after `preempted`, else `same`',
    example: 'same',
  },
});

const recovery = section({
  preset: {
    kind: line(),
    about: 'Name of a set of rules; see docs/recovery.md.',
    otherwise: '`pre` on spot and preemptible TPUs, else `pass`',
    example: 'pre',
  },
  rules: {
    kind: listOf(recoveryRule, 'list of rules'),
    about: 'Rules of your own, asked before those of the preset; the first that fits decides.',
    otherwise: "the preset's",
    example: '[{reason: command_failed, then: resume}]',
  },
  budget: {
    kind: section({
      preemptions: {
        kind: whole(0),
        about: 'How many losses of the machine the job survives.',
        otherwise: '1000',
        example: '50',
      },
      failures: {
        kind: whole(0),
        about: "How many failures of the program's own it survives.",
        otherwise: '3',
        example: '5',
      },
    }),
    about: 'How often the job comes back before it counts as failed.',
    otherwise: 'see below',
  },
  delay: {
    kind: duration(),
    about: "First wait after a failure of the program's own; it doubles with each further one.",
    otherwise: '10s',
    example: '30s',
  },
  delay_max: { kind: duration(), about: 'Longest such wait.', otherwise: '10m', example: '1h' },
  unreachable_grace: {
    kind: duration(second),
    about: 'How long a machine may be silent before it counts as lost when nobody confirms that it is.',
    otherwise: '3m',
    example: '10m',
  },
});

/** All sections, in the order of the documents. */
export const manifest = section({
  job: {
    about: 'What the job is called and how it behaves.',
    otherwise: 'all its defaults',
    kind: section({
      name: {
        kind: line({
          words: 'name',
          pattern: /^(?!\d{1,6}$|-)[^\s/]{1,100}$/u,
          rule: 'is no name for a job (at most 100 characters; no space, no /, not only digits, which would be an id; does not begin with -, which would be a flag)',
        }),
        about: 'A label for people, shown in lists and logs, and by which commands find the job.',
        otherwise: "the file's name",
        example: 'pretrain-llama3-8b',
      },
      env_type: {
        kind: choice(...environmentNames),
        about: 'The environment that the command runs in; its section says the rest.',
        otherwise: 'the one that setup.modules lists, or whose section stands alone',
        example: 'docker',
      },
      loop: {
        kind: either(truth(), (tree) => tree.kind === 'scalar' && tree.source !== 'failures', choice('failures')),
        about:
          'Start again after every exit (`true`), or after every failure (`failures`). Short for a recovery preset.',
        otherwise: 'false',
        example: 'true',
      },
      remote_user: {
        kind: line({ words: 'login', pattern: /^[A-Za-z_][A-Za-z0-9_.-]{0,63}$/, rule: 'is no login name' }),
        about: 'Login name on the workers.',
        otherwise: 'your login name here',
        example: 'zephyr',
      },
      tags: {
        kind: listOf(line()),
        about: 'Labels to filter lists by.',
        otherwise: 'none',
        example: '[experiment, llama]',
      },
      env: {
        kind: mapOf(environmentName),
        about: 'Environment variables of the command.',
        otherwise: 'none',
        example: '{WANDB_MODE: offline}',
        aliases: ['environment'],
      },
      checkpoint_dir: {
        kind: line(),
        about:
          'Folder that the program keeps its checkpoints in, best inside a mounted bucket. The program finds it as `JOBMAN_CHECKPOINT_DIR`, and after an interruption its newest complete entry as `JOBMAN_RESUME_FROM`.',
        otherwise: 'none',
        example: '~/bucket/checkpoints',
      },
      silence_timeout: {
        kind: duration(second),
        about: 'The attempt counts as hung when the program has printed nothing for so long.',
        otherwise: 'no limit',
        example: '30m',
      },
      max_runtime: {
        kind: duration(second),
        about: "The command's longest run in one attempt.",
        otherwise: 'no limit',
        example: '2d',
      },
      capacity_wait: {
        kind: duration(second),
        about: 'How long to wait for a TPU before giving up.',
        otherwise: 'no limit',
        example: '12h',
      },
      stop_signal: {
        kind: choice(...signals),
        about: 'The signal that asks the program to end.',
        otherwise: 'TERM',
        example: 'INT',
      },
      stop_grace: {
        kind: duration(),
        about: 'How long it has to end before it is killed with all its children.',
        otherwise: '30s',
        example: '2m',
      },
      on_finish: {
        kind: choice('release', 'keep'),
        about: 'What happens to the TPU when the job is over. A kept TPU goes on costing.',
        otherwise: 'release',
        example: 'keep',
      },
      keep_for: {
        kind: duration(second),
        about: 'With `on_finish: keep`: how long it is kept at most.',
        otherwise: 'until you release it',
        example: '1h',
      },
      files: {
        kind: listOf(line({ words: 'from:to' }), 'list of from:to'),
        about:
          'Files and folders that are copied to every worker before anything else, as `from:to`. `from` is relative to the manifest, `to` to the login folder of the worker; without `:to` the name stays. At most 1 MiB each and 4 MiB together: larger things belong in a bucket.',
        otherwise: 'none',
        example: '[train.py, data:experiment/data]',
      },
    }),
  },
  tpu: {
    about: 'The TPU that is asked for. A manifest has either this section or `local`.',
    otherwise: 'none',
    kind: section({
      project: {
        kind: line({
          words: 'project',
          pattern: /^[a-z][a-z0-9:.-]{2,62}$/,
          rule: 'is no id of a Google Cloud project',
        }),
        about: 'The Google Cloud project, or `emulator` for the cloud that is built into jobman and costs nothing.',
        otherwise: 'the one in your settings',
        example: 'my-project',
      },
      allocation_mode: {
        kind: choice('queued-resources', 'tpu-vm'),
        about:
          "`queued-resources` waits in Google's queue until there is capacity; `tpu-vm` asks for the machine directly, again and again.",
        otherwise: 'queued-resources',
        example: 'tpu-vm',
      },
      accelerator: {
        kind: line(),
        about: "Generation and size, in Google's words.",
        isRequired: true,
        otherwise: 'must be given',
        example: 'v4-8',
      },
      name: {
        kind: line({
          words: 'name',
          pattern: /^[a-z]([a-z0-9-]*[a-z0-9])?$/,
          rule: 'is no name for a TPU (small letters, digits and -, beginning with a letter, not ending with -)',
        }),
        about:
          "First part of the TPU's name in the cloud; the job's id and the number of the allocation follow. In the command `${tpu.name}` is the full name.",
        otherwise: "the job's name",
        example: 'ada-${tpu.accelerator}',
      },
      zone: {
        kind: line({
          words: 'zone',
          pattern: /^[a-z]+-[a-z]+\d+-[a-z]$/,
          rule: 'is no zone; a zone is a region and a letter, as in us-central2-b',
        }),
        about: 'The zone that the TPU is made in. Your bucket should be in the same region.',
        isRequired: true,
        otherwise: 'must be given',
        example: 'us-central2-b',
      },
      version: {
        kind: line({ words: 'version', pattern: /^[A-Za-z0-9._-]+$/, rule: 'is no runtime version' }),
        about: 'The image of the machines ("runtime version").',
        otherwise: 'the one that Google names for the generation',
        example: 'tpu-ubuntu2204-base',
      },
      pricing: {
        kind: choice('spot', 'ondemand', 'preemptible'),
        about:
          '`spot` is cheapest and can be taken away at any time; `preemptible` is its predecessor; `ondemand` stays.',
        otherwise: 'spot',
        example: 'ondemand',
      },
      ownership: {
        kind: choice('owned', 'standing'),
        about:
          '`owned`: the TPU is made for the job and released with it. `standing`: a TPU of that very name exists before and after the job.',
        otherwise: 'owned',
        example: 'standing',
      },
      startup_script: {
        kind: line({ words: 'path' }),
        about: 'A file here whose content runs as root at every boot of every worker.',
        otherwise: 'none',
        example: 'startup.sh',
      },
      tags: {
        kind: listOf(
          line({
            words: 'tag',
            pattern: /^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$/,
            rule: 'is no network tag (small letters, digits and -)',
          }),
        ),
        about: 'Network tags for firewall rules, which are also labels to filter lists by.',
        otherwise: 'none',
        example: '["jobman", "experiment"]',
      },
      metadata: {
        kind: mapOf(metadataName),
        about: 'Names and values that the machines can read.',
        otherwise: 'none',
        example: '{owner: ada}',
      },
    }),
  },
  local: {
    about: 'Runs the job on this machine. An empty section (`local: {}`) is enough.',
    otherwise: 'none',
    kind: section({
      workdir: {
        kind: line({ words: 'path' }),
        about: 'Folder that the command starts in.',
        otherwise: "the manifest's folder",
        example: '.',
      },
    }),
  },
  setup: {
    about: 'What is set up on each worker before the command.',
    otherwise: 'every section that is there, in the order ssh, gcsfuse, environment',
    kind: section({
      modules: {
        kind: listOf(choice(...moduleNames), 'list of module names'),
        about:
          'Which sections are used, in this order: `ssh`, `gcsfuse`, one of `docker`, `conda`, `venv` (or docker and one of the others inside it), `command`.',
        otherwise: 'ssh, gcsfuse and the environment, those that are there',
        example: '[ssh, gcsfuse, docker, command]',
      },
      tries: { kind: whole(1, 100), about: 'How often one step is tried on one worker.', otherwise: '3', example: '5' },
    }),
  },
  ssh: {
    about: 'Keys: the one that jobman logs in with, and those that the workers get.',
    otherwise: "jobman's own key, and nothing on the workers",
    kind: section({
      private_key: {
        kind: line({ words: 'path' }),
        about: 'The private key file here that jobman logs in to the workers with.',
        otherwise: "jobman's own key",
        example: '~/.ssh/id_rsa',
        aliases: ['tpu_private_key'],
      },
      tpu_public_key: {
        kind: line({ words: 'path' }),
        about:
          'Its public half. When given, both halves are copied to the workers, so that they can log in to each other.',
        otherwise: 'none',
        example: '~/.ssh/id_rsa.pub',
      },
      identities: {
        kind: listOf(
          section({
            private_key: {
              kind: line({ words: 'path' }),
              about: 'A private key file here.',
              isRequired: true,
              otherwise: 'must be given',
              example: '~/.ssh/id_ed25519_github',
            },
            public_key: {
              kind: line({ words: 'path' }),
              about: 'Its public half.',
              otherwise: 'none',
              example: '~/.ssh/id_ed25519_github.pub',
            },
            config_entry: {
              kind: text(),
              about: 'Lines for the ssh_config of the workers.',
              otherwise: 'none',
              example: '"Host github.com"',
            },
          }),
          'list of identities',
        ),
        about: 'Further keys that are copied to `~/.ssh` of every worker, with lines for its ssh_config.',
        otherwise: 'none',
      },
    }),
  },
  gcsfuse: {
    about: 'Mounts a bucket of Google Cloud Storage as a folder of every worker.',
    otherwise: 'no bucket',
    kind: section({
      bucket_name: {
        kind: bucketName,
        about: 'The bucket.',
        isRequired: true,
        otherwise: 'must be given',
        example: 'llm_pruning_us_central2_b',
      },
      mount_path: mountPath,
      cache: { kind: cache, about: 'How gcsfuse caches.', otherwise: "gcsfuse's own way" },
      extra_mounts: {
        kind: listOf(
          section({
            bucket_name: {
              kind: bucketName,
              about: 'Another bucket.',
              otherwise: 'the same bucket',
              example: 'my-data',
            },
            mount_path: mountPath,
            cache: { kind: cache, about: 'How gcsfuse caches this mount.', otherwise: "gcsfuse's own way" },
          }),
          'list of mounts',
        ),
        about: 'Further mounts.',
        otherwise: 'none',
      },
    }),
  },
  docker: {
    about: 'Runs the command in a container.',
    otherwise: 'no container',
    kind: section({
      image: {
        kind: line({ words: 'image', pattern: /^[^\s-]\S*$/, rule: 'is no name of an image' }),
        about: 'The image; name its version for runs that can be repeated.',
        isRequired: true,
        otherwise: 'must be given',
        example: 'example/maxtext_base_image:latest',
      },
      env_vars: {
        kind: listOf(
          text({ words: 'NAME=value', pattern: /^[A-Za-z_][A-Za-z0-9_]*(=[\s\S]*)?$/, rule: 'is no NAME=value' }),
          'list of NAME=value',
        ),
        about: "Environment variables inside the container; a NAME alone hands on the worker's own.",
        otherwise: 'none',
        example: '[HOME=/home/zephyr]',
      },
      mount_dirs: {
        kind: listOf(
          line({
            words: '/path or /path:/inside',
            pattern: /^(~?\/?[^:]+|~)(:\/[^:]*(:[a-zA-Z,]+)?)?$/,
            rule: 'is no mount; write /path or /path:/inside',
          }),
          'list of /path or /path:/inside',
        ),
        about: 'Folders of the worker that the container sees. `~` is the login folder of the worker.',
        otherwise: 'none',
        example: '[/home/zephyr, /dev]',
      },
      workdir: {
        kind: line(),
        about: 'Folder inside the container that the command starts in.',
        otherwise: "the image's own",
        example: '/home/zephyr',
        aliases: ['work_dir'],
      },
      flags: {
        kind: listOf(line()),
        about: 'Further flags of `docker run`.',
        otherwise: 'none',
        example: '["--privileged", "--network=host"]',
      },
    }),
  },
  conda: {
    about: 'Runs the command in a conda environment.',
    otherwise: 'no conda environment',
    kind: section({
      name: {
        kind: line({
          words: 'name',
          pattern: /^[A-Za-z0-9_][A-Za-z0-9_.-]*$/,
          rule: 'is no name of a conda environment',
        }),
        about: 'Name of the environment.',
        isRequired: true,
        otherwise: 'must be given',
        example: 'fms',
        aliases: ['env_name'],
      },
      config_file: {
        kind: line({ words: 'path' }),
        about: 'An environment.yaml here, from which the environment is made.',
        otherwise: 'none; the environment must be there already',
        example: 'assets/fms.yaml',
        aliases: ['yaml_file'],
      },
      enabled: {
        kind: truth(),
        about: '`false` takes the section out of the choice.',
        otherwise: 'true',
        example: 'false',
      },
    }),
  },
  venv: {
    about: 'Runs the command in a Python virtual environment.',
    otherwise: 'no virtual environment',
    kind: section({
      name: {
        kind: line({
          words: 'name',
          pattern: /^[A-Za-z0-9_][A-Za-z0-9_.-]*$/,
          rule: 'is no name of a virtual environment',
        }),
        about: 'Name of the environment, which is made in `~/venv/<name>`.',
        otherwise: 'venv',
        example: 'maxtext',
      },
      path: {
        kind: line(),
        about: 'Its folder on the worker, in place of `~/venv/<name>`.',
        otherwise: '~/venv/<name>',
        example: '~/maxtext-venv',
      },
      requirements_file: {
        kind: line({ words: 'path' }),
        about: 'A requirements file here whose packages are installed.',
        otherwise: 'none',
        example: 'assets/requirements.txt',
      },
      python: {
        kind: python,
        about: 'Version of Python: `3.9`, `"3.9"` and `python3.9` are the same.',
        otherwise: 'python3',
        example: 'python3.10',
      },
    }),
  },
  command: {
    about:
      'The work itself. Keys of your own with a single value may stand here, for `${command.lr}` and `--set command.lr=0.01`.',
    isRequired: true,
    otherwise: 'must be given',
    example: '{run: python3 train.py}',
    kind: section(
      {
        run: {
          kind: script(),
          about:
            "A shell script. `${a.b}` is a value of the manifest; `$NAME` and a bare `${NAME}` are the shell's own.",
          isRequired: true,
          otherwise: 'must be given',
          example: 'python3 train.py',
          aliases: ['cmd'],
        },
        workers: { kind: workers, about: 'Which workers run it, counted from 0.', otherwise: 'all', example: '[0]' },
        env: {
          kind: mapOf(environmentName),
          about: 'Environment variables, over those of job.env.',
          otherwise: 'none',
          example: '{SEED: 7}',
        },
        workdir: {
          kind: line(),
          about: 'Folder that it starts in: on the worker, or inside the container.',
          otherwise: "the login folder, or the container's own",
          example: '~/experiment',
        },
        runs_on: {
          kind: choice('workers', 'here'),
          about: '`here` runs it once, on the machine of jobman itself, for scripts that drive the TPU from outside.',
          otherwise: 'workers',
          example: 'here',
        },
      },
      freeValue(),
    ),
  },
  recovery: {
    about: 'What happens when an attempt ends: the name of a preset, or a section.',
    otherwise: '`pre` on spot and preemptible TPUs, else `pass`',
    example: 'pre',
    kind: either(line({ words: 'name of a preset' }), (tree) => tree.kind !== 'map', recovery),
  },
  vars: {
    about: 'Values of your own, for `${vars.name}` anywhere in the manifest. Lists and maps may stand here too.',
    otherwise: 'none',
    example: '{seed: 7}',
    kind: section({}, anything()),
  },
});

export type SectionName = Extract<keyof ManifestValue, string>;
type ManifestValue = typeof manifest extends Kind<infer T> ? T : never;
/** What a section is once it has been read. */
export type Section<N extends keyof ManifestValue> = NonNullable<ManifestValue[N]>;
export type RecoverySection = SectionOf<typeof recovery>;
export type CacheSection = SectionOf<typeof cache>;
type SectionOf<K> = K extends Kind<infer T> ? T : never;

type Path = readonly (string | number)[];

/** The kind of what stands at a path; undefined when the table has no such key. */
export function kindAt(path: Path): Kind<unknown> | undefined {
  let kind: Kind<unknown> | undefined = manifest;
  for (const part of path) {
    if (kind === undefined) return undefined;
    if (typeof part === 'number' && kind.element !== undefined) kind = kind.element;
    else kind = kind.keys === undefined ? undefined : (keyNamed(kind.keys, String(part))?.kind ?? kind.free);
  }
  return kind;
}

/** The keys of the section that a path leads into: those among which its last part is one. */
export function keysAround(path: Path): Keys | undefined {
  return kindAt(path.slice(0, -1))?.keys;
}

/** Other names of the key at a path. */
export function aliasesAt(path: Path): readonly string[] {
  const keys = keysAround(path);
  const last = path.at(-1);
  return keys === undefined || last === undefined ? [] : otherNames(keys, String(last));
}

export type { SectionValue };
