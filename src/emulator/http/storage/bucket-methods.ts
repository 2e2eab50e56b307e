// The methods of buckets.

import { bucketPattern, readLocation } from '../../world/buckets.ts';
import { refusals } from './errors.ts';
import type { Method, Stores } from './method.ts';
import { jsonOf, nextPage, pageSize, pageStart, type StorageCall } from './requests.ts';
import { bucketResource, placeFields } from './resources.ts';

export const insertBucket: Method = async ({ buckets, log }, call) => {
  const {
    name,
    location,
    customPlacementConfig: placement,
  } = (await jsonOf(call.request)) as {
    name?: unknown;
    location?: unknown;
    customPlacementConfig?: { dataLocations?: unknown };
  };
  if (typeof name !== 'string' || !bucketPattern.test(name)) {
    throw refusals.invalid(`Invalid bucket name: '${String(name)}'`);
  }
  if (buckets.has(name)) throw refusals.isThere();
  const parts = placement?.dataLocations;
  // Google's own default is the multi-region US.
  const asked = typeof location === 'string' ? location : 'US';
  const place = readLocation(asked, Array.isArray(parts) ? parts.map(String) : []);
  if (place === undefined) throw refusals.invalid(`The specified location constraint is not valid: ${asked}`);
  buckets.put(name, place);
  log(`The bucket ${name} was made in ${place.location}.`);
  return bucketResource(buckets, name, call.origin);
};

export const listBuckets: Method = ({ buckets }, call) => {
  const prefix = call.query.get('prefix') ?? '';
  const names = buckets.names().filter((name) => name.startsWith(prefix));
  const after = pageStart(call.query);
  const most = pageSize(call.query);
  const rest = names.filter((name) => name > after);
  const items = rest.slice(0, most).map((name) => bucketResource(buckets, name, call.origin));
  return { kind: 'storage#buckets', items, ...nextPage(rest.length > most ? rest[most - 1] : undefined) };
};

export const getBucket: Method = (stores, call) => bucketResource(stores.buckets, existing(stores, call), call.origin);

export const removeBucket: Method = (stores, call) => {
  const bucket = existing(stores, call);
  try {
    stores.buckets.remove(bucket);
  } catch {
    throw refusals.notEmpty();
  }
  call.response.writeHead(204).end();
  return null;
};

export const storageLayout: Method = (stores, call) => {
  const bucket = existing(stores, call);
  const place = placeFields(stores.buckets.place(bucket));
  return { kind: 'storage#storageLayout', bucket, hierarchicalNamespace: { enabled: false }, ...place };
};

function existing({ buckets }: Stores, call: StorageCall): string {
  const bucket = call.part('bucket');
  if (!buckets.has(bucket)) throw refusals.noBucket();
  return bucket;
}
