// The methods of buckets and objects: listed, described, uploaded, removed, and made of others.

import { createReadStream, createWriteStream, rmSync, writeFileSync } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { bucketPattern, readLocation, type Buckets } from '../../world/buckets.ts';
import { checksumsOf, download, openObject } from './downloads.ts';
import { refusals } from './errors.ts';
import { checkPreconditions, checkRead, type Finder, type Objects, type StoredObject } from './objects.ts';
import {
  header,
  jsonOf,
  nextPage,
  pageSize,
  pageStart,
  parseJson,
  preconditionsOf,
  type Answer,
  type StorageCall,
} from './requests.ts';
import { aboutOf, bucketResource, merged, nameOf, objectResource, placeFields, withType } from './resources.ts';
import { bodyOf, readMultipart, type Upload, type Uploads } from './uploads.ts';

export const listObjects: Method = ({ objects, finder }, call) => {
  const bucket = call.part('bucket');
  finder.need(bucket, call);
  const { query } = call;
  if ((query.get('matchGlob') ?? '') !== '') throw refusals.notPlayed('matchGlob');
  const { items, prefixes, next } = objects.list(bucket, {
    prefix: query.get('prefix') ?? '',
    delimiter: query.get('delimiter') ?? '',
    startOffset: query.get('startOffset') ?? '',
    endOffset: query.get('endOffset') ?? '',
    after: pageStart(query),
    includeTrailingDelimiter: query.get('includeTrailingDelimiter') === 'true',
    most: pageSize(query),
  });
  return {
    kind: 'storage#objects',
    ...(prefixes.length === 0 ? {} : { prefixes }),
    ...(items.length === 0 ? {} : { items: items.map((item) => objectResource(item, call.origin)) }),
    ...nextPage(next),
  };
};

/** The bytes of an object with `alt=media`, else its resource. */
export const getObject: Method = (stores, call) => {
  const { request, query, origin } = call;
  if (query.get('alt') === 'media') return download(stores, call);
  const found = named(stores, call);
  checkRead(found, preconditionsOf(query), request.headers);
  return objectResource(found, origin);
};

/** PATCH changes what is said of an object, PUT replaces it. */
export const describeObject: Method = async (stores, call) => {
  const { request, query, origin } = call;
  const said = await jsonOf(request);
  const found = named(stores, call);
  checkPreconditions(found, preconditionsOf(query));
  const { crc32c, md5Hash } = found.about;
  const before = request.method === 'PATCH' ? found.about : {};
  const about = { ...merged(before, said), ...(crc32c && { crc32c }), ...(md5Hash && { md5Hash }) };
  return objectResource(stores.objects.describe(found, about), origin);
};

export const removeObject: Method = (stores, call) => {
  const found = named(stores, call);
  checkPreconditions(found, preconditionsOf(call.query));
  stores.objects.remove(found);
  call.response.writeHead(204).end();
  return null;
};

/** `copyTo`: a second object with the same bytes. */
export const copyObject: Method = (stores, call) => copy(stores, source(stores, call), call);

/** `rewriteTo`: a copy that is always done in one go. */
export const rewriteObject: Method = async (stores, call) => {
  const from = source(stores, call);
  const resource = await copy(stores, from, call);
  const size = String(from.size);
  return { kind: 'storage#rewriteResponse', totalBytesRewritten: size, objectSize: size, done: true, resource };
};

export const moveObject: Method = async (stores, call) => {
  const from = source(stores, call);
  const made = await copy(stores, from, call);
  stores.objects.remove(from);
  return made;
};

/** One object of several, one behind the other. */
export const composeObject: Method = async (stores, call) => {
  const bucket = call.part('bucket');
  stores.finder.makeByUse(bucket, call);
  const said = (await jsonOf(call.request)) as {
    destination?: Readonly<Record<string, unknown>>;
    sourceObjects?: readonly {
      name?: string;
      generation?: string;
      objectPreconditions?: { ifGenerationMatch?: string };
    }[];
  };
  const sources = (said.sourceObjects ?? []).map((source) => {
    const generation = source.objectPreconditions?.ifGenerationMatch ?? source.generation ?? null;
    return stores.finder.needObject(bucket, source.name ?? '', call, generation);
  });
  if (sources.length === 0 || sources.length > 32) throw refusals.invalid('1 to 32 objects are composed at once.');
  const about = { ...aboutOf(said.destination ?? {}), componentCount: sources.length };
  const upload = { bucket, name: call.part('name'), about, only: preconditionsOf(call.query) };
  return putObject(stores, upload, await joined(stores.uploads, sources), call);
};

function named({ finder }: Stores, call: StorageCall): StoredObject {
  return finder.needObject(call.part('bucket'), call.part('name'), call);
}

