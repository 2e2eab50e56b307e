// TPUs: all TPUs in the selected locations, with their owners and the cost of their idle time. A location that could
// not be queried appears with its error; it never counts as empty.

import { isAllowedProject } from './require-permission.ts';
import { didYouMean } from '../catalogue/did-you-mean.ts';
import { suggestZone } from '../catalogue/zones.ts';
import { heldAllocations, type Job } from '../core/model/job.ts';
import { alternativesOf, emulatorProject, type Pricing, type TpuSpec } from '../core/model/spec.ts';
import { hour, type Duration, type Instant } from '../core/model/time.ts';
import { exitCode, JobmanError } from './errors.ts';
import { mostIdleMoneyFirst } from './known-tpus.ts';
import type { Grant } from '../core/policy/grants.ts';
import type { Orphan, Store } from './ports.ts';
import { recordOrphanUsage } from './record-orphan.ts';
import { noProject } from './tpu-phrases.ts';

export interface ObservedTpu {
  readonly project: string;
  readonly zone: string;
  readonly name: string;
  /** The full resource name, as a release needs it. */
  readonly resource: string;
  /** Google's state of the node; null without a node. */
  readonly nodeState: string | null;
  readonly queuedResourceState: string | null;
  /** Null if the cloud does not report it. */
  readonly accelerator: string | null;
  readonly pricing: Pricing | 'reserved';
  /** 1 for a node; for a queued resource without nodes, the number that it requests. */
  readonly nodeCount: number;
  readonly label: { readonly installation: string; readonly job: string; readonly allocation: number } | null;
  /** The installation that made it as a shared TPU (`tpu apply`); null for every other TPU. */
  readonly sharedByInstallation: string | null;
  /** People write this metadata entry for each other. */
  readonly metadataOwner: string | null;
  readonly createdAt: Instant | null;
}

/** A location that could not be queried; `zone` is null for the whole project. */
export interface UncheckedLocation {
  readonly project: string;
  readonly zone: string | null;
  readonly message: string;
  /** The TPU emulator does not run: nothing costs money and nothing needs repair. */
  readonly isEmulatorStopped: boolean;
  /** A command that may repair it. */
  readonly fix?: string;
}

/** The reason why the TPUs and buckets of the emulator's project are not known. */
export const emulatorStopped = 'the TPU emulator is not running; start it: jobman emulator start';

export interface TpuScope {
  readonly project: string;
  readonly zones: readonly string[] | null;
}

export interface TpuCloud {
  /** Starts nothing and never throws: failed queries are in `unchecked`. */
  list(
    scope: TpuScope,
  ): Promise<{ readonly tpus: readonly ObservedTpu[]; readonly unchecked: readonly UncheckedLocation[] }>;
  pricePerHour(tpu: ObservedTpu): number | null;
  isSimulated(project: string): boolean;
}

/** `orphan`: of this installation, without a job that claims it. `installation`: of another installation. */
type TpuOwner =
  /** `jobOwner` created the job; `owner` is the metadata's, for people who share a login. */
  | {
      readonly kind: 'job';
      readonly id: string;
      readonly name: string;
      readonly jobOwner: string;
      readonly owner: string;
      readonly isFinished: boolean;
    }
  | { readonly kind: 'orphan'; readonly id: string }
  | { readonly kind: 'installation'; readonly installation: string; readonly id: string | null }
  /** A shared TPU of this installation; `name` is the user who requested it, null without metadata. */
  | { readonly kind: 'shared'; readonly name: string | null }
  | { readonly kind: 'user'; readonly name: string }
  | { readonly kind: 'none' };

export interface TpuRow extends ObservedTpu {
  /** Google's state of the node, or of the queued resource if there is no node. */
  readonly state: string;
  readonly owner: TpuOwner;
  readonly job: string | null;
  /** Time at which it became ready, or was created if no job waited for it. Null while it is not ready. */
  readonly readyAt: Instant | null;
  /**
   * Time for which it has been ready without a command of jobman. Null while it is in use, not ready or of another owner,
   * and for a shared TPU before its first job.
   */
  readonly idleMs: Duration | null;
  readonly pricePerHourUsd: number | null;
  readonly idleCostUsd: number | null;
  readonly simulated: boolean;
}

