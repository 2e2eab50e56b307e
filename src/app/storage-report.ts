// The texts of a report about buckets.

import { day, type Instant } from '../core/model/time.ts';
import type { BucketRow, StorageTotal } from '../reports/storage.ts';
import { escapeLine, formatAge, formatBinaryBytes, formatList, formatTimestamp, pluralize } from './format.ts';
import type { ReportColumn } from './report-columns.ts';
import type { CountProgress, StorageProblem, StorageReport } from './storage.ts';

/** A bucket, or the total of several. */
export type BucketReportRow = BucketRow | StorageTotal;

/** The buckets, with their total if there are several. */
export function bucketRows({ rows, total }: StorageReport): readonly BucketReportRow[] {
  return rows.length > 1 ? [...rows, total] : rows;
}

export function bucketColumns({ projects }: StorageReport, now: Instant): readonly ReportColumn<BucketReportRow>[] {
  const bucket = (of: (row: BucketRow) => string) => (row: BucketReportRow) => ('bucket' in row ? of(row) : '');
  const bytes = (title: string, csvTitle: string, of: (row: BucketReportRow) => number | null) => ({
    title,
    side: 'right' as const,
    text: (row: BucketReportRow) => formatGrowth(of(row)),
    csv: of,
    csvTitle,
  });
  return [
    {
      title: 'BUCKET',
      text: (row) => {
        if (!('bucket' in row)) return 'TOTAL';
        return projects.length === 1 ? row.bucket : `${row.project}/${row.bucket}`;
      },
    },
    {
      title: 'LOCATION',
      text: bucket(({ location, zonesOutside }) => `${location ?? '?'}${zonesOutside.length === 0 ? '' : ' !'}`),
    },
    { title: 'CLASS', text: bucket(({ storageClass }) => storageClass?.toLowerCase() ?? '?') },
    {
      title: 'SIZE',
      side: 'right',
      text: formatSize,
      csv: (row) => (isMeasured(row) ? row.bytes : null),
      csvTitle: 'bytes',
    },
    {
      title: 'OBJECTS',
      side: 'right',
      text: (row) => (isMeasured(row) && row.objects !== null ? lowerLimit(String(row.objects), row.partial) : '-'),
      csv: (row) => (isMeasured(row) ? row.objects : null),
    },
    bytes('7 DAYS', 'growth_7_days_bytes', ({ growth7dBytes }) => growth7dBytes),
    bytes('30 DAYS', 'growth_30_days_bytes', ({ growth30dBytes }) => growth30dBytes),
    {
      title: 'AGE',
      side: 'right',
      text: bucket((row) => formatPointAge(row, now)),
      csv: bucket(({ measuredAt }) => (measuredAt === null ? '' : formatTimestamp(measuredAt))),
      csvTitle: 'measured_at',
    },
  ];
}

function isMeasured(row: BucketReportRow): boolean {
  return 'bucket' in row ? row.bytes !== null : row.unmeasured < row.buckets;
}

function formatSize(row: BucketReportRow): string {
  if (isMeasured(row)) return lowerLimit(formatBinaryBytes(row.bytes ?? 0), row.partial);
  return !('bucket' in row) ? '-' : row.sizeUnread ? '?' : 'not measured yet';
}

export function lowerLimit(text: string, isPartial: boolean): string {
  return isPartial ? `>= ${text}` : text;
}

function formatGrowth(bytes: number | null): string {
  if (bytes === null) return '-';
  return `${bytes > 0 ? '+' : ''}${formatBinaryBytes(bytes)}`;
}

/** A point of the metric has the time of its day only. */
function formatPointAge({ source, measuredAt }: BucketRow, now: Instant): string {
  if (measuredAt === null) return '-';
  return source === 'listing'
    ? formatAge(now - measuredAt)
    : `<${Math.floor(Math.max(0, now - measuredAt) / day) + 1}d`;
}

/** The sentences below the table. */
export function storageNotes(rows: readonly BucketRow[], exact: boolean): readonly string[] {
  const outside = [...new Set(rows.flatMap(({ zonesOutside }) => zonesOutside))].toSorted();
  const unmeasured = rows.filter(({ bytes, sizeUnread }) => bytes === null && !sizeUnread).length;
  return [
    ...(outside.length > 0
      ? [
          `! is not in the region of ${formatList(outside)}, which your jobs use: reads from there are slower, and Google bills them.`,
        ]
      : []),
    ...(unmeasured > 0 && !exact
      ? [
          `${pluralize(unmeasured, 'bucket has', 'buckets have')} no measurement: Google measures each bucket once a day, and never an empty one. Count the objects: jobman storage --exact`,
        ]
      : []),
  ];
}

/** `Counted 2 of 7 buckets: 40 objects, 3 GiB`; null before anything is counted. */
export function formatCountProgress({ counted, ofAll, objects, bytes }: CountProgress, noun: string): string | null {
  if (ofAll === 0) return null;
  return `Counted ${counted} of ${pluralize(ofAll, noun)}: ${pluralize(objects, 'object')}, ${formatBinaryBytes(bytes)}`;
}

/** A project or bucket that could not be read, as a sentence. */
export function formatStorageProblem({ project, bucket, message, severity }: StorageProblem): string {
  const subject =
    bucket === null ? `project ${project}` : `bucket ${bucket}${project === '' ? '' : ` of project ${project}`}`;
  if (severity === 'note') return escapeLine(`${subject}: ${message}`);
  return escapeLine(`${subject} could not be read${severity === 'partial' ? ' completely' : ''}: ${message}.`);
}
