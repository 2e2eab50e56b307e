// Bucket place: Cloud Storage is asked where a bucket is. It is the one question that jobman has for Storage, and
// `storageLayout` answers it to everybody who may list the bucket, which is less than `buckets.get` wants and no more than
// gcsfuse needs anyway. https://cloud.google.com/storage/docs/json_api/v1/buckets/getStorageLayout

import type { BucketLook } from '../../app/ports.ts';
import type { Caller } from './call.ts';

/** The fields of Storage's answer that jobman reads; another server may omit any of them. */
interface Layout {
  readonly location?: unknown;
  readonly locationType?: unknown;
  readonly customPlacementConfig?: { readonly dataLocations?: unknown };
}

/**
 * Asks once. `makesByUse`: that cloud makes a bucket when it is first used, so that one that is not there is nothing to
 * complain of. Never throws.
 */
export async function lookAtBucket(caller: Caller, bucket: string, makesByUse: boolean): Promise<BucketLook> {
  const answer = await caller.call<Layout>('GET', `storage/v1/b/${encodeURIComponent(bucket)}/storageLayout`);
  if (!answer.ok) {
    if (answer.status === 'NOT_FOUND') return makesByUse ? { kind: 'unplaced' } : { kind: 'absent' };
    return { kind: 'unknown', why: answer.error.raw };
  }
  const { location, locationType, customPlacementConfig } = answer.value;
  // The built-in cloud has buckets that nobody has placed yet.
  if (typeof location !== 'string' || location === '') return { kind: 'unplaced' };
  const parts: unknown = customPlacementConfig?.dataLocations ?? [];
  return {
    kind: 'there',
    place: {
      location: location.toLowerCase(),
      kind: typeof locationType === 'string' ? locationType : null,
      parts: Array.isArray(parts)
        ? parts.filter((part) => typeof part === 'string').map((part) => part.toLowerCase())
        : [],
    },
  };
}
