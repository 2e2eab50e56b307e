import { createReadStream, createWriteStream, rmSync, writeFileSync } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { bucketPattern, parseLocation, type Buckets } from '../../world/buckets.ts';
import { checksumsOf, download, openObject } from './downloads.ts';
import { storageErrors } from './errors.ts';
import { checkPreconditions, checkReadPreconditions, type Finder, type Objects, type StoredObject } from './objects.ts';
import {
  header,
  readJson,
  nextPageField,
  pageSize,
  pageStart,
  parseJson,
  preconditionsOf,
  type Answer,
  type StorageCall,
} from './requests.ts';
import {
  readAttributes,
  bucketResource,
  mergeAttributes,
  requestedName,
  objectResource,
  locationFields,
  withType,
} from './resources.ts';
import { readBody, readMultipart, type Upload, type Uploads } from './uploads.ts';

export const listObjects: Method = ({ objects, finder }, call) => {
  const bucket = call.part('bucket');
  finder.requireBucket(bucket, call);
  const { query } = call;
  if ((query.get('matchGlob') ?? '') !== '') throw storageErrors.notImplemented('matchGlob');
  const { items, prefixes, next } = objects.list(bucket, {
    prefix: query.get('prefix') ?? '',
    delimiter: query.get('delimiter') ?? '',
    startOffset: query.get('startOffset') ?? '',
    endOffset: query.get('endOffset') ?? '',
    after: pageStart(query),
    includeTrailingDelimiter: query.get('includeTrailingDelimiter') === 'true',
    limit: pageSize(query),
  });
  return {
    kind: 'storage#objects',
    ...(prefixes.length === 0 ? {} : { prefixes }),
    ...(items.length === 0 ? {} : { items: items.map((item) => objectResource(item, call.origin)) }),
    ...nextPageField(next),
  };
};

export const getObject: Method = (stores, call) => {
  const { request, query, origin } = call;
  if (query.get('alt') === 'media') return download(stores, call);
  const found = requestedObject(stores, call);
  checkReadPreconditions(found, preconditionsOf(query), request.headers);
  return objectResource(found, origin);
};

/** PATCH merges attributes, PUT replaces them. */
export const updateObject: Method = async (stores, call) => {
  const { request, query, origin } = call;
  const body = await readJson(request);
  const found = requestedObject(stores, call);
  checkPreconditions(found, preconditionsOf(query));
  const { crc32c, md5Hash } = found.about;
  const before = request.method === 'PATCH' ? found.about : {};
  const about = { ...mergeAttributes(before, body), ...(crc32c && { crc32c }), ...(md5Hash && { md5Hash }) };
  return objectResource(stores.objects.update(found, about), origin);
};

export const removeObject: Method = (stores, call) => {
  const found = requestedObject(stores, call);
  checkPreconditions(found, preconditionsOf(call.query));
  stores.objects.remove(found);
  call.response.writeHead(204).end();
  return null;
};

export const copyObject: Method = (stores, call) => copy(stores, sourceObject(stores, call), call);

/** `rewriteTo`: always done in one call. */
export const rewriteObject: Method = async (stores, call) => {
  const from = sourceObject(stores, call);
  const resource = await copy(stores, from, call);
  const size = String(from.size);
  return { kind: 'storage#rewriteResponse', totalBytesRewritten: size, objectSize: size, done: true, resource };
};

export const moveObject: Method = async (stores, call) => {
  const from = sourceObject(stores, call);
  const made = await copy(stores, from, call);
  stores.objects.remove(from);
  return made;
};

