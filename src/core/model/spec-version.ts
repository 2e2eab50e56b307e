// Spec version: the specs that earlier versions have stored, in the format of this one. A stored spec is never rewritten,
// because it is the record of what its owner created.

import { ownHost, type HostsSpec, type JobSpec, type TpuSpec } from './spec.ts';

/** A spec or an outline as some version has stored it. */
export type StoredSpec = JobSpec | SpecOfVersion1;

/** Version 1 names files and folders of the machine that created the job. */
type SpecOfVersion1 = Omit<JobSpec, 'version' | 'capacity'> & {
  readonly version: 1;
  readonly capacity: TpuSpec | LocalSpecOfVersion1;
};

/** A job on this machine. Its folder is also in `command.workdir`. */
type LocalSpecOfVersion1 = Omit<HostsSpec, 'kind' | 'hosts'> & { readonly kind: 'local'; readonly workdir: string };

/** The same job in the format of this version. */
export function upgradeSpec(stored: StoredSpec): JobSpec {
  if (stored.version !== 1) return stored;
  return { ...stored, version: 2, capacity: upgradeCapacity(stored.capacity) };
}

function upgradeCapacity(capacity: SpecOfVersion1['capacity']): JobSpec['capacity'] {
  if (capacity.kind === 'tpu') return capacity;
  const { kind: _kind, workdir: _workdir, ...rest } = capacity;
  return { kind: 'hosts', hosts: [ownHost], ...rest };
}