export interface TpuList {
  readonly rows: readonly TpuRow[];
  readonly unchecked: readonly UncheckedLocation[];
  readonly anyAnswered: boolean;
  /** Projects that are queried only for finished jobs; `jobman tpus --forget` accepts each. */
  readonly forgettable: readonly string[];
  readonly projects: readonly string[];
  /** The flag that a mistyped project or zone of the query probably means. */
  readonly suggestion: string | null;
}

export interface TpuQuery {
  readonly project?: string;
  readonly zone?: string;
  readonly all?: boolean;
}

/** The projects and zones of the settings, the jobs and the query. A project without zones is searched as a whole. */
export function tpuScopes(query: TpuQuery, settings: TpuSettings, specs: readonly TpuSpec[]): readonly TpuScope[] {
  const named = [...(settings.project === null ? [] : [settings.project]), ...specs.map(({ project }) => project)];
  const projects = query.project === undefined ? [...new Set(named)].toSorted() : [query.project];
  return projects.map((project) => {
    if (query.zone !== undefined) return { project, zones: [query.zone] };
    if (query.all === true) return { project, zones: null };
    const ofJobs = specs
      .filter((spec) => spec.project === project)
      .flatMap((spec) => alternativesOf(spec).map(({ zone }) => zone));
    const granted = project === settings.project ? settings.grants.flatMap(({ zone = '*' }) => zone) : [];
    const zones = [...new Set([...ofJobs, ...granted.filter((zone) => !zone.includes('*'))])].toSorted();
    return { project, zones: zones.length === 0 ? null : zones };
  });
}

/** The locations of recorded orphans: the job of an orphan may be deleted, so that no job names them. */
export function orphanScopes(
  orphans: readonly Pick<Orphan, 'resource'>[],
  query: Pick<TpuQuery, 'project' | 'zone'> = {},
): readonly TpuScope[] {
  const scopes = orphans.flatMap(({ resource }): readonly TpuScope[] => {
    const [, project, zone] = /^projects\/([^/]+)\/locations\/([^/]+)\//.exec(resource) ?? [];
    if (project === undefined || zone === undefined) return [];
    const isWanted = project === (query.project ?? project) && zone === (query.zone ?? zone);
    return isWanted ? [{ project, zones: [zone] }] : [];
  });
  return mergeScopes(scopes, []);
}

/** Each project once. */
export function mergeScopes(some: readonly TpuScope[], more: readonly TpuScope[]): readonly TpuScope[] {
  const byProject = new Map<string, readonly string[] | null>();
  for (const { project, zones } of [...some, ...more]) {
    const before = byProject.get(project);
    const all =
      before === undefined ? zones : before === null || zones === null ? null : [...new Set([...before, ...zones])];
    byProject.set(project, all);
  }
  return [...byProject].map(([project, zones]) => ({ project, zones }));
}

export interface TpuSettings {
  readonly project: string | null;
  readonly grants: readonly Grant[];
  /** Projects that count only for a job that still needs capacity. */
  readonly forgottenProjects: readonly string[];
  /** The projects of the actor; null or absent: all. */
  readonly allowedProjects?: readonly string[] | null;
}

/** Reads the TPUs and starts nothing. Throws JobmanError without a project. */
export async function observeTpus(
  parts: {
    readonly store: Pick<Store, 'list' | 'loadMany' | 'orphans'>;
    readonly installation: string | null;
    readonly cloud: TpuCloud;
    readonly settings: TpuSettings;
    readonly now: () => Instant;
  },
  query: TpuQuery,
): Promise<TpuList> {
  const { store, cloud, settings } = parts;
  const { jobs } = await store.list({ maxFinished: maxFinishedJobs });
  const specs = tpuSpecs(jobs, settings.forgottenProjects);
  const scopes = mergeScopes(tpuScopes(query, settings, specs), orphanScopes(await store.orphans(), query)).filter(
    ({ project }) => isAllowedProject(settings.allowedProjects ?? null, project),
  );
  if (scopes.length === 0) {
    throw new JobmanError(`${noProject} Pass one: --project my-project`, exitCode.usage);
  }
  const { tpus, unchecked, anyAnswered } = await observeScopes(cloud, scopes);
  const installation = parts.installation ?? '';
  return {
    rows: tpuRows(tpus, {
      installation,
      jobs: [...jobs.filter(({ finish }) => finish !== null), ...(await claimingJobs(store, tpus, jobs, installation))],
      now: parts.now(),
      cloud,
    }),
    unchecked,
    anyAnswered,
    forgettable: forgettable(jobs, settings),
    projects: scopes.map(({ project }) => project),
    suggestion: suggestScope(query, settings, specs),
  };
}