export const composeObject: Method = async (stores, call) => {
  const bucket = call.part('bucket');
  stores.finder.ensureBucket(bucket, call);
  const body = (await readJson(call.request)) as {
    destination?: Readonly<Record<string, unknown>>;
    sourceObjects?: readonly {
      name?: string;
      generation?: string;
      objectPreconditions?: { ifGenerationMatch?: string };
    }[];
  };
  const sources = (body.sourceObjects ?? []).map((source) => {
    const generation = source.objectPreconditions?.ifGenerationMatch ?? source.generation ?? null;
    return stores.finder.requireObject(bucket, source.name ?? '', call, generation);
  });
  if (sources.length === 0 || sources.length > 32) throw storageErrors.invalid('1 to 32 objects are composed at once.');
  const about = { ...readAttributes(body.destination ?? {}), componentCount: sources.length };
  const upload = { bucket, name: call.part('name'), about, preconditions: preconditionsOf(call.query) };
  return putObject(stores, upload, await concatenate(stores.uploads, sources), call);
};

function requestedObject({ finder }: Stores, call: StorageCall): StoredObject {
  return finder.requireObject(call.part('bucket'), call.part('name'), call);
}

function sourceObject({ finder }: Stores, call: StorageCall): StoredObject {
  const generation = call.query.get('sourceGeneration') ?? call.query.get('ifSourceGenerationMatch');
  return finder.requireObject(call.part('bucket'), call.part('name'), call, generation);
}

async function copy(stores: Stores, from: StoredObject, call: StorageCall): Promise<object> {
  const bucket = call.part('toBucket') || call.part('bucket');
  stores.finder.ensureBucket(bucket, call);
  const changes = readAttributes(await readJson(call.request));
  const { crc32c: _sum, md5Hash: _hash, ...about } = from.about;
  const file = await concatenate(stores.uploads, [from]);
  const preconditions = preconditionsOf(call.query);
  return putObject(
    stores,
    { bucket, name: call.part('toName'), about: { ...about, ...changes }, preconditions },
    file,
    call,
  );
}

async function concatenate(uploads: Uploads, sources: readonly StoredObject[]): Promise<string> {
  const file = uploads.newFile();
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
  } = (await readJson(call.request)) as {
    name?: unknown;
    location?: unknown;
    customPlacementConfig?: { dataLocations?: unknown };
  };
  if (typeof name !== 'string' || !bucketPattern.test(name)) {
    throw storageErrors.invalid(`Invalid bucket name: '${String(name)}'`);
  }
  if (buckets.has(name)) throw storageErrors.bucketExists();
  const parts = placement?.dataLocations;
  // Google's own default is the multi-region US.
  const requestedLocation = typeof location === 'string' ? location : 'US';
  const bucketLocation = parseLocation(requestedLocation, Array.isArray(parts) ? parts.map(String) : []);
  if (bucketLocation === undefined)
    throw storageErrors.invalid(`The specified location constraint is not valid: ${requestedLocation}`);
  buckets.put(name, bucketLocation);
  log(`Created the bucket ${name} in ${bucketLocation.location}.`);
  return bucketResource(buckets, name, call.origin);
};

export const listBuckets: Method = ({ buckets }, call) => {
  const prefix = call.query.get('prefix') ?? '';
  const names = buckets.names().filter((name) => name.startsWith(prefix));
  const after = pageStart(call.query);
  const limit = pageSize(call.query);
  const rest = names.filter((name) => name > after);
  const items = rest.slice(0, limit).map((name) => bucketResource(buckets, name, call.origin));
  return { kind: 'storage#buckets', items, ...nextPageField(rest.length > limit ? rest[limit - 1] : undefined) };
};

export const getBucket: Method = (stores, call) =>
  bucketResource(stores.buckets, requestedBucket(stores, call), call.origin);

export const removeBucket: Method = (stores, call) => {
  const bucket = requestedBucket(stores, call);
  try {
    stores.buckets.remove(bucket);
  } catch {
    throw storageErrors.bucketNotEmpty();
  }
  call.response.writeHead(204).end();
  return null;
};

export const storageLayout: Method = (stores, call) => {
  const bucket = requestedBucket(stores, call);
  const locationParts = locationFields(stores.buckets.location(bucket));
  return { kind: 'storage#storageLayout', bucket, hierarchicalNamespace: { enabled: false }, ...locationParts };
};

