// Keys of `docker`, `conda` and `venv`: the environments of the command.

import { line, listOf, path, section, text, truth } from '../kinds.ts';
import type { Key, Kind } from '../../schema/kinds.ts';

/** Names of environment variables; those that begin with JOBMAN_ are told to the program by jobman. */
export const environmentName = {
  pattern: /^(?!JOBMAN_)[A-Za-z_][A-Za-z0-9_]*$/,
  rule: "is no name for an environment variable (letters, digits and _; names with JOBMAN_ are jobman's own)",
};

export const environmentNames = ['docker', 'conda', 'venv'] as const;
export type EnvironmentName = (typeof environmentNames)[number];

/** For keys that jobman knows by itself. They are in the copies of manifests that an older jobman kept. */
export const writtenByOlder = 'is written by jobman itself (an older version put it into manifests); remove it';

export const docker = {
  about: 'Runs the command in a container.',
  otherwise: 'no container',
  kind: section({
    image: {
      kind: line({ words: 'image', pattern: /^[^\s-]\S*$/, rule: 'is no name of an image' }),
      about: 'The image; name its version for runs that can be repeated.',
      isRequired: true,
      example: 'example/maxtext_base_image:latest',
    },
    env_vars: {
      kind: listOf(
        text({ words: 'NAME=value', pattern: /^[A-Za-z_][A-Za-z0-9_]*(=[\s\S]*)?$/, rule: 'is no NAME=value' }),
        'list of NAME=value',
      ),
      about: "Environment variables inside the container; a NAME alone hands on the worker's own.",
      example: '[HOME=/home/zephyr]',
    },
    mount_dirs: {
      kind: listOf(
        path({
          words: '/path or /path:/inside',
          pattern: /^(~|~?\/[^:]*)(:\/[^:]*(:[a-zA-Z,]+)?)?$/,
          rule: 'is no mount; write /path or /path:/inside',
          meant: (written) => `/${written.replace(/^\.?\//, '')}`,
        }),
        'list of /path or /path:/inside',
      ),
      about: 'Folders of the worker that the container sees. `~` is the login folder of the worker.',
      example: '[/home/zephyr, /dev]',
    },
    workdir: {
      kind: path(),
      about:
        'Folder inside the container that the command starts in; `~` is the login folder of the worker. A relative one is a folder of the copy of `job.workdir`.',
      otherwise: "the image's own",
      example: '/home/zephyr',
      aliases: ['work_dir'],
    },
    flags: {
      kind: listOf(line()),
      about: 'Further flags of `docker run`, but for `--detach`.',
      example: '["--privileged", "--network=host"]',
    },
  }),
} satisfies Key<unknown>;

export const conda = {
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
      example: 'fms',
      aliases: ['env_name'],
    },
    config_file: {
      kind: path(),
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
} satisfies Key<unknown>;

/** `3.9`, `"3.9"` and `python3.9` are one thing; the name of the program is answered. */
const python: Kind<string> = {
  ...line({
    words: 'version',
    pattern: /^((python)?\d+(\.\d+)?|\/\S+)$/,
    rule: 'is no version of Python; write 3.9 or python3.9',
    meant: (written) => /(\d+\.\d+)/.exec(written)?.[1],
  }),
};

export const venv = {
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
      kind: path(),
      about: 'Its folder on the worker, in place of `~/venv/<name>`.',
      otherwise: '~/venv/<name>',
      example: '~/maxtext-venv',
    },
    requirements_file: {
      kind: path(),
      about: 'A requirements file here whose packages are installed.',
      example: 'assets/requirements.txt',
    },
    python: {
      kind: python,
      about: 'Version of Python: `3.9`, `"3.9"` and `python3.9` are the same.',
      otherwise: 'python3',
      example: 'python3.10',
    },
  }),
} satisfies Key<unknown>;
