// Keys of `local`: the job on this machine.

import { path, section } from '../kinds.ts';
import type { Key } from '../../schema/kinds.ts';

/** The section `local`. */
export const local = {
  about: 'Runs the job on this machine. An empty section (`local: {}`) is enough.',
  kind: section({
    workdir: {
      kind: path(),
      about: 'Folder that the command starts in.',
      otherwise: "the manifest's folder",
      example: '.',
    },
  }),
} satisfies Key<unknown>;