function requestedBucket({ buckets }: Stores, call: StorageCall): string {
  const bucket = call.part('bucket');
  if (!buckets.has(bucket)) throw storageErrors.bucketNotFound();
  return bucket;
}

/** Makes the file an object with checksums. Throws when the client sent other checksums. */
async function putObject(
  { objects }: Stores,
  upload: Omit<Upload, 'id'>,
  file: string,
  call: StorageCall,
): Promise<object> {
  const sums = await checksumsOf(file);
  const { about, preconditions, bucket, name } = upload;
  for (const which of ['crc32c', 'md5Hash'] as const) {
    const expected = about[which];
    if (expected !== undefined && expected !== sums[which]) {
      throw storageErrors.invalid(
        `Provided ${which} "${expected}" doesn't match calculated ${which} "${sums[which]}".`,
      );
    }
  }
  return objectResource(objects.put(bucket, name, file, { ...about, ...sums }, preconditions), call.origin);
}

export const upload: Method = async (stores, call) => {
  const { request, response, query, origin } = call;
  const { uploads } = stores;
  const bucket = call.part('bucket');
  const id = query.get('upload_id');
  if (id !== null) return continueUpload(stores, id, call);
  stores.finder.ensureBucket(bucket, call);
  const preconditions = preconditionsOf(query);
  switch (query.get('uploadType')) {
    case 'resumable': {
      const fields = await readJson(request);
      const about = withType(readAttributes(fields), header(request, 'x-upload-content-type'));
      const begun = uploads.begin({ bucket, name: requestedName(query, fields), about, preconditions });
      const location = `${origin}/upload/storage/v1/b/${bucket}/o?uploadType=resumable&upload_id=${begun.id}`;
      response.writeHead(200, { location, 'x-guploader-uploadid': begun.id, 'content-length': 0 }).end();
      return null;
    }
    case 'multipart': {
      const { about, type, bytes } = readMultipart(request.headers['content-type'] ?? '', await readBody(request));
      const fields = parseJson(about);
      const file = uploads.newFile();
      writeFileSync(file, bytes);
      return putObject(
        stores,
        { bucket, name: requestedName(query, fields), about: withType(readAttributes(fields), type), preconditions },
        file,
        call,
      );
    }
    case null:
    case 'media': {
      const about = withType({}, header(request, 'content-type'));
      const name = requestedName(query, {});
      return putObject(stores, { bucket, name, about, preconditions }, await uploads.saveBody(request), call);
    }
    default:
      throw storageErrors.invalid(`uploadType ${String(query.get('uploadType'))} is not supported.`);
  }
};

async function continueUpload(stores: Stores, id: string, call: StorageCall): Promise<Answer> {
  const { request, response } = call;
  const { uploads } = stores;
  const begun = uploads.find(id);
  if (request.method === 'DELETE') {
    uploads.discard(id);
    response.writeHead(499, { 'content-length': 0 }).end();
    return null;
  }
  if (!(await uploads.append(id, request))) {
    const arrived = uploads.receivedBytes(id);
    const range = arrived === 0 ? {} : { range: `bytes=0-${String(arrived - 1)}` };
    // Clients that cannot handle this use of 308 send the header.
    const isPlain = request.headers['x-guploader-no-308'] === 'yes';
    const status = isPlain ? { 'x-http-status-code-override': '308' } : {};
    response.writeHead(isPlain ? 200 : 308, { ...range, ...status, 'content-length': 0 }).end();
    return null;
  }
  try {
    return await putObject(stores, begun, uploads.file(id), call);
  } finally {
    uploads.discard(id);
  }
}

export interface Stores {
  readonly buckets: Buckets;
  readonly objects: Objects;
  readonly finder: Finder;
  readonly uploads: Uploads;
  readonly log: (line: string) => void;
}

export type Method = (stores: Stores, call: StorageCall) => Promise<Answer> | Answer;
