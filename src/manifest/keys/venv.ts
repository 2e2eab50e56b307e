// Keys of `venv`: the command in a Python virtual environment.

import { line, path, section } from '../kinds.ts';
import type { Key, Kind } from '../../schema/kinds.ts';

/** `3.9`, `"3.9"` and `python3.9` are one thing; the name of the program is answered. */
const python: Kind<string> = {
  ...line({
    words: 'version',
    pattern: /^((python)?\d+(\.\d+)?|\/\S+)$/,
    rule: 'is no version of Python; write 3.9 or python3.9',
    meant: (written) => /(\d+\.\d+)/.exec(written)?.[1],
  }),
};

/** The section `venv`. */
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
