// Sizes of buckets in Cloud Monitoring: one `timeSeries.list` for each metric covers all buckets of a project.
//
// https://cloud.google.com/monitoring/api/metrics_gcp_p_z (storage/total_bytes, storage/object_count, of gcs_bucket, by
// storage class): the value is measured once a day and becomes visible with a delay. Then it is repeated every five minutes,
// so the time of a point is not the time of the measurement. Buckets without objects have no points, and soft-deleted objects
// are not included.
// https://cloud.google.com/monitoring/api/ref_v3/rest/v3/projects.timeSeries/list: aligned to days, a month has 31 points
// instead of 9,000. ALIGN_NEXT_OLDER takes the newest value of each day; the days end at the end of the interval.

import { formatList } from '../app/format.ts';
import type { Answer, GoogleApi } from '../app/google.ts';
import { matchesShape, splitByShape, type Shape, type ShapeValue } from '../app/json.ts';
import type { MetricsReading } from '../app/storage.ts';
import { day, parseInstant, second, type Duration, type Instant } from '../core/model/time.ts';
import type { BucketMetrics, DailyPoint } from '../reports/storage.ts';
import { unexpectedForm } from '../app/refusal.ts';

/** For the growth over 30 days, and one day in case that a point is missing. */
const history: Duration = 32 * day;
/** A page has up to 100,000 points, which is 3,000 buckets. */
const maxPages = 100;

const pageForm = {
  nextPageToken: 'string',
  executionErrors: [{ message: 'string' }],
  timeSeries: [{}],
} as const satisfies Shape;
const seriesForm = {
  resource: { labels: { '*': 'string' } },
  points: [{ interval: { endTime: 'string' }, value: { doubleValue: 'number', int64Value: 'string' } }],
} as const satisfies Shape;

interface Series {
  readonly location: string | null;
  readonly points: DailyPoint[];
}

interface Reading {
  readonly series: ReadonlyMap<string, Series>;
  readonly gap: string | null;
}

/** By bucket. Requires the permission `monitoring.timeSeries.list`. */
export async function readBucketMetrics(
  api: GoogleApi,
  project: string,
  now: Instant,
): Promise<Answer<MetricsReading>> {
  const [bytes, objects] = await Promise.all([
    readMetric(api, project, 'total_bytes', now),
    readMetric(api, project, 'object_count', now),
  ]);
  if (!bytes.ok) return bytes;
  if (!objects.ok) return objects;
  const counts = objects.value.series;
  const buckets = new Map<string, BucketMetrics>();
  for (const [name, { location, points }] of bytes.value.series)
    buckets.set(name, { location, bytes: points, objects: counts.get(name)?.points ?? [] });
  return { ok: true, value: { buckets, gap: bytes.value.gap ?? objects.value.gap } };
}

async function readMetric(
  api: GoogleApi,
  project: string,
  metric: 'total_bytes' | 'object_count',
  now: Instant,
): Promise<Answer<Reading>> {
  const query = new URLSearchParams([
    // A metrics scope may also contain the buckets of other projects.
    [
      'filter',
      `metric.type = "storage.googleapis.com/storage/${metric}" AND resource.type = "gcs_bucket" AND resource.labels.project_id = ${JSON.stringify(project)}`,
    ],
    ['interval.startTime', new Date(now - history).toISOString()],
    ['interval.endTime', new Date(now).toISOString()],
    ['aggregation.alignmentPeriod', `${day / second}s`],
    ['aggregation.perSeriesAligner', 'ALIGN_NEXT_OLDER'],
    ['aggregation.crossSeriesReducer', 'REDUCE_SUM'],
    ['aggregation.groupByFields', 'resource.labels.bucket_name'],
    ['aggregation.groupByFields', 'resource.labels.location'],
    ['fields', 'nextPageToken,executionErrors,timeSeries(resource.labels,points(interval.endTime,value))'],
    ['prettyPrint', 'false'],
  ]);
  const series = new Map<string, Series>();
  let gap: string | null = null;
  for (let page = 0; page < maxPages; page += 1) {
    const answer = await api.call<ShapeValue<typeof pageForm>>(
      'GET',
      `v3/projects/${encodeURIComponent(project)}/timeSeries?${String(query)}`,
    );
    if (!answer.ok) return answer;
    if (!matchesShape(answer.value, pageForm)) break;
    const { timeSeries = [], executionErrors = [], nextPageToken = '' } = answer.value;
    gap ??= executionErrors[0]?.message ?? null;
    const { matching, unreadable } = splitByShape(timeSeries, seriesForm, ['resource', 'labels', 'bucket_name']);
    if (unreadable.length > 0) gap ??= unexpectedForm(`the answer for ${formatList(unreadable)}`).message;
    for (const { resource, points = [] } of matching) {
      const { bucket_name: bucket, location = null } = resource?.labels ?? {};
      if (bucket === undefined) continue;
      const known = series.get(bucket) ?? { location, points: [] };
      series.set(bucket, known);
      // A page may end within a series.
      for (const { interval, value } of points) {
        const at = parseInstant(interval?.endTime);
        const amount = value?.doubleValue ?? Number(value?.int64Value ?? Number.NaN);
        if (at !== null && Number.isFinite(amount)) known.points.push({ at, value: amount });
      }
    }
    if (nextPageToken === '') {
      for (const { points } of series.values()) points.sort((one, other) => other.at - one.at);
      return { ok: true, value: { series, gap } };
    }
    query.set('pageToken', nextPageToken);
  }
  return { ok: false, status: 'NO_ANSWER', error: unexpectedForm(`the list of points of ${metric}`) };
}
