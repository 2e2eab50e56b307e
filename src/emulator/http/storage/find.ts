/** Finding what a request names; whoever uses a bucket makes it, and a worker places it where it is. */
import type { BucketPlace, Buckets } from '../../world/buckets.ts';
import { bucketPattern, placeInZone } from '../../world/buckets.ts';
import { refusals } from './errors.ts';
import type { StoredObject } from './object.ts';
import type { Objects } from './objects.ts';
import type { StorageCall } from './requests.ts';

export interface Finder {
  /** A bucket must exist to be looked at; a worker that looks at one uses it. Throws where it does not. */
  readonly need: (bucket: string, call: StorageCall) => void;
  /** The bucket for a write, which makes it. Throws where none may have that name. */
  readonly makeByUse: (bucket: string, call: StorageCall) => void;
  /** The object, in that generation if one is named. Throws where there is none. */
  readonly needObject: (bucket: string, name: string, call: StorageCall, generation?: string | null) => StoredObject;
}

export function createFinder(buckets: Buckets, objects: Objects): Finder {
  /** The place that a bucket gets which is first used by this call. */
  const placeFor = ({ zone }: StorageCall): BucketPlace | undefined =>
    zone === undefined ? undefined : placeInZone(zone);

  function need(bucket: string, call: StorageCall): void {
    if (call.zone !== undefined && bucketPattern.test(bucket)) buckets.use(bucket, placeFor(call));
    if (!buckets.has(bucket)) throw refusals.noBucket();
  }

  function makeByUse(bucket: string, call: StorageCall): void {
    if (!bucketPattern.test(bucket)) throw refusals.invalid(`Invalid bucket name: '${bucket}'`);
    buckets.use(bucket, placeFor(call));
    // A worker may have put something else in its place.
    if (!buckets.has(bucket)) throw refusals.noBucket();
  }

  function needObject(
    bucket: string,
    name: string,
    call: StorageCall,
    generation = call.query.get('generation'),
  ): StoredObject {
    need(bucket, call);
    const found = objects.find(bucket, name);
    if (found === undefined || (generation !== null && generation !== found.generation)) {
      throw refusals.noObject(bucket, name);
    }
    return found;
  }

  return { need, makeByUse, needObject };
}
