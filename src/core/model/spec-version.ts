// Spec version: the specs that earlier versions have stored, in the format of this one. A stored spec is never rewritten,
// because it is the record of what its owner created.

import type { JobSpec } from './spec.ts';

/** A spec or an outline as some version has stored it. */
export type StoredSpec = JobSpec | SpecOfVersion1;

/** Version 1 names files and folders of the machine that created the job. */
type SpecOfVersion1 = Omit<JobSpec, 'version'> & { readonly version: 1 };

/** The same job in the format of this version. */
export function upgradeSpec(stored: StoredSpec): JobSpec {
  if (stored.version !== 1) return stored;
  return { ...stored, version: 2 };
}