/** `--project lab` for a project, or else a zone, that resembles a known one. Null if the query names known ones. */
export function suggestScope(
  { project, zone }: { readonly project?: string | undefined; readonly zone?: string | undefined },
  settings: Pick<TpuSettings, 'project'>,
  specs: readonly TpuSpec[],
): string | null {
  const known = [settings.project, ...specs.map((spec) => spec.project), emulatorProject].filter((one) => one !== null);
  const meantProject = project === undefined || known.includes(project) ? undefined : didYouMean(project, known);
  if (meantProject !== undefined) return `--project ${meantProject}`;
  const named = specs.flatMap((spec) => alternativesOf(spec).map((one) => one.zone));
  const meantZone = zone === undefined ? undefined : suggestZone(zone, named);
  return meantZone === undefined || meantZone === zone ? null : `--zone ${meantZone}`;
}

/** `anyAnswered` is false if there were queries and no project answered. */
export async function observeScopes(
  cloud: Pick<TpuCloud, 'list'>,
  scopes: readonly TpuScope[],
): Promise<{ tpus: readonly ObservedTpu[]; unchecked: readonly UncheckedLocation[]; anyAnswered: boolean }> {
  const answers = await Promise.all(scopes.map((scope) => cloud.list(scope)));
  return {
    tpus: answers.flatMap(({ tpus }) => tpus),
    unchecked: answers.flatMap(({ unchecked }) => unchecked),
    anyAnswered: scopes.length === 0 || answers.some((answer, index) => hasAnswered(answer, scopes[index])),
  };
}

/** The projects of these jobs that the settings do not name and no job needs any more. */
export function forgettable(jobs: readonly Job[], settings: Pick<TpuSettings, 'project'>): readonly string[] {
  const projectsOf = (some: readonly Job[]): readonly string[] => tpuSpecs(some, []).map(({ project }) => project);
  const inUse = [...projectsOf(jobs.filter(needsCloud)), settings.project];
  return [...new Set(projectsOf(jobs))].filter((project) => !inUse.includes(project));
}

export function hasAnswered(
  { tpus, unchecked }: { readonly tpus: readonly ObservedTpu[]; readonly unchecked: readonly UncheckedLocation[] },
  scope: TpuScope | undefined,
): boolean {
  if (tpus.length > 0 || unchecked.length === 0) return true;
  if (unchecked.some(({ zone }) => zone === null)) return false;
  return scope === undefined || scope.zones === null || unchecked.length < scope.zones.length;
}

/** The TPU requests of these jobs. A forgotten project counts only for a job that may hold or request capacity. */
export function tpuSpecs(jobs: readonly Job[], forgotten: readonly string[]): readonly TpuSpec[] {
  return jobs.flatMap((job) => {
    const { capacity } = job.spec;
    if (capacity.kind !== 'tpu') return [];
    return forgotten.includes(capacity.project) && !needsCloud(job) ? [] : [capacity];
  });
}

export function needsCloud(job: Job): boolean {
  return job.finish === null || job.startRequest !== null || heldAllocations(job).length > 0;
}

export type ForgetAnswer =
  | { readonly kind: 'forgotten' }
  /** Nothing was changed: these resources may still exist and cost money. */
  | { readonly kind: 'confirmation_required'; readonly resources: readonly string[] };

