/** https://cloud.google.com/storage/docs/json_api/v1/objects */
import type { BucketLocation, Buckets } from '../../world/buckets.ts';
import { storageErrors } from './errors.ts';
import { etagOf, type ObjectAttributes, type StoredObject } from './objects.ts';

/** The bucket must exist. `origin` is the URL of this server for the client. */
export function bucketResource(buckets: Buckets, bucket: string, origin: string): object {
  const at = new Date(buckets.createdAt(bucket)).toISOString();
  const location = buckets.location(bucket);
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
    ...locationFields(location),
  };
}

/** The location fields of a bucket's resource; none before its first use. */
export function locationFields(bucketLocation: BucketLocation | undefined): object {
  if (bucketLocation === undefined) return {};
  const { location, locationType, dataLocations } = bucketLocation;
  return {
    location,
    locationType,
    ...(dataLocations === undefined ? {} : { customPlacementConfig: { dataLocations } }),
  };
}

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

const writableFields = [
  'contentType',
  'contentEncoding',
  'contentDisposition',
  'contentLanguage',
  'cacheControl',
  'customTime',
  'crc32c',
  'md5Hash',
] as const;

export function readAttributes(fields: Readonly<Record<string, unknown>>): ObjectAttributes {
  return mergeAttributes({}, fields);
}

/** Merges a change into the attributes; null removes a field or a metadata key. */
export function mergeAttributes(before: ObjectAttributes, fields: Readonly<Record<string, unknown>>): ObjectAttributes {
  const about: Record<string, unknown> = { ...before };
  for (const field of writableFields) {
    const value = fields[field];
    if (value === null) delete about[field];
    else if (typeof value === 'string') about[field] = value;
  }
  const { metadata } = fields;
  if (metadata === null) delete about['metadata'];
  else if (typeof metadata === 'object') {
    const all = Object.entries({ ...before.metadata, ...metadata }).filter(([, value]) => value !== null);
    about['metadata'] = Object.fromEntries(all.map(([key, value]) => [key, String(value)]));
  }
  return about;
}

/** Adds the type of a header unless the client has set one. */
export function withType(about: ObjectAttributes, contentType: string | undefined): ObjectAttributes {
  return about.contentType !== undefined || contentType === undefined ? about : { ...about, contentType };
}

export function requestedName(query: URLSearchParams, fields: Readonly<Record<string, unknown>>): string {
  const name = query.get('name') ?? fields['name'];
  if (typeof name === 'string' && name !== '') return name;
  throw storageErrors.invalid('An object must have a name.');
}