function source({ finder }: Stores, call: StorageCall): StoredObject {
  const generation = call.query.get('sourceGeneration') ?? call.query.get('ifSourceGenerationMatch');
  return finder.needObject(call.part('bucket'), call.part('name'), call, generation);
}

async function copy(stores: Stores, from: StoredObject, call: StorageCall): Promise<object> {
  const bucket = call.part('toBucket') || call.part('bucket');
  stores.finder.makeByUse(bucket, call);
  const said = aboutOf(await jsonOf(call.request));
  const { crc32c: _sum, md5Hash: _hash, ...about } = from.about;
  const file = await joined(stores.uploads, [from]);
  const only = preconditionsOf(call.query);
  return putObject(stores, { bucket, name: call.part('toName'), about: { ...about, ...said }, only }, file, call);
}

/** A new file with the bytes of all of these, one behind the other. */
async function joined(uploads: Uploads, sources: readonly StoredObject[]): Promise<string> {
  const file = uploads.fresh();
  writeFileSync(file, '');
  try {
    for (const source of sources) {
      if (source.name.endsWith('/')) continue;
      const fd = openObject(source);
      await pipeline(createReadStream('', { fd }), createWriteStream(file, { flags: 'a' }));
    }
  } catch (error) {
    rmSync(file, { force: true });
    throw error;
  }
  return file;
}

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

/** Makes the file an object, with its checksums. Throws where what the client says of those is wrong. */
async function putObject(
  { objects }: Stores,
  upload: Omit<Upload, 'id'>,
  file: string,
  call: StorageCall,
): Promise<object> {
  const sums = await checksumsOf(file);
  const { about, only, bucket, name } = upload;
  for (const which of ['crc32c', 'md5Hash'] as const) {
    const said = about[which];
    if (said !== undefined && said !== sums[which]) {
      throw refusals.invalid(`Provided ${which} "${said}" doesn't match calculated ${which} "${sums[which]}".`);
    }
  }
  return objectResource(objects.put(bucket, name, file, { ...about, ...sums }, only), call.origin);
}

/** A new object from the body, or a part of one. */
export const upload: Method = async (stores, call) => {
  const { request, response, query, origin } = call;
  const { uploads } = stores;
  const bucket = call.part('bucket');
  const id = query.get('upload_id');
  if (id !== null) return goOn(stores, id, call);
  stores.finder.makeByUse(bucket, call);
  const only = preconditionsOf(query);
  switch (query.get('uploadType')) {
    case 'resumable': {
      const said = await jsonOf(request);
      const about = withType(aboutOf(said), header(request, 'x-upload-content-type'));
      const begun = uploads.begin({ bucket, name: nameOf(query, said), about, only });
      const location = `${origin}/upload/storage/v1/b/${bucket}/o?uploadType=resumable&upload_id=${begun.id}`;
      response.writeHead(200, { location, 'x-guploader-uploadid': begun.id, 'content-length': 0 }).end();
      return null;
    }
    case 'multipart': {
      const { about, type, bytes } = readMultipart(request.headers['content-type'] ?? '', await bodyOf(request));
      const said = parseJson(about);
      const file = uploads.fresh();
      writeFileSync(file, bytes);
      return putObject(
        stores,
        { bucket, name: nameOf(query, said), about: withType(aboutOf(said), type), only },
        file,
        call,
      );
    }
    case null:
    case 'media': {
      const about = withType({}, header(request, 'content-type'));
      const name = nameOf(query, {});
      return putObject(stores, { bucket, name, about, only }, await uploads.take(request), call);
    }
    default:
      throw refusals.invalid(`uploadType ${String(query.get('uploadType'))} is none.`);
  }
};

async function goOn(stores: Stores, id: string, call: StorageCall): Promise<Answer> {
  const { request, response } = call;
  const { uploads } = stores;
  const begun = uploads.find(id);
  if (request.method === 'DELETE') {
    uploads.end(id);
    response.writeHead(499, { 'content-length': 0 }).end();
    return null;
  }
  if (!(await uploads.goOn(id, request))) {
    const arrived = uploads.length(id);
    const range = arrived === 0 ? {} : { range: `bytes=0-${String(arrived - 1)}` };
    // Clients that cannot bear this use of 308 say so.
    const isPlain = request.headers['x-guploader-no-308'] === 'yes';
    const status = isPlain ? { 'x-http-status-code-override': '308' } : {};
    response.writeHead(isPlain ? 200 : 308, { ...range, ...status, 'content-length': 0 }).end();
    return null;
  }
  try {
    return await putObject(stores, begun, uploads.file(id), call);
  } finally {
    uploads.end(id);
  }
}

export interface Stores {
  readonly buckets: Buckets;
  readonly objects: Objects;
  readonly finder: Finder;
  readonly uploads: Uploads;
  readonly log: (line: string) => void;
}

/** Answers a call. Throws StorageError. */
export type Method = (stores: Stores, call: StorageCall) => Promise<Answer> | Answer;
