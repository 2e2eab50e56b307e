// Places: where in a cloud a job's own capacity is, as one sweep asks it.

import type { CapacitySpec } from '../core/spec.ts';

/** The beginning of all names in the place of such capacity; null where nothing can be left behind. */
export function placeOf(capacity: CapacitySpec): string | null {
  return capacity.kind === 'tpu' ? `projects/${capacity.project}/locations/${capacity.zone}/` : null;
}
