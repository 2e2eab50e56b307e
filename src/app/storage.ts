// Storage: the buckets of the projects with their sizes. A project or bucket that could not be read is a problem with the
// missing permission; it never counts as empty.

import { isAllowedProject } from './require-permission.ts';
import { heldAllocations, type CloudError, type Job } from '../core/model/job.ts';
import { alternativesOf, capacityAt } from '../core/model/spec.ts';
import type { Instant } from '../core/model/time.ts';
import {
  storageRows,
  storageTotal,
  type BucketMetrics,
  type BucketRow,
  type ListedBucket,
  type ObjectCount,
  type ProjectStorage,
  type StorageTotal,
} from '../reports/storage.ts';
import { mapConcurrent, reportsOf } from './concurrency.ts';
import { exitCode, JobmanError } from './errors.ts';
import { asClause } from './format.ts';
import type { Answer } from './google.ts';
import type { Store } from './ports.ts';
import { explainRefusal } from './refusal.ts';
import {
  emulatorStopped,
  maxFinishedJobs,
  needsCloud,
  suggestScope,
  tpuScopes,
  tpuSpecs,
  type TpuSettings,
} from './tpus.ts';

/** All objects below a prefix; an empty prefix is the whole bucket. */
export interface ObjectFolder {
  readonly bucket: string;
  readonly prefix: string;
}

/** `count` is null if nothing could be read. */
export interface CountedObjects {
  readonly count: ObjectCount | null;
  readonly error: CloudError | null;
}

/** `unreadable`: the names of buckets whose entry has an unexpected form. */
export interface BucketListing {
  readonly buckets: readonly ListedBucket[];
  readonly unreadable: readonly string[];
}

/** `gap`: the service's reason why points may be missing; null if none are. */
export interface MetricsReading {
  readonly buckets: ReadonlyMap<string, BucketMetrics>;
  readonly gap: string | null;
}

/** The storage of one project. Read-only; never throws for a failure of the cloud. */
export interface StoragePort {
  buckets(): Promise<Answer<BucketListing>>;
  /** Null for the TPU emulator, which has no metrics. */
  readonly metrics: ((now: Instant) => Promise<Answer<MetricsReading>>) | null;
  /** The objects so far, page by page. An abort ends it after a partial count. */
  count(folder: ObjectFolder, signal: AbortSignal): AsyncIterable<CountedObjects>;
  /** Another server than Google's: the address that gcloud needs in CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE. */
  readonly gcloudEndpoint: string | null;
}

export interface StorageProblem {
  readonly project: string;
  /** Null for the whole project. */
  readonly bucket: string | null;
  /** Without a full stop. */
  readonly message: string;
  readonly hints: readonly string[];
  /** `note`: no error. `partial`: its buckets are shown, but without a part of their data. */
  readonly severity: 'note' | 'partial' | 'unread';
  readonly isUnreachable: boolean;
}

/** The result so far. */
export interface StorageReport {
  readonly counted: CountProgress;
  readonly rows: readonly BucketRow[];
  readonly total: StorageTotal;
  readonly problems: readonly StorageProblem[];
  readonly projects: readonly string[];
  /** False if no project could be read. */
  readonly anyAnswered: boolean;
  /** The flag that a mistyped project of the query probably means. */
  readonly suggestion: string | null;
}

export interface StorageQuery {
  readonly project?: string | undefined;
  /** List the objects of every bucket. */
  readonly exact: boolean;
}

export interface CountProgress {
  /** The folders or buckets that are counted, of all that will be. */
  readonly counted: number;
  readonly ofAll: number;
  readonly objects: number;
  readonly bytes: number;
}

export interface StorageParts {
  readonly store: Pick<Store, 'list'>;
  readonly settings: TpuSettings;
  /** Undefined while the TPU emulator, which serves the project, does not run. Sends no request yet. */
  readonly storageOf: (project: string) => Promise<StoragePort | undefined>;
  readonly isSimulated: (project: string) => boolean;
  readonly now: () => Instant;
}

const maxConcurrentProjects = 8;
/** Cloud Storage sets no limit, but the connections of this machine are few. */
export const maxConcurrentBuckets = 8;

/**
 * The report so far; the last one is complete. Three requests for each project, all at once, unless a list has several pages.
 * `exact` and the buckets of the TPU emulator take one request for each thousand objects. Throws JobmanError without a project.
 */
export async function* readStorage(
  parts: StorageParts,
  query: StorageQuery,
  signal: AbortSignal,
): AsyncGenerator<StorageReport, void> {
  const { jobs } = await parts.store.list({ maxFinished: maxFinishedJobs });
  const specs = tpuSpecs(jobs, parts.settings.forgottenProjects);
  const scope = query.project === undefined ? {} : { project: query.project };
  const projects = tpuScopes(scope, parts.settings, specs)
    .map(({ project }) => project)
    .filter((project) => isAllowedProject(parts.settings.allowedProjects ?? null, project));
  if (projects.length === 0)
    throw new JobmanError(
      'No project: no job names one, and the setting tpu.project is not set. Pass one: jobman storage --project my-project',
      exitCode.usage,
    );
  const suggestion = suggestScope(query, parts.settings, specs);
  const read: StorageReading = { problems: [], answered: [], counted: 0, ofAll: 0 };
  const report = (): StorageReport => {
    const rows = storageRows(read.answered);
    return {
      counted: countProgress(
        read.answered.flatMap(({ counts }) => [...counts.values()]),
        read.counted,
        read.ofAll,
      ),
      rows,
      total: storageTotal(rows),
      problems: [...read.problems],
      projects,
      anyAnswered: read.answered.length > 0,
      suggestion,
    };
  };
  yield* reportsOf(report, signal, (onChange) =>
    mapConcurrent(projects, maxConcurrentProjects, (project) =>
      readProject(parts, { project, exact: query.exact, zones: zonesInUse(jobs, project) }, read, signal, onChange),
    ),
  );
}

