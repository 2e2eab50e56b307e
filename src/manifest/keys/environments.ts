import { line, listOf, path, section, text, bool } from '../kinds.ts';
import { splitArguments } from '../../catalogue/shell.ts';
import { key, ownJobs, refined, type Key } from '../../schema/kinds.ts';

/** Excludes JOBMAN_*, which jobman sets for the program. */
export const variableName = {
  pattern: /^(?!JOBMAN_)[A-Za-z_][A-Za-z0-9_]*$/,
  rule: 'is not a valid name of an environment variable (letters, digits and _; names that begin with JOBMAN_ are reserved)',
};

export const environmentNames = ['docker', 'conda', 'venv'] as const;
export type EnvironmentName = (typeof environmentNames)[number];

/** For keys that jobman sets itself. */
export const setByJobman = 'is set by jobman; remove it';

const dockerFlags = refined(line(), (flag, fail) => {
  const args = splitArguments(flag);
  // `docker run -d` ends at once with 0: the job would succeed while its container runs on and is never ended.
  const detaching = args?.find((arg) => /^(-[itPq]*d[itPq]*|--detach(=true)?)$/.test(arg));
  if (detaching === undefined) return args ?? fail('has a quote that is not closed');
  return fail(
    `${detaching} detaches the container, so jobman could not see how its command ends; remove the flag: jobs run in the background anyway`,
  );
});

export const docker = {
  jobs: ownJobs,
  description: 'Runs the command in a container.',
  defaultText: 'no container',
  kind: section({
    image: key(
      line({ description: 'image', pattern: /^[^\s-]\S*$/ }),
      'The image. Include its version, so that a run can be repeated.',
      { isRequired: true, example: 'example/maxtext_base_image:latest' },
    ),
    env_vars: key(
      listOf(
        text({ description: 'NAME=value', pattern: /^[A-Za-z_][A-Za-z0-9_]*(=[\s\S]*)?$/, rule: 'must be NAME=value' }),
        'list of NAME=value',
      ),
      "Environment variables inside the container; a NAME alone passes the worker's value.",
      { example: '[HOME=/home/zephyr]' },
    ),
    mount_dirs: key(
      listOf(
        path({
          description: '/path or /path:/inside',
          pattern: /^(~|~?\/[^:]*)(:\/[^:]*(:[a-zA-Z,]+)?)?$/,
          rule: 'is not a mount; write /path or /path:/inside',
          suggest: (written) => `/${written.replace(/^\.?\//, '')}`,
        }),
        'list of /path or /path:/inside',
      ),
      'Folders of the worker to mount in the container. `~` is the login folder of the worker.',
      { example: '[/home/zephyr, /dev]' },
    ),
    workdir: key(
      path(),
      'Folder inside the container in which the command starts; `~` is the login folder of the worker. A relative path is inside the copy of `job.workdir`.',
      { defaultText: "the image's", example: '/home/zephyr', aliases: ['work_dir'] },
    ),
    flags: key(listOf(dockerFlags), 'More flags for `docker run`, except `--detach`.', {
      example: '["--privileged", "--network=host"]',
    }),
  }),
} satisfies Key<unknown>;

function environmentName(of: string) {
  const rule = `is not a valid name of ${of} environment`;
  return line({ description: 'name', pattern: /^[A-Za-z0-9_][A-Za-z0-9_.-]*$/, rule });
}

export const conda = {
  jobs: ownJobs,
  description: 'Runs the command in a conda environment.',
  defaultText: 'no conda environment',
  kind: section({
    name: key(environmentName('a conda'), 'Name of the environment.', {
      isRequired: true,
      example: 'fms',
      aliases: ['env_name'],
    }),
    config_file: key(path(), 'An environment.yaml on this machine, from which jobman creates the environment.', {
      defaultText: 'none; the environment must exist',
      example: 'assets/fms.yaml',
      aliases: ['yaml_file'],
    }),
    enabled: key(bool(), '`false` ignores the section.', { defaultText: 'true', example: 'false' }),
  }),
} satisfies Key<unknown>;

/** `3.9`, `"3.9"` and `python3.9` are equal. The value is the program's name. */
const python = line({
  description: 'version',
  pattern: /^((python)?\d+(\.\d+)?|\/\S+)$/,
  rule: 'is not a Python version; write 3.9 or python3.9',
  suggest: (written) => /(\d+\.\d+)/.exec(written)?.[1],
});

export const venv = {
  jobs: ownJobs,
  description: 'Runs the command in a Python virtual environment.',
  defaultText: 'no virtual environment',
  kind: section({
    name: key(environmentName('a virtual'), 'Name of the environment, which jobman creates in `~/venv/<name>`.', {
      defaultText: 'venv',
      example: 'maxtext',
    }),
    path: key(path(), 'Folder of the environment on the worker, instead of `~/venv/<name>`.', {
      defaultText: '~/venv/<name>',
      example: '~/maxtext-venv',
    }),
    requirements_file: key(path(), 'A requirements file on this machine with the packages to install.', {
      example: 'assets/requirements.txt',
    }),
    python: key(python, 'Python version: `3.9`, `"3.9"` and `python3.9` are the same.', {
      defaultText: 'python3',
      example: 'python3.10',
    }),
  }),
} satisfies Key<unknown>;
