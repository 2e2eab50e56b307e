// In use: a standing TPU that another job of this record is at work on. Two programs cannot hold one TPU's chips, and the second
// one ends with an error that names neither.

import type { Job } from '../core/job.ts';
import { phaseOf } from '../core/phase.ts';
import type { JobSpec, TpuSpec } from '../core/spec.ts';
import type { Beyond } from './client.ts';
import type { Store } from './ports.ts';

/** The question before a job begins on a standing TPU that another one uses; null when none does. */
export async function usedByOthers(
  store: Pick<Store, 'list'>,
  spec: JobSpec,
  /** The job that is wanted again; null for one that is to be created. */
  job: Job | null,
): Promise<Beyond | null> {
  const wanted = standing(spec);
  if (wanted === null) return null;
  const [other] = await unfinishedOthers(store, job, (one) => isSame(standing(one), wanted));
  if (other === undefined) return null;
  const said = `the TPU ${wanted.name} is used by job ${other.id} (${other.spec.name}) of ${other.owner}, which is ${phaseOf(other)}`;
  return { sentence: said, cost: null, remedy: `\`jobman wait ${other.id}\` tells when it is free.` };
}

/** The unfinished jobs but this one, of those whose spec fits. */
export async function unfinishedOthers(
  store: Pick<Store, 'list'>,
  job: Job | null,
  fits: (spec: JobSpec) => boolean,
): Promise<readonly Job[]> {
  const { jobs } = await store.list({ settledMost: 0, withRemoved: false });
  return jobs.filter((one) => one.id !== job?.id && one.settled === null && fits(one.spec));
}

/** The standing TPU that a job of that spec works on; null for any other capacity. */
function standing({ capacity }: JobSpec): TpuSpec | null {
  return capacity.kind === 'tpu' && capacity.ownership === 'standing' ? capacity : null;
}

function isSame(one: TpuSpec | null, other: TpuSpec): boolean {
  return one?.project === other.project && one.zone === other.zone && one.name === other.name;
}
