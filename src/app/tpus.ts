// TPUs: everything that exists in the places that are named, whose it is, and what it costs while nothing of ours runs on
// it. A place that could not be asked is told with its own words; it never reads as a place where nothing is.

import { heldAllocations, type Job } from '../core/job.ts';
import { placesOf, type TpuSpec } from '../core/spec.ts';
import { hour, type Duration, type Instant } from '../core/time.ts';
import { exitCode, JobmanError } from './errors.ts';
import type { Grant } from './settings.ts';
import type { Store } from './ports.ts';

export interface TpuSeen {
  readonly project: string;
  readonly zone: string;
  readonly name: string;
  /** The cloud's name for the whole of it: a release names this. */
  readonly resource: string;
  /** Google's words for both states; null for the one that is not there. */
  readonly node: string | null;
  readonly queued: string | null;
  /** `v4-16`; null where the cloud does not say. */
  readonly type: string | null;
  readonly pricing: TpuSpec['pricing'] | 'reserved';
  readonly label: { readonly installation: string; readonly job: string; readonly allocation: number } | null;
  /** The installation that made it as a TPU for people to share (`tpu apply`); null for every other TPU. */
  readonly sharedBy: string | null;
  /** The entry `owner` of its metadata, which people write there for each other. */
  readonly owner: string | null;
  readonly createdAt: Instant | null;
}

/** A place that could not be asked; `zone` is null when that is all of the project. */
export interface TpuMissed {
  readonly project: string;
  readonly zone: string | null;
  /** In the words of the cloud, or of what stood in between. */
  readonly says: string;
  /** The built-in cloud does not run: nothing of it costs anything, and nobody needs to mend it. */
  readonly asleep: boolean;
}

/** The zones of a project to ask about; null means all of them. */
export interface TpuScope {
  readonly project: string;
  readonly zones: readonly string[] | null;
}

export interface TpuCloud {
  /** All that is there. Starts nothing and never throws: what could not be asked is in `missed`. */
  list(place: TpuScope): Promise<{ readonly tpus: readonly TpuSeen[]; readonly missed: readonly TpuMissed[] }>;
  pricePerHour(seen: TpuSeen): number | null;
  /** True for what the built-in cloud pretends. */
  isPretended(project: string): boolean;
}

/** The owner of a TPU. `stray`: of this record, and no job claims it. `installation`: another jobman's. */
type Whose =
  /** `user` made the job; `owner` is whom its metadata names, where people share a login. */
  | { readonly kind: 'job'; readonly id: string; readonly name: string; readonly user: string; readonly owner: string }
  | { readonly kind: 'stray'; readonly id: string }
  | { readonly kind: 'installation'; readonly installation: string; readonly id: string | null }
  /** A shared TPU that this installation made; `name` is the person who asked for it, null where its metadata names none. */
  | { readonly kind: 'shared'; readonly name: string | null }
  | { readonly kind: 'person'; readonly name: string }
  | { readonly kind: 'nobody' };

export interface TpuRow extends TpuSeen {
  /** Google's word: the node's, or the queued resource's where there is no node. */
  readonly state: string;
  readonly whose: Whose;
  readonly job: string | null;
  /** Since when it is ready; of one that no job of this record waited for, since when it exists. Null while it is not ready. */
  readonly readySince: Instant | null;
  /** How long it has been ready without a command of ours. Null while it is in use, not ready or somebody else's. */
  readonly idle: Duration | null;
  readonly pricePerHour: number | null;
  readonly idleCost: number | null;
  readonly pretended: boolean;
}

export interface TpuList {
  /** Those whose idle time has cost most come first. */
  readonly rows: readonly TpuRow[];
  readonly missed: readonly TpuMissed[];
  readonly isAnswered: boolean;
  /** The projects that are asked about for finished jobs alone; `jobman tpus --forget` accepts each. */
  readonly forgettable: readonly string[];
}

export interface TpuQuery {
  readonly project?: string;
  readonly zone?: string;
  readonly all?: boolean;
}

/** The projects and zones that settings, jobs and the person name; a project without a zone is searched as a whole. */
export function tpuScopes(query: TpuQuery, settings: TpuSettings, specs: readonly TpuSpec[]): readonly TpuScope[] {
  const named = [...(settings.project === null ? [] : [settings.project]), ...specs.map(({ project }) => project)];
  const projects = query.project === undefined ? [...new Set(named)].toSorted() : [query.project];
  return projects.map((project) => {
    if (query.zone !== undefined) return { project, zones: [query.zone] };
    if (query.all === true) return { project, zones: null };
    const ofJobs = specs
      .filter((spec) => spec.project === project)
      .flatMap((spec) => placesOf(spec).map(({ zone }) => zone));
    // Grants speak of whatever project the settings speak of.
    const granted = project === settings.project ? settings.grants.flatMap(({ zone = '*' }) => zone) : [];
    const zones = [...new Set([...ofJobs, ...granted.filter((zone) => !zone.includes('*'))])].toSorted();
    return { project, zones: zones.length === 0 ? null : zones };
  });
}

