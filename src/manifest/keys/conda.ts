// Keys of `conda`: the command in a conda environment.

import { line, path, section, truth } from '../kinds.ts';
import type { Key } from '../../schema/kinds.ts';

/** The section `conda`. */
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