/** See `Client.forgetProject`. */
export async function forgetProject(
  parts: {
    readonly store: Pick<Store, 'list' | 'load' | 'commit' | 'orphans' | 'forgetOrphan'>;
    readonly settings: TpuSettings;
    readonly now: () => Instant;
    readonly excludeProject: (project: string) => Promise<void>;
    /** Called before the change. */
    readonly record: () => Promise<void>;
  },
  project: string,
  confirmed: readonly string[],
): Promise<ForgetAnswer> {
  const { store, settings } = parts;
  if (settings.project === project)
    throw new JobmanError(`${project} is the value of the setting tpu.project.`, exitCode.conflict, [
      'jobman settings unset tpu.project    removes it',
    ]);
  const { jobs } = await store.list({ maxFinished: null });
  const inProject = jobs.filter(({ spec: { capacity } }) => capacity.kind === 'tpu' && capacity.project === project);
  const [first] = inProject.filter((job) => needsCloud(job));
  if (first !== undefined)
    throw new JobmanError(`Job ${first.id} still uses ${project}.`, exitCode.conflict, [
      `jobman delete ${Number(first.id)}    stops it and removes it from the list`,
    ]);
  const orphans = (await store.orphans()).filter(({ resource }) => resource.startsWith(`projects/${project}/`));
  if (inProject.length === 0 && orphans.length === 0)
    throw new JobmanError(`No job has used the project ${project}.`, exitCode.notFound);
  const resources = orphans.map(({ resource }) => resource);
  if (resources.some((resource) => !confirmed.includes(resource))) return { kind: 'confirmation_required', resources };
  await parts.record();
  for (const orphan of orphans) {
    await recordOrphanUsage(store, orphan, [], parts.now());
    await store.forgetOrphan(orphan);
  }
  await parts.excludeProject(project);
  return { kind: 'forgotten' };
}

/** The jobs that may claim these TPUs, loaded after the observation: a job created in between claims its own. */
export async function claimingJobs(
  store: Pick<Store, 'loadMany'>,
  tpus: readonly ObservedTpu[],
  jobs: readonly Job[],
  installation: string,
): Promise<readonly Job[]> {
  const labelled = tpus.flatMap(({ label }) => (label?.installation === installation ? [label.job] : []));
  const users = jobs.filter((job) => persistentNames(job).length > 0).map(({ id }) => id);
  const stored = await store.loadMany([...new Set([...labelled, ...users])]);
  return stored.map(({ job }) => job);
}

/** Number of finished jobs whose locations are queried. Orphan collection has covered those of older jobs. */
export const maxFinishedJobs = 200;

export function tpuRows(
  tpus: readonly ObservedTpu[],
  parts: {
    readonly installation: string;
    readonly jobs: readonly Job[];
    readonly now: Instant;
    readonly cloud: Pick<TpuCloud, 'pricePerHour' | 'isSimulated'>;
  },
): readonly TpuRow[] {
  const { installation, jobs, now, cloud } = parts;
  const byId = new Map(jobs.map((job) => [job.id, job]));
  const byPersistentName = new Map(jobs.flatMap((job) => persistentNames(job).map((name) => [name, job] as const)));
  const rows = tpus.map((tpu): TpuRow => {
    const labelled = tpu.label?.installation === installation ? byId.get(tpu.label.job) : undefined;
    const job = labelled ?? byPersistentName.get(`${tpu.project}/${tpu.zone}/${tpu.name}`);
    const owner = ownerOf(tpu, installation, job);
    const state = tpu.nodeState ?? tpu.queuedResourceState ?? 'STATE_UNSPECIFIED';
    const usage = owner.kind === 'job' && job !== undefined ? usageOf(job, tpu.name) : undefined;
    const readyAt = state === 'READY' ? (usage?.readyAt ?? tpu.createdAt) : null;
    const idleSince =
      readyAt === null || usage?.isBusy === true ? null : idleSinceOf(owner, tpu, { usage, readyAt, jobs });
    const idleMs = idleSince === null ? null : Math.max(0, now - idleSince);
    const pricePerHour = cloud.pricePerHour(tpu);
    return {
      ...tpu,
      state,
      owner,
      job: owner.kind === 'job' || owner.kind === 'orphan' ? owner.id : null,
      readyAt,
      idleMs,
      pricePerHourUsd: pricePerHour,
      idleCostUsd: idleMs === null || pricePerHour === null ? null : (idleMs / hour) * pricePerHour,
      simulated: cloud.isSimulated(tpu.project),
    };
  });
  return rows.toSorted(mostIdleMoneyFirst);
}

