// Orphans: cloud resources with our label that no job claims, recorded by a forced delete or by orphan collection. The
// user checks and releases them, and jobman forgets those that are gone. Resources of other installations are listed
// for information and cannot be released from here.

import { isAllowedProject } from './require-permission.ts';
import { type Job, heldAllocations, capacityOf } from '../core/model/job.ts';
import type { OutcomeResult } from '../core/model/observation.ts';
import type { Instant } from '../core/model/time.ts';
import { asClause } from './format.ts';
import { orphansIn } from './reclaim.ts';
import { recordOrphanUsage } from './record-orphan.ts';
import { locationPrefix, projectOf, type Store, type Orphan } from './ports.ts';
import {
  claimingJobs,
  forgettable,
  mergeScopes,
  observeScopes,
  orphanScopes,
  maxFinishedJobs,
  tpuScopes,
  tpuRows,
  tpuSpecs,
  type TpuCloud,
  type UncheckedLocation,
  type TpuRow,
  type ObservedTpu,
  type TpuSettings,
} from './tpus.ts';

export interface OrphanView extends Orphan {
  readonly presence: 'present' | 'gone' | 'unknown';
  readonly message: string;
}

export interface OrphanReport {
  /** Of this installation: recorded orphans, and labelled TPUs that no job claims. */
  readonly orphans: readonly OrphanView[];
  /** Shared TPUs of this installation without a job; only `tpu delete` deletes them. */
  readonly shared: readonly TpuRow[];
  readonly others: readonly TpuRow[];
  readonly unchecked: readonly UncheckedLocation[];
  /** False if there were queries and no project answered, so that nothing is known. */
  readonly anyAnswered: boolean;
  readonly forgettable: readonly string[];
}

interface OrphanOperations {
  /** Checks all locations of the settings, the jobs and the recorded orphans. Read-only and starts nothing. */
  observe(): Promise<OrphanReport>;
  observeAgain(orphans: readonly Orphan[]): Promise<readonly OrphanView[]>;
  /** `done`: the cloud accepted the request, or nothing of ours exists. Safe to repeat. */
  release(orphan: Orphan): Promise<OutcomeResult>;
  forget(orphan: Orphan): Promise<void>;
}

export function orphansOf(job: Job): readonly Orphan[] {
  const { capacity } = job.spec;
  if (capacity.kind !== 'tpu') return [];
  // Google's resource names, as orphan collection finds them and a release needs them.
  const resourceType = capacity.mode === 'queued-resources' ? 'queuedResources' : 'nodes';
  return heldAllocations(job).map((allocation) => ({
    backend: capacity.kind,
    resource: `${locationPrefix(capacityOf(job, allocation)) ?? ''}${resourceType}/${allocation.name}`,
    installation: job.installation,
    job: job.id,
    allocation: allocation.ordinal,
    state: allocation.lastObserved?.detail ?? 'unknown',
  }));
}

/** `release` deletes only resources with the orphan's labels. */
export function createOrphanOperations(parts: {
  readonly store: Pick<Store, 'list' | 'loadMany' | 'load' | 'commit' | 'orphans' | 'forgetOrphan'>;
  readonly installation: string | null;
  readonly cloud: TpuCloud;
  readonly settings: TpuSettings;
  readonly release: (orphan: Orphan) => Promise<OutcomeResult>;
  readonly now: () => Instant;
}): OrphanOperations {
  const { store, cloud, settings, now } = parts;
  const isVisible = (project: string | undefined): boolean =>
    isAllowedProject(settings.allowedProjects ?? null, project ?? '');

  /** From the deletion on it is not charged any more. */
  async function recordEnd(orphan: Orphan): Promise<void> {
    if (orphan.installation === parts.installation) await recordOrphanUsage(store, orphan, [], now());
  }

  /** A job may use the TPU that a client calls an orphan. */
  async function isOrphan(orphan: Orphan): Promise<boolean> {
    const isIt = (one: Orphan) => one.resource === orphan.resource && isSameOrphan(one, orphan);
    if ((await store.orphans()).some(isIt)) return true;
    const { tpus } = await observeScopes(cloud, orphanScopes([orphan]));
    const installation = parts.installation ?? '';
    const { jobs } = await store.list({ maxFinished: 0 });
    const claiming = await claimingJobs(store, tpus, jobs, installation);
    return tpuRows(tpus, { installation, jobs: claiming, now: now(), cloud }).flatMap(orphansIn).some(isIt);
  }

  return {
    async observe() {
      const recorded = (await store.orphans()).filter((orphan) => isVisible(projectOf(orphan)));
      // A deleted job no longer counts for its project; its orphans are recorded.
      const { jobs } = await store.list({ maxFinished: maxFinishedJobs });
      const specs = tpuSpecs(jobs, settings.forgottenProjects);
      const { tpus, unchecked, anyAnswered } = await observeScopes(
        cloud,
        mergeScopes(tpuScopes({}, settings, specs), orphanScopes(recorded)).filter(({ project }) => isVisible(project)),
      );
      const installation = parts.installation ?? '';
      const claiming = await claimingJobs(store, tpus, jobs, installation);
      const rows = tpuRows(tpus, { installation, jobs: claiming, now: now(), cloud });
      const found = rows
        .flatMap((row) => orphansIn(row))
        .filter((orphan) => !recorded.some((one) => isSameOrphan(one, orphan)));
      return {
        orphans: [...recorded, ...found].map((orphan) => ({ ...orphan, ...presenceOf(tpus, unchecked, orphan) })),
        shared: rows.filter(({ owner }) => owner.kind === 'shared'),
        others: rows.filter(({ owner }) => owner.kind === 'installation' || owner.kind === 'none'),
        unchecked,
        anyAnswered,
        forgettable: forgettable(jobs, settings).filter(isVisible),
      };
    },
    async observeAgain(orphans) {
      const { tpus, unchecked } = await observeScopes(cloud, orphanScopes(orphans));
      return orphans.map((orphan) => ({ ...orphan, ...presenceOf(tpus, unchecked, orphan) }));
    },
    async release(orphan) {
      if (!(await isOrphan(orphan))) {
        const message = `${orphan.resource} is not an orphan of this jobman`;
        return { kind: 'refused', evidence: { message } };
      }
      const result = await parts.release(orphan);
      if (result.kind === 'done') await recordEnd(orphan);
      return result;
    },
    async forget(orphan) {
      await recordEnd(orphan);
      await store.forgetOrphan(orphan);
    },
  };
}

function isSameOrphan(one: Pick<Orphan, 'installation' | 'job' | 'allocation'>, other: typeof one): boolean {
  return one.installation === other.installation && one.job === other.job && one.allocation === other.allocation;
}

/** By labels and not by name: a node that outlived its queued resource is the same orphan. */
function presenceOf(
  tpus: readonly ObservedTpu[],
  unchecked: readonly UncheckedLocation[],
  orphan: Orphan,
): Pick<OrphanView, 'presence' | 'message'> {
  const found = tpus.find(({ label }) => label !== null && isSameOrphan(label, orphan));
  if (found !== undefined)
    return { presence: 'present', message: found.nodeState ?? found.queuedResourceState ?? 'STATE_UNSPECIFIED' };
  const uncheckedLocation = unchecked.find(({ project, zone }) =>
    orphan.resource.startsWith(`projects/${project}/locations/${zone === null ? '' : `${zone}/`}`),
  );
  return uncheckedLocation === undefined
    ? { presence: 'gone', message: 'gone' }
    : { presence: 'unknown', message: asClause(uncheckedLocation.message) };
}
