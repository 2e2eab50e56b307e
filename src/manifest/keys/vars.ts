// Keys of `vars`: values of the user's own.

import { anything, section } from '../kinds.ts';
import type { Key } from '../../schema/kinds.ts';

/** The section `vars`. */
export const vars = {
  about: 'Values of your own, for `${vars.name}` anywhere in the manifest. Lists and maps may stand here too.',
  example: '{seed: 7}',
  kind: section({}, anything()),
} satisfies Key<unknown>;