/** False for a TPU with our label that no job uses: an orphan, about which a user decides. */
function isClaimed(job: Job | undefined, ordinal: number): boolean {
  const allocation = job?.allocations.find((one) => one.ordinal === ordinal);
  return job !== undefined && !job.removed && allocation !== undefined && allocation.goneAt === null;
}

function ownerOf(
  { label, sharedByInstallation, metadataOwner }: ObservedTpu,
  installation: string,
  job: Job | undefined,
): TpuOwner {
  if (label !== null && label.installation !== installation) {
    return { kind: 'installation', installation: label.installation, id: label.job };
  }
  if (label !== null && !isClaimed(job, label.allocation)) return { kind: 'orphan', id: label.job };
  const namedOwner = metadataOwner === null || metadataOwner === '' ? undefined : metadataOwner;
  if (job !== undefined) {
    // On a persistent TPU the entry names its creator; the job knows the current user.
    const userOfMetadata = label === null ? undefined : namedOwner;
    const owner = userOfMetadata ?? job.owner;
    const isFinished = job.finish !== null && job.startRequest === null;
    return { kind: 'job', id: job.id, name: job.spec.name, jobOwner: job.owner, owner, isFinished };
  }
  if (sharedByInstallation !== null && sharedByInstallation !== installation)
    return { kind: 'installation', installation: sharedByInstallation, id: null };
  if (sharedByInstallation !== null) return { kind: 'shared', name: namedOwner ?? null };
  return namedOwner === undefined ? { kind: 'none' } : { kind: 'user', name: namedOwner };
}

function idleSinceOf(
  owner: TpuOwner,
  { project, zone, name }: ObservedTpu,
  {
    usage,
    readyAt,
    jobs,
  }: { readonly usage: TpuUsage | undefined; readonly readyAt: Instant; readonly jobs: readonly Job[] },
): Instant | null {
  switch (owner.kind) {
    case 'job':
    case 'orphan':
    case 'none':
      return usage?.lastEndedAt ?? readyAt;
    case 'shared': {
      // The creator may use it without jobman until its first job.
      const ends = jobs.flatMap((job) => {
        const { capacity } = job.spec;
        const isHere = capacity.kind === 'tpu' && capacity.project === project && capacity.zone === zone;
        return (isHere ? usageOf(job, name)?.lastEndedAt : null) ?? [];
      });
      return ends.length === 0 ? null : Math.max(...ends);
    }
    case 'installation':
    case 'user':
      return null;
  }
}

function persistentNames(job: Job): readonly string[] {
  const { capacity } = job.spec;
  if (capacity.kind !== 'tpu' || capacity.ownership !== 'persistent' || job.finish !== null) return [];
  return job.allocations
    .filter(({ goneAt }) => goneAt === null)
    .map(({ name }) => `${capacity.project}/${capacity.zone}/${name}`);
}

interface TpuUsage {
  readonly readyAt: Instant | null;
  readonly isBusy: boolean;
  readonly lastEndedAt: Instant | null;
}

/** Undefined if no allocation of the job has that name. */
export function usageOf(job: Job, name: string): TpuUsage | undefined {
  // The nodes of a queued resource have its name and a number.
  const allocation = job.allocations.findLast((one) => name === one.name || name.startsWith(`${one.name}-`));
  if (allocation === undefined) return undefined;
  const started = job.attempts.filter((one) => one.allocation === allocation.ordinal && one.startedAt !== null);
  const ends = started.flatMap(({ endedAt }) => (endedAt === null ? [] : [endedAt]));
  return {
    readyAt: allocation.readyAt,
    isBusy: started.some(({ endedAt }) => endedAt === null),
    lastEndedAt: ends.length === 0 ? null : Math.max(...ends, allocation.readyAt ?? 0),
  };
}
