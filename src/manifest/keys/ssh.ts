// Keys of `ssh`: the keys to log in with, and those that the workers get.

import { listOf, path, section, text } from '../kinds.ts';
import type { Key } from '../../schema/kinds.ts';

/** The section `ssh`. */
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
