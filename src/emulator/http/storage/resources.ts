/**
 * Buckets and objects as the JSON API shows them, and what its clients may say of an object.
 * https://cloud.google.com/storage/docs/json_api/v1/objects
 */
import type { BucketPlace, Buckets } from '../../world/buckets.ts';
import { refusals } from './errors.ts';
import { etagOf, type ObjectAbout, type StoredObject } from './objects.ts';

/** A bucket that exists. `origin` is how the client calls this server. */
export function bucketResource(buckets: Buckets, bucket: string, origin: string): object {
  const at = new Date(buckets.madeAt(bucket)).toISOString();
  const place = buckets.place(bucket);
  return {
    kind: 'storage#bucket',
    id: bucket,
    name: bucket,
    selfLink: `${origin}/storage/v1/b/${bucket}`,
    projectNumber: '1',
    metageneration: '1',
    etag: 'CAE=',
    timeCreated: at,
    updated: at,
    storageClass: 'STANDARD',
    iamConfiguration: { uniformBucketLevelAccess: { enabled: true } },
    ...placeFields(place),
  };
}

/** Where a bucket is, in the fields of its resource; none while it was not placed. */
export function placeFields(place: BucketPlace | undefined): object {
  if (place === undefined) return {};
  const { location, locationType, dataLocations } = place;
  return {
    location,
    locationType,
    ...(dataLocations === undefined ? {} : { customPlacementConfig: { dataLocations } }),
  };
}

/** An object, as it is now. */
export function objectResource(object: StoredObject, origin: string): object {
  const { bucket, name, generation, metageneration, size, updatedAt, about } = object;
  const at = new Date(updatedAt).toISOString();
  const link = `${origin}/storage/v1/b/${bucket}/o/${encodeURIComponent(name)}`;
  return {
    kind: 'storage#object',
    id: `${bucket}/${name}/${generation}`,
    selfLink: link,
    mediaLink: `${origin}/download/storage/v1/b/${bucket}/o/${encodeURIComponent(name)}?generation=${generation}&alt=media`,
    name,
    bucket,
    generation,
    metageneration: String(metageneration),
    size: String(size),
    storageClass: 'STANDARD',
    etag: etagOf(object),
    timeCreated: at,
    updated: at,
    timeStorageClassUpdated: at,
    ...about,
  };
}

/** The fields of an object that are its owner's to say. */
const saidFields = [
  'contentType',
  'contentEncoding',
  'contentDisposition',
  'contentLanguage',
  'cacheControl',
  'customTime',
  'crc32c',
  'md5Hash',
] as const;

/** A new object as a client describes it. */
export function aboutOf(said: Readonly<Record<string, unknown>>): ObjectAbout {
  return merged({}, said);
}

/** The object as it stands, with this change; null takes a field away, and so it does a key of the metadata. */
export function merged(before: ObjectAbout, said: Readonly<Record<string, unknown>>): ObjectAbout {
  const about: Record<string, unknown> = { ...before };
  for (const field of saidFields) {
    const value = said[field];
    if (value === null) delete about[field];
    else if (typeof value === 'string') about[field] = value;
  }
  const { metadata } = said;
  if (metadata === null) delete about['metadata'];
  else if (typeof metadata === 'object') {
    const all = Object.entries({ ...before.metadata, ...metadata }).filter(([, value]) => value !== null);
    about['metadata'] = Object.fromEntries(all.map(([key, value]) => [key, String(value)]));
  }
  return about;
}

/** The type that a header gives, where the client has not said one. */
export function withType(about: ObjectAbout, contentType: string | undefined): ObjectAbout {
  return about.contentType !== undefined || contentType === undefined ? about : { ...about, contentType };
}

/** The name of a new object. Throws without one. */
export function nameOf(query: URLSearchParams, said: Readonly<Record<string, unknown>>): string {
  const name = query.get('name') ?? said['name'];
  if (typeof name === 'string' && name !== '') return name;
  throw refusals.invalid('An object needs a name.');
}
