// Cloud Storage, read-only: the buckets of a project, and the objects of a bucket or folder.
// Source: https://cloud.google.com/storage/docs/json_api/v1/buckets/list and .../objects/list.

import type { Answer, GoogleApi } from '../app/google.ts';
import { matchesShape, splitByShape, type Shape, type ShapeValue } from '../app/json.ts';
import type { BucketListing, CountedObjects, ObjectFolder } from '../app/storage.ts';
import { readBucketLocation } from '../catalogue/bucket-location.ts';
import type { CloudError } from '../core/model/job.ts';
import { parseInstant, type Instant } from '../core/model/time.ts';
import { unexpectedForm } from '../app/refusal.ts';

/** The largest page that the service gives. */
const pageSize = '1000';

const bucketForm = {
  name: 'string',
  location: 'string',
  locationType: 'string',
  customPlacementConfig: { dataLocations: ['string'] },
  storageClass: 'string',
  timeCreated: 'string',
} as const satisfies Shape;
const bucketFields = 'nextPageToken,items(name,location,locationType,customPlacementConfig,storageClass,timeCreated)';

/** Requires the permission `storage.buckets.list`. */
export async function listBuckets(api: GoogleApi, project: string): Promise<Answer<BucketListing>> {
  const query = new URLSearchParams({ project, maxResults: pageSize, fields: bucketFields, prettyPrint: 'false' });
  const answer = await api.list<unknown>(`storage/v1/b?${String(query)}`, 'items');
  if (!answer.ok) return answer;
  const { matching, unreadable } = splitByShape(answer.value.items, bucketForm);
  if (matching.length === 0 && unreadable.length > 0)
    return { ok: false, status: 'NO_ANSWER', error: unexpectedForm('the list of buckets') };
  const buckets = matching.map((item) => ({
    name: item.name,
    location: readBucketLocation(item),
    storageClass: item.storageClass ?? null,
    createdAt: parseInstant(item.timeCreated),
  }));
  return { ok: true, value: { buckets, unreadable } };
}

const objectsForm = {
  nextPageToken: 'string',
  // An uint64, which JSON cannot hold as a number.
  items: [{ size: 'string', updated: 'string' }],
} as const satisfies Shape;

/**
 * Counts the objects below a prefix, page by page: the live ones, as `gcloud storage du` does. A failure comes last, with a
 * partial count, or none before the first page. Requires the permission `storage.objects.list`.
 */
export async function* countObjects(
  api: GoogleApi,
  { bucket, prefix }: ObjectFolder,
  signal: AbortSignal,
): AsyncGenerator<CountedObjects, void> {
  let [pages, bytes, objects] = [0, 0, 0];
  let newestAt: Instant | null = null;
  let token = '';
  const soFar = (isPartial: boolean, error: CloudError | null): CountedObjects => ({
    count: pages === 0 ? null : { bytes, objects, newestAt, isPartial },
    error,
  });
  do {
    const query = new URLSearchParams({
      maxResults: pageSize,
      fields: 'nextPageToken,items(size,updated)',
      prettyPrint: 'false',
      ...(prefix === '' ? {} : { prefix }),
      ...(token === '' ? {} : { pageToken: token }),
    });
    const path = `storage/v1/b/${encodeURIComponent(bucket)}/o?${String(query)}`;
    let answer: Answer<ObjectPage>;
    try {
      signal.throwIfAborted();
      answer = await api.call('GET', path, undefined, signal);
    } catch (error) {
      if (!signal.aborted) throw error;
      return;
    }
    const page = answer.ok ? readPage(answer.value, token) : answer;
    if (!page.ok) {
      yield soFar(true, page.error);
      return;
    }
    pages += 1;
    bytes += page.bytes;
    objects += page.objects;
    if (page.newestAt !== null) newestAt = Math.max(newestAt ?? page.newestAt, page.newestAt);
    token = page.next;
    yield soFar(token !== '', null);
  } while (token !== '');
}

type ObjectPage = ShapeValue<typeof objectsForm>;

function readPage(value: ObjectPage, token: string) {
  const unexpected = { ok: false, error: unexpectedForm('the list of objects') } as const;
  if (!matchesShape(value, objectsForm)) return unexpected;
  const { items = [], nextPageToken: next = '' } = value;
  let bytes = 0;
  let newestAt: Instant | null = null;
  for (const { size = '', updated } of items) {
    bytes += Number(size);
    const at = parseInstant(updated);
    if (at !== null && (newestAt === null || at > newestAt)) newestAt = at;
  }
  if (!Number.isFinite(bytes) || (next !== '' && next === token)) return unexpected;
  return { ok: true, bytes, objects: items.length, newestAt, next } as const;
}
