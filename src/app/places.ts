// Places: where in a cloud a job's own capacity is, as one sweep asks it.

import type { CapacitySpec } from '../core/spec.ts';

/** What the name of everything in the place of such capacity begins with; null where nothing can be left behind. */
export function placeOf(capacity: CapacitySpec): string | null {
  return capacity.kind === 'tpu' ? `projects/${capacity.project}/locations/${capacity.zone}/` : null;
}