export interface TpuSettings {
  readonly project: string | null;
  readonly grants: readonly Grant[];
  /** Projects that only a job which still needs something may name. */
  readonly forgottenProjects: readonly string[];
}

/** Looks at all that the query means. Changes nothing and starts nothing. Throws when nothing names a project. */
export async function lookAtTpus(
  parts: {
    readonly store: Pick<Store, 'list' | 'loadMany'>;
    readonly installation: string | null;
    readonly cloud: TpuCloud;
    readonly settings: TpuSettings;
    readonly now: () => Instant;
  },
  query: TpuQuery,
): Promise<TpuList> {
  const { store, cloud, settings } = parts;
  const { jobs } = await store.list({ settledMost: placesLooked });
  const scopes = tpuScopes(query, settings, tpuSpecs(jobs, settings.forgottenProjects));
  if (scopes.length === 0) {
    throw new JobmanError(
      'No project is named, neither by a job nor by the setting tpu.project. Name one: jobman tpus --project my-project',
      exitCode.usage,
    );
  }
  const { tpus, missed, isAnswered } = await lookIn(cloud, scopes);
  const installation = parts.installation ?? '';
  return {
    rows: tpuRows(tpus, {
      installation,
      jobs: await claimants(store, tpus, jobs, installation),
      now: parts.now(),
      cloud,
    }),
    missed,
    isAnswered,
    forgettable: forgettable(jobs, settings),
  };
}

/** All that is in those places. `isAnswered` is false where something was asked and no project answered. */
export async function lookIn(
  cloud: Pick<TpuCloud, 'list'>,
  scopes: readonly TpuScope[],
): Promise<{ tpus: readonly TpuSeen[]; missed: readonly TpuMissed[]; isAnswered: boolean }> {
  const looks = await Promise.all(scopes.map((scope) => cloud.list(scope)));
  return {
    tpus: looks.flatMap(({ tpus }) => tpus),
    missed: looks.flatMap(({ missed }) => missed),
    isAnswered: scopes.length === 0 || looks.some((look, index) => hasAnswered(look, scopes[index])),
  };
}

/** The projects of those jobs that neither the settings name nor a job that may still need something there. */
export function forgettable(jobs: readonly Job[], settings: Pick<TpuSettings, 'project'>): readonly string[] {
  const projectsOf = (some: readonly Job[]): readonly string[] => tpuSpecs(some, []).map(({ project }) => project);
  const inUse = [...projectsOf(jobs.filter(needsCloud)), settings.project];
  return [...new Set(projectsOf(jobs))].filter((project) => !inUse.includes(project));
}

export function hasAnswered(
  { tpus, missed }: { readonly tpus: readonly TpuSeen[]; readonly missed: readonly TpuMissed[] },
  scope: TpuScope | undefined,
): boolean {
  if (tpus.length > 0 || missed.length === 0) return true;
  if (missed.some(({ zone }) => zone === null)) return false;
  return scope === undefined || scope.zones === null || missed.length < scope.zones.length;
}

/** The TPU requests of those jobs. A forgotten project counts only for a job that runs, waits, or holds something. */
export function tpuSpecs(jobs: readonly Job[], forgotten: readonly string[]): readonly TpuSpec[] {
  return jobs.flatMap((job) => {
    const { capacity } = job.spec;
    if (capacity.kind !== 'tpu') return [];
    return forgotten.includes(capacity.project) && !needsCloud(job) ? [] : [capacity];
  });
}

/** True while the job may hold capacity or ask for some. */
export function needsCloud(job: Job): boolean {
  return job.settled === null || job.wish !== null || heldAllocations(job).length > 0;
}

/** The jobs that may claim these, read after the look, so that a job that was created in between claims its own. */
export async function claimants(
  store: Pick<Store, 'loadMany'>,
  tpus: readonly TpuSeen[],
  jobs: readonly Job[],
  installation: string,
): Promise<readonly Job[]> {
  const labelled = tpus.flatMap(({ label }) => (label?.installation === installation ? [label.job] : []));
  const users = jobs.filter((job) => standingNames(job).length > 0).map(({ id }) => id);
  const stored = await store.loadMany([...new Set([...labelled, ...users])]);
  return stored.map(({ job }) => job);
}

/** Of the settled jobs this many are asked where they were; older ones have left nothing that the sweep has not seen since. */
export const placesLooked = 200;

