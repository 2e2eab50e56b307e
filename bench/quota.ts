// Quota: round trips of `jobman quota` over 64 zones with 8 quotas each and 320 TPUs.

import { measureRoundTrips, serveReplies } from './round-trips.ts';
import type { Result } from './result.ts';

const zoneCount = 64;
const tpusPerZone = 5;

export function measureQuota(): Promise<readonly Result[]> {
  return measureRoundTrips({
    name: `\`quota\` over ${zoneCount} zones`,
    argv: ['quota'],
    serverFile: import.meta.filename,
    // The limits, and the use of one of them, in each zone.
    lines: zoneCount * (quotaIds.length + 1),
    settings: (url) => ({ tpu: { project: 'lab', endpoint: url } }),
  });
}

const quotaIds = ['TPUV6E', 'TPUV5P', 'TPUV5sLitepod', 'TPUV5sLitepodServing'].flatMap((family) => {
  const preemptible = family.startsWith('TPUV5s')
    ? family.replace('TPUV5s', 'TPUV5sPreemptible')
    : `${family}Preemptible`;
  return [family, preemptible].map((name) => `${name}PerProjectPerZoneForTPUAPI`);
});

function serve(latency: number): void {
  const zones = Array.from({ length: zoneCount }, (_, index) => `region-a${index >> 2}-${'abcd'[index % 4] ?? ''}`);
  const nodes = zones.flatMap((zone) =>
    Array.from({ length: tpusPerZone }, (_, index) => ({
      name: `projects/lab/locations/${zone}/nodes/train-${index}`,
      acceleratorType: 'v6e-16',
      state: index === 0 ? 'PREEMPTED' : 'READY',
      createTime: '2026-11-20T08:00:00Z',
      schedulingConfig: { spot: true },
      metadata: { owner: 'ada' },
    })),
  );
  const quotaInfos = quotaIds.map((quotaId) => ({
    quotaId,
    dimensionsInfos: zones.map((zone) => ({
      dimensions: { zone },
      details: { value: '512' },
      applicableLocations: [zone],
    })),
  }));
  serveReplies(latency, (path) =>
    path.includes('/quotaInfos') ? { quotaInfos } : path.includes('/nodes') ? { nodes } : {},
  );
}

if (import.meta.main && process.argv[2] === 'serve') serve(Number(process.argv[3]));
