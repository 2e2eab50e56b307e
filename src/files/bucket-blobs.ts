// Bucket blobs: contents in a bucket, each an object that its digest names.

import { mapConcurrent } from '../app/concurrency.ts';
import { BlobError } from '../app/errors.ts';
import type { Blobs, Bucket, BucketObject } from '../app/ports.ts';
import { digestOf, isDigest, type Digest } from '../catalogue/digest.ts';
import { hour, type Duration, type Instant } from '../core/model/time.ts';
import { requireDigests } from './blobs.ts';

const maxConcurrent = 16;
/** Of one read, so that a slow connection loses one part only. */
const partBytes = 8 * 1024 * 1024;
/** The time of use is not written again within this time, by which a blob is therefore kept longer. */
const minUseAge: Duration = 12 * hour;
/** A blob that was found is not looked up again within this time, which is shorter than a blob is kept. */
const foundFor: Duration = hour;

export function createBucketBlobs(bucket: Bucket, now: () => Instant): Blobs {
  /** By digest: the size, and when it was found. */
  const found = new Map<Digest, { readonly size: number; readonly at: Instant }>();

  async function use(digest: Digest, object: BucketObject): Promise<boolean> {
    const isThere = now() - object.usedAt < minUseAge || (await bucket.setUsed(object.name, now()));
    if (isThere) found.set(digest, { size: object.size, at: now() });
    return isThere;
  }

  async function store(digest: Digest, content: Uint8Array): Promise<void> {
    const name = nameOf(digest);
    const written = await bucket.write(name, content, null);
    // Stored already, unless its size says that it is damaged.
    const object = written ?? (await bucket.find(name));
    if (object?.size === content.byteLength && (await use(digest, object))) return;
    if ((await bucket.write(name, content, object?.generation ?? null)) === null) await store(digest, content);
  }

  async function isStored(digest: Digest, size: number | undefined): Promise<boolean> {
    if (!isDigest(digest)) return false;
    const known = found.get(digest);
    if (known !== undefined && now() - known.at < foundFor) return size === undefined || size === known.size;
    const object = await bucket.find(nameOf(digest));
    return object !== null && (size === undefined || size === object.size) && use(digest, object);
  }

  return {
    async put(blobs) {
      requireDigests(blobs);
      const byDigest = new Map(blobs.map(({ digest, content }) => [digest, content]));
      await mapConcurrent([...byDigest], maxConcurrent, ([digest, content]) => store(digest, content));
    },

    async has(digests, sizes) {
      const stored = await mapConcurrent(digests, maxConcurrent, (digest, at) => isStored(digest, sizes?.[at]));
      return digests.filter((_, at) => stored[at]);
    },

    async collect(unusedSince, needed) {
      const unused: BucketObject[] = [];
      for await (const object of bucket.list('blobs/'))
        if (object.usedAt < unusedSince - minUseAge) unused.push(object);
      const stillNeeded = unused.length === 0 ? new Set<Digest>() : await needed();
      const removed: Digest[] = [];
      await mapConcurrent(unused, maxConcurrent, async ({ name, metageneration }) => {
        const digest: Digest = `sha256:${name.slice(name.lastIndexOf('/') + 1)}`;
        found.delete(digest);
        // A needed blob is looked up again after another such time.
        if (stillNeeded.has(digest)) await bucket.setUsed(name, now());
        // A client may have used it meanwhile, which changes the metageneration.
        else if (await bucket.remove(name, metageneration)) removed.push(digest);
      });
      return removed;
    },

    async read(digest) {
      const object = await bucket.find(nameOf(digest));
      const missing = new BlobError(`${digest} is missing in ${bucket.address}`);
      if (object === null) throw missing;
      const parts: Buffer[] = [];
      for (let from = 0; from < object.size; from += partBytes) {
        const part = await bucket.read(object, from, Math.min(partBytes, object.size - from));
        if (part === null) throw missing;
        parts.push(part);
      }
      const content = parts.length === 1 && parts[0] !== undefined ? parts[0] : Buffer.concat(parts);
      if (digestOf(content) === digest) return content;
      found.delete(digest);
      // The next upload of this content stores it.
      await bucket.remove(object.name, object.metageneration);
      throw new BlobError(`${digest} is damaged: ${bucket.address}/${object.name} had other bytes, and was removed`);
    },
  };
}

function nameOf(digest: Digest): string {
  const name = digest.slice('sha256:'.length);
  return `blobs/${name.slice(0, 2)}/${name}`;
}
