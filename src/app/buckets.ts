// Buckets: checks that a manifest's buckets are in the job's region. Reads from another region are slow and billed, so
// such a job is refused.

import { formatBucketLocation, isInRegion, zoneOfBucket } from '../catalogue/bucket-location.ts';
import { second, type Duration } from '../core/model/time.ts';
import { regionOf } from '../catalogue/zones.ts';
import type { NamedBucket } from '../manifest/buckets.ts';
import type { Problem } from '../schema/problems.ts';
import { messageOf } from './errors.ts';
import { withTimeout } from './concurrency.ts';
import { formatList } from './format.ts';
import type { BucketStatus, BucketPort } from './ports.ts';

export interface BucketFindings {
  readonly problems: readonly Problem[];
  readonly warnings: readonly Problem[];
  readonly unchecked: string | null;
}

/** A user waits for the answers, so this is the limit for all of them together. */
export const bucketCheckTimeout: Duration = 3 * second;

/** Reports each bucket in a wrong location at its key in the manifest. Never throws. */
export async function checkBucketLocations(
  buckets: readonly NamedBucket[],
  observe: (names: readonly string[]) => Promise<readonly BucketStatus[]>,
): Promise<BucketFindings> {
  const names = [...new Set(buckets.map(({ bucket }) => bucket))];
  const observed = await observe(names);
  const statuses = new Map(names.map((name, at) => [name, observed[at]]));
  const problems: Problem[] = [];
  const warnings: Problem[] = [];
  const uncheckedNames: string[] = [];
  let reason = '';
  for (const one of buckets) {
    const status = statuses.get(one.bucket);
    if (status?.kind === 'unknown') {
      if (!uncheckedNames.includes(one.bucket)) uncheckedNames.push(one.bucket);
      reason = status.reason;
    } else if (status?.kind === 'absent') {
      const message = `there is no bucket ${one.bucket}; create it in ${regionsOf(one.zones)}, or correct its name`;
      problems.push({ ...one.position, message, suggestion: null });
    } else if (status?.kind === 'present' && !one.allowOtherRegion) {
      const outOfRegion = one.zones.filter((zone) => isInRegion(status.location, zone) === false);
      if (outOfRegion.length > 0)
        problems.push({ ...one.position, message: formatOutOfRegion(one, status, outOfRegion), suggestion: null });
      const bucketZone = zoneOfBucket(status.location);
      const otherZones = one.zones.filter(
        (zone) => bucketZone !== undefined && zone !== bucketZone && !outOfRegion.includes(zone),
      );
      if (otherZones.length > 0) {
        const message = `${one.bucket} is only in zone ${bucketZone}, and the job may run in ${formatList(otherZones)}: reads from there are slower`;
        warnings.push({ ...one.position, message, suggestion: null });
      }
    }
  }
  const of = uncheckedNames.length === 1 ? 'bucket' : 'buckets';
  const unchecked =
    uncheckedNames.length === 0
      ? null
      : `Could not check the location of the ${of} ${formatList(uncheckedNames)}: ${reason.replace(/\.$/u, '')}`;
  return { problems, warnings, unchecked };
}

function formatOutOfRegion(
  { bucket, isForAllRegions }: NamedBucket,
  { location }: Extract<BucketStatus, { kind: 'present' }>,
  zones: readonly string[],
): string {
  const regions = regionsOf(zones);
  const instead = isForAllRegions
    ? `name a bucket in ${regions} (or one for each region), choose another zone`
    : `name a bucket in ${regions}, choose another zone`;
  return `${bucket} is in ${formatBucketLocation(location)}, and the job may run in ${formatList(zones)}; ${instead}, or set allow_other_region: true`;
}

function regionsOf(zones: readonly string[]): string {
  return formatList([...new Set(zones.map(regionOf))]);
}

/** Never rejects. */
export function observeInTime(
  port: BucketPort,
  bucket: string,
  timeout: Duration = bucketCheckTimeout,
): Promise<BucketStatus> {
  const unknownStatus = (reason: string): BucketStatus => ({ kind: 'unknown', reason });
  return withTimeout(timeout, port.observe(bucket), () =>
    unknownStatus(`no answer within ${timeout / second} s`),
  ).catch((error: unknown) => unknownStatus(messageOf(error)));
}