interface StorageReading {
  readonly problems: StorageProblem[];
  readonly answered: ProjectStorage[];
  counted: number;
  ofAll: number;
}

interface ProjectQuery {
  readonly project: string;
  readonly exact: boolean;
  readonly zones: readonly string[];
}

async function readProject(
  { storageOf, isSimulated, now }: StorageParts,
  { project, exact, zones }: ProjectQuery,
  read: StorageReading,
  signal: AbortSignal,
  onChange: () => void,
): Promise<void> {
  const add = (problem: Pick<StorageProblem, 'message'> & Partial<StorageProblem>): void =>
    void read.problems.push({ project, bucket: null, hints: [], severity: 'unread', isUnreachable: false, ...problem });
  const port = await storageOf(project);
  if (port === undefined) {
    add({ message: emulatorStopped, severity: 'note' });
    return;
  }
  const at = now();
  const [listed, measured] = await Promise.all([port.buckets(), port.metrics?.(at)]);
  const buckets = listed.ok ? listed.value.buckets : null;
  const metrics = measured?.ok === true ? measured.value.buckets : new Map<string, BucketMetrics>();
  if (!listed.ok)
    add({
      ...describeError(listed.error, project, 'storage.buckets.list'),
      severity: metrics.size > 0 ? 'partial' : 'unread',
    });
  for (const bucket of listed.ok ? listed.value.unreadable : [])
    add({ bucket, message: 'its entry in the list of buckets has an unexpected form' });
  if (measured !== undefined && !measured.ok) {
    const problem = describeError(measured.error, project, 'monitoring.timeSeries.list');
    const hints = exact || !listed.ok ? [] : ['jobman storage --exact    counts the objects instead'];
    // An unreachable project is reported once.
    if (listed.ok || !problem.isUnreachable)
      add({
        ...problem,
        message: `${problem.message}, so sizes ${exact ? 'have no growth' : 'are missing'}`,
        hints: [...problem.hints, ...hints],
        severity: listed.ok ? (exact ? 'note' : 'partial') : 'unread',
      });
  } else if (measured?.ok === true && measured.value.gap !== null)
    add({ message: `some sizes may be missing: ${asClause(measured.value.gap)}`, severity: 'note' });
  if (buckets === null && metrics.size === 0) return;
  const counts = new Map<string, ObjectCount>();
  const storage = {
    project,
    buckets,
    metrics,
    counts,
    countedAt: at,
    zones,
    simulated: isSimulated(project),
    isComplete: measured === undefined || (measured.ok && measured.value.gap === null),
  };
  read.answered.push(storage);
  if (!exact && port.metrics !== null) return onChange();
  const names = buckets?.map(({ name }) => name) ?? [...metrics.keys()];
  read.ofAll += names.length;
  await mapConcurrent(names, maxConcurrentBuckets, async (bucket) => {
    for await (const { count, error } of port.count({ bucket, prefix: '' }, signal)) {
      if (count !== null) counts.set(bucket, count);
      if (error !== null) {
        storage.isComplete = false;
        add({ bucket, ...describeError(error, project, 'storage.objects.list') });
      }
      onChange();
    }
    read.counted += 1;
    onChange();
  });
}

/** The zones of the alternatives of unfinished jobs, and of capacity that is held. */
function zonesInUse(jobs: readonly Job[], project: string): readonly string[] {
  const zones = jobs.flatMap((job) => {
    const { capacity } = job.spec;
    if (capacity.kind !== 'tpu' || capacity.project !== project || !needsCloud(job)) return [];
    const held = heldAllocations(job).map(({ alternative = 0 }) => capacityAt(capacity, alternative).zone);
    return held.length > 0 ? held : alternativesOf(capacity).map(({ zone }) => zone);
  });
  return [...new Set(zones)].toSorted();
}

const roles = {
  'storage.buckets.list': 'roles/storage.bucketViewer',
  'storage.objects.list': 'roles/storage.objectViewer',
  'monitoring.timeSeries.list': 'roles/monitoring.viewer',
} as const;

export function describeError(
  error: CloudError,
  project: string,
  needed: keyof typeof roles,
): Pick<StorageProblem, 'message' | 'hints' | 'isUnreachable'> {
  const service = `${needed.split('.')[0] ?? ''}.googleapis.com`;
  const { message, permission, fix } = explainRefusal(error, {
    project,
    service,
    needed: { permission: needed, role: roles[needed] },
  });
  const repair = fix === null ? [] : [`${fix}    repairs it`];
  return {
    message:
      error.kind === 'not_found' && needed === 'storage.objects.list'
        ? 'it does not exist'
        : permission === null
          ? message
          : `your login has no permission ${permission}`,
    hints: [...(permission === null ? [] : [asClause(error.raw)]), ...repair],
    isUnreachable: error.kind === 'unreachable',
  };
}

export function countProgress(counts: readonly ObjectCount[], counted: number, ofAll: number): CountProgress {
  const sum = (amount: 'objects' | 'bytes'): number => counts.reduce((total, count) => total + count[amount], 0);
  return { counted, ofAll, objects: sum('objects'), bytes: sum('bytes') };
}
