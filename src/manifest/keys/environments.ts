import { line, listOf, path, section, text, bool } from '../kinds.ts';
import type { Key, Kind } from '../../schema/kinds.ts';

/** Excludes JOBMAN_*, which jobman sets for the program. */
export const variableName = {
  pattern: /^(?!JOBMAN_)[A-Za-z_][A-Za-z0-9_]*$/,
  rule: "is no name for an environment variable (letters, digits and _; names with JOBMAN_ are jobman's own)",
};

export const environmentNames = ['docker', 'conda', 'venv'] as const;
export type EnvironmentName = (typeof environmentNames)[number];

/** For keys that jobman derives. An older version wrote them into its copies of manifests. */
export const writtenByOlderVersion = 'is written by jobman itself (an older version put it into manifests); remove it';

export const docker = {
  description: 'Runs the command in a container.',
  defaultText: 'no container',
  kind: section({
    image: {
      kind: line({ description: 'image', pattern: /^[^\s-]\S*$/, rule: 'is no name of an image' }),
      description: 'The image; name its version for runs that can be repeated.',
      isRequired: true,
      example: 'example/maxtext_base_image:latest',
    },
    env_vars: {
      kind: listOf(
        text({ description: 'NAME=value', pattern: /^[A-Za-z_][A-Za-z0-9_]*(=[\s\S]*)?$/, rule: 'is no NAME=value' }),
        'list of NAME=value',
      ),
      description: "Environment variables inside the container; a NAME alone hands on the worker's own.",
      example: '[HOME=/home/zephyr]',
    },
    mount_dirs: {
      kind: listOf(
        path({
          description: '/path or /path:/inside',
          pattern: /^(~|~?\/[^:]*)(:\/[^:]*(:[a-zA-Z,]+)?)?$/,
          rule: 'is no mount; write /path or /path:/inside',
          suggest: (written) => `/${written.replace(/^\.?\//, '')}`,
        }),
        'list of /path or /path:/inside',
      ),
      description: 'Folders of the worker that the container sees. `~` is the login folder of the worker.',
      example: '[/home/zephyr, /dev]',
    },
    workdir: {
      kind: path(),
      description:
        'Folder inside the container that the command starts in; `~` is the login folder of the worker. A relative one is a folder of the copy of `job.workdir`.',
      defaultText: "the image's own",
      example: '/home/zephyr',
      aliases: ['work_dir'],
    },
    flags: {
      kind: listOf(line()),
      description: 'Further flags of `docker run`, but for `--detach`.',
      example: '["--privileged", "--network=host"]',
    },
  }),
} satisfies Key<unknown>;

export const conda = {
  description: 'Runs the command in a conda environment.',
  defaultText: 'no conda environment',
  kind: section({
    name: {
      kind: line({
        description: 'name',
        pattern: /^[A-Za-z0-9_][A-Za-z0-9_.-]*$/,
        rule: 'is no name of a conda environment',
      }),
      description: 'Name of the environment.',
      isRequired: true,
      example: 'fms',
      aliases: ['env_name'],
    },
    config_file: {
      kind: path(),
      description: 'An environment.yaml here, from which the environment is made.',
      defaultText: 'none; the environment must be there already',
      example: 'assets/fms.yaml',
      aliases: ['yaml_file'],
    },
    enabled: {
      kind: bool(),
      description: '`false` takes the section out of the choice.',
      defaultText: 'true',
      example: 'false',
    },
  }),
} satisfies Key<unknown>;

/** `3.9`, `"3.9"` and `python3.9` are equal. The value is the program's name. */
const python: Kind<string> = {
  ...line({
    description: 'version',
    pattern: /^((python)?\d+(\.\d+)?|\/\S+)$/,
    rule: 'is no version of Python; write 3.9 or python3.9',
    suggest: (written) => /(\d+\.\d+)/.exec(written)?.[1],
  }),
};

export const venv = {
  description: 'Runs the command in a Python virtual environment.',
  defaultText: 'no virtual environment',
  kind: section({
    name: {
      kind: line({
        description: 'name',
        pattern: /^[A-Za-z0-9_][A-Za-z0-9_.-]*$/,
        rule: 'is no name of a virtual environment',
      }),
      description: 'Name of the environment, which is made in `~/venv/<name>`.',
      defaultText: 'venv',
      example: 'maxtext',
    },
    path: {
      kind: path(),
      description: 'Its folder on the worker, in place of `~/venv/<name>`.',
      defaultText: '~/venv/<name>',
      example: '~/maxtext-venv',
    },
    requirements_file: {
      kind: path(),
      description: 'A requirements file here whose packages are installed.',
      example: 'assets/requirements.txt',
    },
    python: {
      kind: python,
      description: 'Version of Python: `3.9`, `"3.9"` and `python3.9` are the same.',
      defaultText: 'python3',
      example: 'python3.10',
    },
  }),
} satisfies Key<unknown>;
