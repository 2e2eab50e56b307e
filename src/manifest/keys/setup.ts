// Keys of `setup`: what is set up on each worker, in which order.

import { choice, listOf, section, whole } from '../kinds.ts';
import type { Key } from '../../schema/kinds.ts';
import { environmentNames } from './names.ts';

const moduleNames = ['files', 'ssh', 'gcsfuse', ...environmentNames, 'command'] as const;
/** The names in `setup.modules`. */
export type ModuleName = (typeof moduleNames)[number];

/** The section `setup`. */
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
