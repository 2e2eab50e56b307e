// Strays: what may have been left behind in a cloud. A forced delete notes it, and so does a sweep that finds what no job
// claims; here a person goes through the notes, and through all else that carries our label: look first, then let go, and
// forget what is seen gone. What is not of this record is shown beside it, and cannot be let go of from here.

import { type Job, heldAllocations, capacityOf } from '../core/job.ts';
import type { OutcomeResult } from '../core/observation.ts';
import type { Instant } from '../core/time.ts';
import { sentencePart } from './figures.ts';
import { placeOf, type Store, type Stray } from './ports.ts';
import {
  claimants,
  forgettable,
  lookIn,
  placesLooked,
  tpuScopes,
  tpuRows,
  tpuSpecs,
  type TpuCloud,
  type TpuMissed,
  type TpuRow,
  type TpuScope,
  type TpuSeen,
  type TpuSettings,
} from './tpus.ts';

export interface StrayView extends Stray {
  /** `unknown` when its place could not be asked. */
  readonly seen: 'there' | 'gone' | 'unknown';
  /** The cloud's word for its state, or why it is not known. */
  readonly says: string;
}

export interface StrayLook {
  /** Of this record: those that were noted, and those that carry our label and are claimed by no job. */
  readonly strays: readonly StrayView[];
  /** TPUs that this installation made for people to share, without a job on them now: deleted by `tpu delete` only. */
  readonly shared: readonly TpuRow[];
  /** Another jobman's, and what is nobody's: for people to talk about. */
  readonly others: readonly TpuRow[];
  readonly missed: readonly TpuMissed[];
  /** False where something was asked and no project answered, so that nothing is known. */
  readonly isAnswered: boolean;
  readonly forgettable: readonly string[];
}

export interface StrayKeeper {
  /** Looks wherever the settings, the jobs and the notes say that something may be. Changes nothing and starts nothing. */
  look(): Promise<StrayLook>;
  /** Looks at these again, in their own places only. */
  lookAt(strays: readonly Stray[]): Promise<readonly StrayView[]>;
  /** Asks the cloud to let it go. `done` means that the order was taken, or that nothing of ours is there. Safe to repeat. */
  letGo(stray: Stray): Promise<OutcomeResult>;
  /** Takes it off the record, if it was noted: a look has seen it gone. */
  forget(stray: Stray): Promise<void>;
  close(): Promise<void>;
}

/** The strays of a job that leaves the list: every owned allocation that nobody has seen gone. */
export function straysOf(job: Job): readonly Stray[] {
  const { capacity } = job.spec;
  if (capacity.kind !== 'tpu') return [];
  // As the cloud calls them, which is how a sweep finds them and what letting them go asks for.
  const collection = capacity.mode === 'queued-resources' ? 'queuedResources' : 'nodes';
  return heldAllocations(job).map((allocation) => ({
    backend: capacity.kind,
    resource: `${placeOf(capacityOf(job, allocation)) ?? ''}${collection}/${allocation.name}`,
    installation: job.installation,
    job: job.id,
    allocation: allocation.ordinal,
    state: allocation.seen?.detail ?? 'unknown',
  }));
}

/** Over the record and the clouds. `release` lets go of what is labelled as the stray says, and of nothing else. */
export function createStrayKeeper(parts: {
  readonly store: Pick<Store, 'list' | 'loadMany' | 'strays' | 'forgetStray'>;
  readonly installation: string | null;
  readonly cloud: TpuCloud;
  readonly settings: TpuSettings;
  readonly release: (stray: Stray) => Promise<OutcomeResult>;
  readonly now: () => Instant;
  readonly end: () => Promise<void>;
}): StrayKeeper {
  const { store, cloud, settings, now } = parts;

  return {
    async look() {
      const noted = await store.strays();
      // A deleted job names no project any more: what a forced delete left behind is among the notes.
      const { jobs } = await store.list({ settledMost: placesLooked });
      const specs = tpuSpecs(jobs, settings.forgottenProjects);
      const { tpus, missed, isAnswered } = await lookIn(cloud, joined(tpuScopes({}, settings, specs), scopesOf(noted)));
      const installation = parts.installation ?? '';
      const claiming = await claimants(store, tpus, jobs, installation);
      const rows = tpuRows(tpus, { installation, jobs: claiming, now: now(), cloud });
      const found = rows.flatMap((row) => strayIn(row)).filter((stray) => !noted.some((one) => isSame(one, stray)));
      return {
        strays: [...noted, ...found].map((stray) => ({ ...stray, ...seenIn(tpus, missed, stray) })),
        shared: rows.filter(({ whose }) => whose.kind === 'shared'),
        others: rows.filter(({ whose }) => whose.kind === 'installation' || whose.kind === 'nobody'),
        missed,
        isAnswered,
        forgettable: forgettable(jobs, settings),
      };
    },
    async lookAt(strays) {
      const { tpus, missed } = await lookIn(cloud, scopesOf(strays));
      return strays.map((stray) => ({ ...stray, ...seenIn(tpus, missed, stray) }));
    },
    letGo: (stray) => parts.release(stray),
    forget: (stray) => store.forgetStray(stray),
    close: () => parts.end(),
  };
}

function scopesOf(strays: readonly Stray[]): readonly TpuScope[] {
  const scopes = strays.flatMap(({ resource }): readonly TpuScope[] => {
    const [, project, zone] = /^projects\/([^/]+)\/locations\/([^/]+)\//.exec(resource) ?? [];
    return project === undefined || zone === undefined ? [] : [{ project, zones: [zone] }];
  });
  return joined(scopes, []);
}

function joined(some: readonly TpuScope[], more: readonly TpuScope[]): readonly TpuScope[] {
  const byProject = new Map<string, readonly string[] | null>();
  for (const { project, zones } of [...some, ...more]) {
    const before = byProject.get(project);
    const all =
      before === undefined ? zones : before === null || zones === null ? null : [...new Set([...before, ...zones])];
    byProject.set(project, all);
  }
  return [...byProject].map(([project, zones]) => ({ project, zones }));
}

function strayIn({ whose, label, resource, state }: TpuRow): readonly Stray[] {
  if (whose.kind !== 'stray' || label === null) return [];
  return [{ backend: 'tpu', resource, ...label, state }];
}

function isSame(one: Pick<Stray, 'installation' | 'job' | 'allocation'>, other: typeof one): boolean {
  return one.installation === other.installation && one.job === other.job && one.allocation === other.allocation;
}

/** By its labels and not by its name: a node that outlived its queued resource is the same stray. */
function seenIn(
  tpus: readonly TpuSeen[],
  missed: readonly TpuMissed[],
  stray: Stray,
): Pick<StrayView, 'seen' | 'says'> {
  const found = tpus.find(({ label }) => label !== null && isSame(label, stray));
  if (found !== undefined) return { seen: 'there', says: found.node ?? found.queued ?? 'STATE_UNSPECIFIED' };
  const unasked = missed.find(({ project, zone }) =>
    stray.resource.startsWith(`projects/${project}/locations/${zone === null ? '' : `${zone}/`}`),
  );
  return unasked === undefined ? { seen: 'gone', says: 'gone' } : { seen: 'unknown', says: sentencePart(unasked.says) };
}
