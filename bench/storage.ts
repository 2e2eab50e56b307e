// Storage: round trips of `jobman storage` over 200 buckets, with 31 daily points of both metrics for each of them.

import { measureRoundTrips, serveReplies } from './round-trips.ts';
import type { Result } from './result.ts';

const buckets = Array.from({ length: 200 }, (_, index) => `bucket-${String(index).padStart(3, '0')}`);
const day = 86_400_000;

export function measureStorage(): Promise<readonly Result[]> {
  return measureRoundTrips({
    name: `\`storage\` over ${buckets.length} buckets`,
    argv: ['storage'],
    serverFile: import.meta.filename,
    // The last line is the total.
    lines: buckets.length + 1,
    settings: (url) => ({ tpu: { project: 'lab' }, google: { endpoints: { storage: url, monitoring: url } } }),
  });
}

function serve(latency: number): void {
  const items = buckets.map((name) => ({
    name,
    location: 'US-CENTRAL2',
    locationType: 'region',
    storageClass: 'STANDARD',
  }));
  const now = Date.now();
  const series = (value: (days: number) => object) =>
    buckets.map((name) => ({
      resource: { labels: { bucket_name: name, location: 'us-central2' } },
      points: Array.from({ length: 31 }, (_, days) => ({
        interval: { endTime: new Date(now - days * day).toISOString() },
        value: value(days),
      })),
    }));
  const bytes = { timeSeries: series((days) => ({ doubleValue: 1e12 - days })) };
  const objects = { timeSeries: series((days) => ({ int64Value: String(1_000 - days) })) };
  serveReplies(latency, (path) =>
    path.startsWith('/v3/') ? (path.includes('object_count') ? objects : bytes) : { items },
  );
}

if (import.meta.main && process.argv[2] === 'serve') serve(Number(process.argv[3]));
