// Keys of `docker`: the command in a container.

import { line, listOf, path, section, text } from '../kinds.ts';
import type { Key } from '../../schema/kinds.ts';

/** The section `docker`. */
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
