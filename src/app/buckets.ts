// Buckets: whether those that a manifest mounts are where its job may run. Reading from another region is slow and billed, so such
// a job is refused.

import { bucketPlaceText, isInRegion, zoneOfBucket } from '../core/bucket-place.ts';
import { second, type Duration } from '../core/time.ts';
import { regionOf } from '../catalogue/zones.ts';
import type { NamedBucket } from '../manifest/buckets.ts';
import type { Problem } from '../schema/problems.ts';
import { joinedText } from './figures.ts';
import type { BucketLook, BucketPort } from './ports.ts';

export interface BucketFindings {
  readonly problems: readonly Problem[];
  readonly warnings: readonly Problem[];
  readonly unchecked: string | null;
}

/** A person waits for the answers, so they are waited for no longer than this, all together. */
export const bucketsWithin: Duration = 3 * second;

/** Reports each bucket that is out of place at its key. Never throws. */
export async function checkBucketPlaces(
  named: readonly NamedBucket[],
  port: BucketPort,
  within: Duration = bucketsWithin,
): Promise<BucketFindings> {
  const names = [...new Set(named.map(({ bucket }) => bucket))];
  const looks = new Map(
    await Promise.all(names.map(async (name) => [name, await inTime(port, name, within)] as const)),
  );
  const problems: Problem[] = [];
  const warnings: Problem[] = [];
  const missed: string[] = [];
  let why = '';
  for (const one of named) {
    const look = looks.get(one.bucket);
    if (look?.kind === 'unknown') {
      if (!missed.includes(one.bucket)) missed.push(one.bucket);
      why = look.why;
    } else if (look?.kind === 'absent') {
      const message = `there is no bucket ${one.bucket}; make it in ${regionsOf(one.zones)}, or correct its name`;
      problems.push({ ...one.at, message, suggestion: null });
    } else if (look?.kind === 'there' && !one.anyRegion) {
      const foreign = one.zones.filter((zone) => isInRegion(look.place, zone) === false);
      if (foreign.length > 0) problems.push({ ...one.at, message: foreignText(one, look, foreign), suggestion: null });
      const home = zoneOfBucket(look.place);
      const beside = one.zones.filter((zone) => home !== undefined && zone !== home && !foreign.includes(zone));
      if (beside.length > 0) {
        const message = `${one.bucket} is in the zone ${home} alone, and the job may run in ${joinedText(beside)}: reading it from there is slower`;
        warnings.push({ ...one.at, message, suggestion: null });
      }
    }
  }
  const of = missed.length === 1 ? 'bucket' : 'buckets';
  const unchecked =
    missed.length === 0
      ? null
      : `Where the ${of} ${joinedText(missed)} ${missed.length === 1 ? 'is' : 'are'} could not be checked: ${why.replace(/\.$/u, '')}`;
  return { problems, warnings, unchecked };
}

function foreignText(
  { bucket, isOneForAll }: NamedBucket,
  { place }: Extract<BucketLook, { kind: 'there' }>,
  foreign: readonly string[],
): string {
  const regions = regionsOf(foreign);
  const instead = isOneForAll
    ? `name a bucket in ${regions} (or one for each region), choose another zone`
    : `name a bucket in ${regions}, choose another zone`;
  return `${bucket} is in ${bucketPlaceText(place)}, and the job may run in ${joinedText(foreign)}; ${instead}, or set allow_other_region: true`;
}

function regionsOf(zones: readonly string[]): string {
  return joinedText([...new Set(zones.map(regionOf))]);
}

async function inTime(port: BucketPort, bucket: string, within: Duration): Promise<BucketLook> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<BucketLook>((resolve) => {
    const look: BucketLook = { kind: 'unknown', why: `no answer within ${within / second} s` };
    timer = setTimeout(() => resolve(look), within);
  });
  try {
    return await Promise.race([port.look(bucket), late]);
  } catch (error) {
    return { kind: 'unknown', why: error instanceof Error ? error.message : String(error) };
  } finally {
    clearTimeout(timer);
  }
}
