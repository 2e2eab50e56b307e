// Schema: the table of keys as JSON Schema, for editors that complete and check a manifest while it is written.

import { manifest } from './keys.ts';
import type { Schema } from '../schema/kinds.ts';

/** The JSON Schema of manifests. Stricter than the parser in nothing: whatever it refuses, `create` refuses too. */
export function manifestSchema(): Schema {
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'jobman manifest',
    description: 'A job for jobman: where it runs, what is set up there, and what is run.',
    ...manifest.schema,
  };
}
