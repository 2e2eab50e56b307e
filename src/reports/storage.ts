// Storage: what each bucket holds and how it grows. Two sources give a size: the metric of Cloud Monitoring, measured once
// a day, and a listing of the objects. A bucket without either has no size; that is not zero.

import { isInRegion, type BucketLocation } from '../catalogue/bucket-location.ts';
import { day, type Duration, type Instant } from '../core/model/time.ts';

/** A bucket as its project lists it. */
export interface ListedBucket {
  readonly name: string;
  /** Null if the cloud names none. */
  readonly location: BucketLocation | null;
  /** The default class of new objects, such as `STANDARD`. Null if unknown. */
  readonly storageClass: string | null;
  readonly createdAt: Instant | null;
}

/** One value of a day. `at` is the end of the day: the value was reported within the 24 hours before. */
export interface DailyPoint {
  readonly at: Instant;
  readonly value: number;
}

/** The daily points of a bucket, newest first. */
export interface BucketMetrics {
  readonly bytes: readonly DailyPoint[];
  readonly objects: readonly DailyPoint[];
  /** The location that the metric names. */
  readonly location: string | null;
}

/** The result of listing the objects of a bucket or folder. */
export interface ObjectCount {
  readonly bytes: number;
  readonly objects: number;
  /** Time of the newest change of an object; null without objects. */
  readonly newestAt: Instant | null;
  /** The listing ended early: the amounts are lower limits. */
  readonly isPartial: boolean;
}

export interface BucketRow {
  readonly project: string;
  /** The name of the bucket. */
  readonly bucket: string;
  /** `us-central2`, `us`, `nam4`; null if unknown. */
  readonly location: string | null;
  /** The class of new objects, such as `STANDARD`; null if unknown. */
  readonly storageClass: string | null;
  readonly createdAt: Instant | null;
  /** The size of all objects. Null while it is not known, which does not mean empty. */
  readonly bytes: number | null;
  /** The number of objects; null while it is not known. */
  readonly objects: number | null;
  /** The difference between the newest daily value of the metric and the one of a week before; null without both. */
  readonly growth7dBytes: number | null;
  /** The same over 30 days. */
  readonly growth30dBytes: number | null;
  /** `metric`: Cloud Monitoring. `listing`: jobman has counted the objects. Null without a size. */
  readonly source: 'metric' | 'listing' | null;
  /** Time of the count. For a metric the end of the day of its newest point: the measurement may be a day older. */
  readonly measuredAt: Instant | null;
  /** True if the count ended early: `bytes` and `objects` are lower limits. */
  readonly partial: boolean;
  /** True if there is no size because it could not be read. False if Google has not measured the bucket yet. */
  readonly sizeUnread: boolean;
  /** Zones in use from which reads leave the bucket's region. */
  readonly zonesOutside: readonly string[];
  /** True for a bucket of the TPU emulator. */
  readonly simulated: boolean;
}

export interface StorageTotal {
  /** The number of buckets. */
  readonly buckets: number;
  /** The number of buckets without a size. */
  readonly unmeasured: number;
  /** The sum over the measured buckets. */
  readonly bytes: number;
  /** The sum over the measured buckets. */
  readonly objects: number;
  /** Over the buckets whose growth is known; null if it is known for none. */
  readonly growth7dBytes: number | null;
  /** Over the buckets whose growth is known; null if it is known for none. */
  readonly growth30dBytes: number | null;
  /** True if the count of a bucket ended early. */
  readonly partial: boolean;
}

export interface ProjectStorage {
  readonly project: string;
  /** Null if the project could not be listed; the buckets of the metrics are then shown. */
  readonly buckets: readonly ListedBucket[] | null;
  readonly metrics: ReadonlyMap<string, BucketMetrics>;
  readonly counts: ReadonlyMap<string, ObjectCount>;
  /** False if metrics or objects could not be read. */
  readonly isComplete: boolean;
  readonly countedAt: Instant;
  /** The zones in which the project's jobs run or may run next. */
  readonly zones: readonly string[];
  readonly simulated: boolean;
}

/** The rows of all projects, largest first, then those without a size. */
export function storageRows(projects: readonly ProjectStorage[]): readonly BucketRow[] {
  return projects
    .flatMap((project) => {
      const listed = project.buckets ?? [...project.metrics].map(([name, metrics]) => unlistedBucket(name, metrics));
      return listed.map((bucket) => rowOf(project, bucket));
    })
    .toSorted(
      (one, other) =>
        (other.bytes ?? -1) - (one.bytes ?? -1) ||
        (`${one.project}/${one.bucket}` < `${other.project}/${other.bucket}` ? -1 : 1),
    );
}

export function storageTotal(rows: readonly BucketRow[]): StorageTotal {
  const sum = (values: readonly (number | null)[]): number | null => {
    const known = values.filter((value) => value !== null);
    return known.length === 0 ? null : known.reduce((total, value) => total + value, 0);
  };
  return {
    buckets: rows.length,
    unmeasured: rows.filter(({ bytes }) => bytes === null).length,
    bytes: sum(rows.map(({ bytes }) => bytes)) ?? 0,
    objects: sum(rows.map(({ objects }) => objects)) ?? 0,
    growth7dBytes: sum(rows.map(({ growth7dBytes }) => growth7dBytes)),
    growth30dBytes: sum(rows.map(({ growth30dBytes }) => growth30dBytes)),
    partial: rows.some(({ partial }) => partial),
  };
}

function unlistedBucket(name: string, { location }: BucketMetrics): ListedBucket {
  const known = location === null ? null : { location, kind: null, parts: [] };
  return { name, location: known, storageClass: null, createdAt: null };
}

function rowOf(project: ProjectStorage, { name, location, storageClass, createdAt }: ListedBucket): BucketRow {
  const metrics = project.metrics.get(name);
  const count = project.counts.get(name);
  const [newest] = metrics?.bytes ?? [];
  const measured =
    count !== undefined
      ? { bytes: count.bytes, objects: count.objects, source: 'listing' as const, measuredAt: project.countedAt }
      : {
          bytes: newest?.value ?? null,
          objects: metrics?.objects[0]?.value ?? null,
          source: newest === undefined ? null : ('metric' as const),
          measuredAt: newest?.at ?? null,
        };
  const growth = (length: Duration) => growthOver(metrics?.bytes ?? [], length, createdAt);
  return {
    project: project.project,
    bucket: name,
    location: location?.location ?? null,
    storageClass,
    createdAt,
    ...measured,
    growth7dBytes: growth(7 * day),
    growth30dBytes: growth(30 * day),
    partial: count?.isPartial ?? false,
    sizeUnread: measured.bytes === null && !project.isComplete,
    zonesOutside: location === null ? [] : project.zones.filter((zone) => isInRegion(location, zone) === false),
    simulated: project.simulated,
  };
}

/**
 * The difference between the newest point and the one of `length` before it, at most a day off. A bucket that did not exist
 * then has grown by its whole size. Null without such a point.
 */
function growthOver(points: readonly DailyPoint[], length: Duration, createdAt: Instant | null): number | null {
  const [newest] = points;
  if (newest === undefined) return null;
  const then = newest.at - length;
  const distance = ({ at }: DailyPoint): Duration => Math.abs(at - then);
  const [earlier] = points.toSorted((one, other) => distance(one) - distance(other));
  if (earlier !== undefined && earlier !== newest && distance(earlier) <= day) return newest.value - earlier.value;
  return createdAt !== null && createdAt > then ? newest.value : null;
}