export function tpuRows(
  tpus: readonly TpuSeen[],
  parts: {
    readonly installation: string;
    readonly jobs: readonly Job[];
    readonly now: Instant;
    readonly cloud: Pick<TpuCloud, 'pricePerHour' | 'isPretended'>;
  },
): readonly TpuRow[] {
  const { installation, jobs, now, cloud } = parts;
  const byId = new Map(jobs.map((job) => [job.id, job]));
  const standing = new Map(jobs.flatMap((job) => standingNames(job).map((name) => [name, job] as const)));
  const rows = tpus.map((seen): TpuRow => {
    const labelled = seen.label?.installation === installation ? byId.get(seen.label.job) : undefined;
    const job = labelled ?? standing.get(`${seen.project}/${seen.zone}/${seen.name}`);
    const whose = whoseIs(seen, installation, job);
    const state = seen.node ?? seen.queued ?? 'STATE_UNSPECIFIED';
    const use = whose.kind === 'job' && job !== undefined ? useOf(job, seen.name) : undefined;
    const readySince = state === 'READY' ? (use?.readyAt ?? seen.createdAt) : null;
    const isWatched = whose.kind === 'job' || whose.kind === 'stray' || whose.kind === 'nobody';
    const idleSince = readySince === null || !isWatched || use?.isBusy === true ? null : (use?.lastEnd ?? readySince);
    const idle = idleSince === null ? null : Math.max(0, now - idleSince);
    const pricePerHour = cloud.pricePerHour(seen);
    return {
      ...seen,
      state,
      whose,
      job: whose.kind === 'job' || whose.kind === 'stray' ? whose.id : null,
      readySince,
      idle,
      pricePerHour,
      idleCost: idle === null || pricePerHour === null ? null : (idle / hour) * pricePerHour,
      pretended: cloud.isPretended(seen.project),
    };
  });
  return rows.toSorted(
    (one, other) =>
      Number(one.pretended) - Number(other.pretended) ||
      (other.idleCost ?? 0) - (one.idleCost ?? 0) ||
      (other.idle ?? 0) - (one.idle ?? 0) ||
      (other.pricePerHour ?? 0) - (one.pricePerHour ?? 0) ||
      // Intl's order takes as long as all the rest of it, for names that have no other letters.
      (one.resource < other.resource ? -1 : 1),
  );
}

/** Whether the record still looks after what carries that label of its own: else it is a stray, and a person decides. */
function isClaimed(job: Job | undefined, ordinal: number): boolean {
  const allocation = job?.allocations.find((one) => one.ordinal === ordinal);
  return job !== undefined && !job.removed && allocation !== undefined && allocation.goneAt === null;
}

function whoseIs({ label, sharedBy, owner }: TpuSeen, installation: string, job: Job | undefined): Whose {
  if (label !== null && label.installation !== installation) {
    return { kind: 'installation', installation: label.installation, id: label.job };
  }
  if (label !== null && !isClaimed(job, label.allocation)) return { kind: 'stray', id: label.job };
  const named = owner === null || owner === '' ? undefined : owner;
  if (job !== undefined) {
    // On a standing TPU the entry is whoever made it; whose it is now is the job's to say.
    const of = label === null ? undefined : named;
    return { kind: 'job', id: job.id, name: job.spec.name, user: job.owner, owner: of ?? job.owner };
  }
  if (sharedBy !== null && sharedBy !== installation) return { kind: 'installation', installation: sharedBy, id: null };
  if (sharedBy !== null) return { kind: 'shared', name: named ?? null };
  return named === undefined ? { kind: 'nobody' } : { kind: 'person', name: named };
}

function standingNames(job: Job): readonly string[] {
  const { capacity } = job.spec;
  if (capacity.kind !== 'tpu' || capacity.ownership !== 'standing' || job.settled !== null) return [];
  return job.allocations
    .filter(({ goneAt }) => goneAt === null)
    .map(({ name }) => `${capacity.project}/${capacity.zone}/${name}`);
}

interface Use {
  readonly readyAt: Instant | null;
  readonly isBusy: boolean;
  /** When the last command on it ended; null when there was none. */
  readonly lastEnd: Instant | null;
}

function useOf(job: Job, name: string): Use | undefined {
  // A queued resource of several nodes calls them by its own name and a number.
  const allocation = job.allocations.findLast((one) => name === one.name || name.startsWith(`${one.name}-`));
  if (allocation === undefined) return undefined;
  const begun = job.attempts.filter((one) => one.allocation === allocation.ordinal && one.startedAt !== null);
  const ends = begun.flatMap(({ endedAt }) => (endedAt === null ? [] : [endedAt]));
  return {
    readyAt: allocation.readyAt,
    isBusy: begun.some(({ endedAt }) => endedAt === null),
    lastEnd: ends.length === 0 ? null : Math.max(...ends, allocation.readyAt ?? 0),
  };
}
