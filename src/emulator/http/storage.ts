/**
 * Cloud Storage as its clients know it: the JSON API (v1) for the buckets of this cloud, and reading by plain path as the
 * XML API has it. It answers at the emulator's own address and at every worker's metadata address, which is what a worker's
 * STORAGE_EMULATOR_HOST names: who asks there is in that worker's zone, and a bucket that is first used from there is
 * placed there. https://cloud.google.com/storage/docs/json_api/v1
 *
 * Nobody's rights are asked for, as elsewhere in this cloud. What is not played is refused with 501.
 */
import { closeSync, createReadStream, createWriteStream, fstatSync, openSync, writeFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { BucketPlace, Buckets } from '../world/buckets.ts';
import { bucketPattern, placeInZone, readLocation } from '../world/buckets.ts';
import { checksumsOf } from './storage-checksums.ts';
import { refusals, StorageError } from './storage-errors.ts';
import { checkPreconditions, openObjects } from './storage-objects.ts';
import type { ObjectAbout, Preconditions, StoredObject } from './storage-objects.ts';
import { bodyOf, openUploads, readMultipart } from './storage-uploads.ts';

export interface StorageOptions {
  readonly buckets: Buckets;
  /** A folder on the disk of the buckets, for notes about objects and for what is under way. */
  readonly folder: string;
  readonly log: (line: string) => void;
}

/**
 * Answers a request if it is Storage's; false when it is not, and nothing was done. `zone` is where it comes from, if that
 * is known.
 */
export type Storage = (request: IncomingMessage, response: ServerResponse, zone?: string) => Promise<boolean>;

/** One request, taken apart. */
interface Call {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly query: URLSearchParams;
  /** `http://host:port`, as the client has written it. */
  readonly origin: string;
  readonly zone: string | undefined;
}

/** What is answered as JSON; null: an answer was given. */
type Answer = object | null;

export function createStorage({ buckets, folder, log }: StorageOptions): Storage {
  const objects = openObjects(buckets, join(folder, 'notes'));
  const uploads = openUploads(join(folder, 'uploads'));

  /** The place that a bucket gets which is first used by this call. */
  const placeFor = ({ zone }: Call): BucketPlace | undefined => (zone === undefined ? undefined : placeInZone(zone));

  /** A bucket must exist to be looked at; a worker that looks at one uses it. */
  function need(bucket: string, call: Call): void {
    if (call.zone !== undefined && bucketPattern.test(bucket)) buckets.use(bucket, placeFor(call));
    if (!buckets.has(bucket)) throw refusals.noBucket();
  }

  /** Whoever writes into a bucket makes it. */
  function makeByUse(bucket: string, call: Call): void {
    if (!bucketPattern.test(bucket)) throw refusals.invalid(`Invalid bucket name: '${bucket}'`);
    buckets.use(bucket, placeFor(call));
  }

  function needObject(
    bucket: string,
    name: string,
    call: Call,
    generation = call.query.get('generation'),
  ): StoredObject {
    need(bucket, call);
    const found = objects.find(bucket, name);
    if (found === undefined || (generation !== null && generation !== found.generation)) {
      throw refusals.noObject(bucket, name);
    }
    return found;
  }

  function bucketResource(bucket: string, { origin }: Call): object {
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

  function placeFields(place: BucketPlace | undefined): object {
    if (place === undefined) return {};
    const { location, locationType, dataLocations } = place;
    return {
      location,
      locationType,
      ...(dataLocations === undefined ? {} : { customPlacementConfig: { dataLocations } }),
    };
  }

  function insertBucket(body: Readonly<Record<string, unknown>>, call: Call): Answer {
    const {
      name,
      location,
      customPlacementConfig: placement,
    } = body as {
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
    return bucketResource(name, call);
  }

  function listBuckets(call: Call): Answer {
    const prefix = call.query.get('prefix') ?? '';
    const names = buckets.names().filter((name) => name.startsWith(prefix));
    const after = pageStart(call.query);
    const most = pageSize(call.query);
    const rest = names.filter((name) => name > after);
    const items = rest.slice(0, most).map((name) => bucketResource(name, call));
    return { kind: 'storage#buckets', items, ...nextPage(rest.length > most ? rest[most - 1] : undefined) };
  }

  function listObjects(bucket: string, call: Call): Answer {
    need(bucket, call);
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
      ...(items.length === 0 ? {} : { items: items.map((item) => objectResource(item, call)) }),
      ...nextPage(next),
    };
  }

  /** The file becomes the object, with its checksums. */
  async function put(upload: Upload, file: string, call: Call): Promise<Answer> {
    const sums = await checksumsOf(file);
    const { about, only, bucket, name } = upload;
    for (const which of ['crc32c', 'md5Hash'] as const) {
      const said = about[which];
      if (said !== undefined && said !== sums[which]) {
        throw refusals.invalid(`Provided ${which} "${said}" doesn't match calculated ${which} "${sums[which]}".`);
      }
    }
    return objectResource(objects.put(bucket, name, file, { ...about, ...sums }, only), call);
  }

  async function upload(bucket: string, call: Call): Promise<Answer> {
    const { request, response, query, origin } = call;
    const id = query.get('upload_id');
    if (id !== null) return goOn(id, call);
    makeByUse(bucket, call);
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
        return put({ bucket, name: nameOf(query, said), about: withType(aboutOf(said), type), only }, file, call);
      }
      case null:
      case 'media': {
        const about = withType({}, header(request, 'content-type'));
        const name = nameOf(query, {});
        return put({ bucket, name, about, only }, await uploads.take(request), call);
      }
      default:
        throw refusals.invalid(`uploadType ${String(query.get('uploadType'))} is none.`);
    }
  }

  async function goOn(id: string, call: Call): Promise<Answer> {
    const { request, response } = call;
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
      return await put(begun, uploads.file(id), call);
    } finally {
      uploads.end(id);
    }
  }

  async function download(bucket: string, name: string, call: Call): Promise<Answer> {
    const { request, response, query } = call;
    const found = needObject(bucket, name, call);
    checkPreconditions(found, preconditionsOf(query));
    // What is open stays readable, whatever becomes of its name.
    const descriptor = openSync(found.size === 0 && name.endsWith('/') ? '/dev/null' : found.path, 'r');
    let isHandedOn = false;
    try {
      const size = fstatSync(descriptor).size;
      const range = readRange(request.headers.range, size);
      const [from, to] = range ?? [0, size - 1];
      const { crc32c, md5Hash, contentType, contentEncoding, cacheControl } = found.about;
      const hashes = [crc32c === undefined ? '' : `crc32c=${crc32c}`, md5Hash === undefined ? '' : `md5=${md5Hash}`];
      response.writeHead(range === undefined ? 200 : 206, {
        'content-type': contentType ?? 'application/octet-stream',
        'content-length': to - from + 1,
        'accept-ranges': 'bytes',
        'last-modified': new Date(found.updatedAt).toUTCString(),
        etag: etagOf(found),
        'x-goog-generation': found.generation,
        'x-goog-metageneration': String(found.metageneration),
        'x-goog-stored-content-length': String(size),
        'x-goog-stored-content-encoding': contentEncoding ?? 'identity',
        ...(range === undefined ? {} : { 'content-range': `bytes ${String(from)}-${String(to)}/${String(size)}` }),
        ...(contentEncoding === undefined ? {} : { 'content-encoding': contentEncoding }),
        ...(cacheControl === undefined ? {} : { 'cache-control': cacheControl }),
        ...(crc32c === undefined && md5Hash === undefined
          ? {}
          : { 'x-goog-hash': hashes.filter((hash) => hash !== '').join(',') }),
      });
      if (request.method === 'HEAD' || to < from) {
        response.end();
        return null;
      }
      isHandedOn = true;
      // A reader that goes away in the middle is no mistake of ours.
      await pipeline(createReadStream('', { fd: descriptor, start: from, end: to }), response).catch(() => undefined);
      return null;
    } finally {
      if (!isHandedOn) closeSync(descriptor);
    }
  }

  /** A new file with the bytes of all of these, one behind the other. */
  async function joined(sources: readonly StoredObject[]): Promise<string> {
    const file = uploads.fresh();
    writeFileSync(file, '');
    for (const source of sources) {
      if (source.name.endsWith('/')) continue;
      await pipeline(createReadStream(source.path), createWriteStream(file, { flags: 'a' }));
    }
    return file;
  }

  async function copy(from: StoredObject, to: { bucket: string; name: string }, call: Call): Promise<Answer> {
    makeByUse(to.bucket, call);
    const said = aboutOf(await jsonOf(call.request));
    const { crc32c: _sum, md5Hash: _hash, ...about } = from.about;
    const file = await joined([from]);
    return put({ ...to, about: { ...about, ...said }, only: preconditionsOf(call.query) }, file, call);
  }

  async function compose(bucket: string, name: string, call: Call): Promise<Answer> {
    makeByUse(bucket, call);
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
      return needObject(bucket, source.name ?? '', call, generation);
    });
    if (sources.length === 0 || sources.length > 32) throw refusals.invalid('1 to 32 objects are composed at once.');
    const about = { ...aboutOf(said.destination ?? {}), componentCount: sources.length };
    return put({ bucket, name, about, only: preconditionsOf(call.query) }, await joined(sources), call);
  }

  async function oneObject(bucket: string, name: string, call: Call): Promise<Answer> {
    const { request, response, query } = call;
    switch (request.method) {
      case 'GET':
      case 'HEAD': {
        if (query.get('alt') === 'media') return download(bucket, name, call);
        const found = needObject(bucket, name, call);
        checkPreconditions(found, preconditionsOf(query));
        return objectResource(found, call);
      }
      case 'PATCH':
      case 'PUT': {
        const said = await jsonOf(request);
        const found = needObject(bucket, name, call);
        checkPreconditions(found, preconditionsOf(query));
        const { crc32c, md5Hash } = found.about;
        const before = request.method === 'PATCH' ? found.about : {};
        const about = { ...merged(before, said), ...(crc32c && { crc32c }), ...(md5Hash && { md5Hash }) };
        return objectResource(objects.describe(found, about), call);
      }
      case 'DELETE': {
        const found = needObject(bucket, name, call);
        checkPreconditions(found, preconditionsOf(query));
        objects.remove(found);
        response.writeHead(204).end();
        return null;
      }
      default:
        throw refusals.notPlayed(`${String(request.method)} of an object`);
    }
  }

  /** What stands behind `/storage/v1/b`. */
  async function json(path: readonly string[], call: Call): Promise<Answer> {
    const { request, response } = call;
    const { method } = request;
    const [bucket, what, name, act, ...more] = path;
    if (bucket === undefined) {
      if (method === 'POST') return insertBucket(await jsonOf(request), call);
      return listBuckets(call);
    }
    if (what === undefined) {
      if (method === 'DELETE') {
        if (!buckets.has(bucket)) throw refusals.noBucket();
        try {
          buckets.remove(bucket);
        } catch {
          throw refusals.notEmpty();
        }
        response.writeHead(204).end();
        return null;
      }
      if (!buckets.has(bucket)) throw refusals.noBucket();
      return bucketResource(bucket, call);
    }
    if (what === 'storageLayout' && name === undefined) {
      if (!buckets.has(bucket)) throw refusals.noBucket();
      const place = placeFields(buckets.place(bucket));
      return { kind: 'storage#storageLayout', bucket, hierarchicalNamespace: { enabled: false }, ...place };
    }
    if (what !== 'o') throw refusals.notPlayed(`${what} of a bucket`);
    if (name === undefined) return method === 'POST' ? upload(bucket, call) : listObjects(bucket, call);
    if (act === undefined) return oneObject(bucket, name, call);
    if (method !== 'POST') throw refusals.notPlayed(`${act} of an object`);
    if (act === 'compose' && more.length === 0) return compose(bucket, name, call);
    const generation = call.query.get('sourceGeneration') ?? call.query.get('ifSourceGenerationMatch');
    if ((act === 'copyTo' || act === 'rewriteTo') && more[0] === 'b' && more[2] === 'o') {
      const source = needObject(bucket, name, call, generation);
      const made = await copy(source, { bucket: more[1] ?? '', name: more[3] ?? '' }, call);
      if (act === 'copyTo') return made;
      const size = String(source.size);
      return {
        kind: 'storage#rewriteResponse',
        totalBytesRewritten: size,
        objectSize: size,
        done: true,
        resource: made,
      };
    }
    if (act === 'moveTo' && more[0] === 'o') {
      const source = needObject(bucket, name, call, generation);
      const made = await copy(source, { bucket, name: more[1] ?? '' }, call);
      objects.remove(source);
      return made;
    }
    throw refusals.notPlayed(`${act} of an object`);
  }

  async function answer(call: Call, path: readonly string[]): Promise<Answer> {
    const [first, second] = path;
    if (first === 'storage') return json(path.slice(3), call);
    if (first === 'upload' || first === 'resumable') return upload(path[4] ?? '', call);
    if (first === 'download') return download(path[4] ?? '', path[6] ?? '', call);
    // By plain path; the rest of the XML API is not played.
    if (call.request.method !== 'GET' && call.request.method !== 'HEAD') throw refusals.notPlayed('the XML API');
    return download(first ?? '', second ?? '', call);
  }

  return async (request, response, zone) => {
    const { pathname, searchParams: query } = new URL(request.url ?? '/', 'http://storage');
    const path = pathParts(pathname);
    if (path === undefined || (isPlain(path) && !buckets.has(path[0] ?? ''))) return false;
    const origin = `http://${request.headers.host ?? 'storage'}`;
    try {
      const body = await answer({ request, response, query, origin, zone }, path);
      if (body === null) return true;
      reply(response, 200, body);
    } catch (error) {
      // What is left of a body that nobody wants would be read as the next request.
      request.resume();
      if (response.headersSent) {
        response.destroy();
      } else if (error instanceof StorageError) {
        reply(response, error.code, error.body());
      } else {
        log(
          `mistake of the emulator's Storage: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`,
        );
        reply(response, 500, new StorageError(500, 'backendError', 'Internal error').body());
      }
    }
    return true;
  };
}

type Upload = Parameters<ReturnType<typeof openUploads>['begin']>[0];

/**
 * The parts of a path that is Storage's, decoded; undefined for any other. The name of an object is one part, in the JSON
 * API because its slashes are written as %2F, by plain path because it is all the rest.
 */
function pathParts(pathname: string): readonly string[] | undefined {
  try {
    if (/^\/(storage|upload\/storage|download\/storage|resumable\/upload\/storage)\/v1\/b(\/|$)/.test(pathname)) {
      return pathname
        .replace(/^\/resumable\/upload/, '/upload')
        .replace(/\/$/, '')
        .split('/')
        .slice(1)
        .map(decodeURIComponent);
    }
    const [, bucket, name] = /^\/([^/]+)\/(.+)$/.exec(pathname) ?? [];
    return bucket === undefined || name === undefined || !bucketPattern.test(bucket)
      ? undefined
      : [bucket, decodeURIComponent(name)];
  } catch {
    return undefined;
  }
}

function isPlain(path: readonly string[]): boolean {
  return path.length === 2 && path[0] !== 'storage';
}

function objectResource(object: StoredObject, { origin }: Call): object {
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

function etagOf({ generation, metageneration }: StoredObject): string {
  return Buffer.from(`${generation}/${String(metageneration)}`).toString('base64');
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

function aboutOf(said: Readonly<Record<string, unknown>>): ObjectAbout {
  return merged({}, said);
}

/** What stands, with what is said now; null takes a field away, and so it does a key of the metadata. */
function merged(before: ObjectAbout, said: Readonly<Record<string, unknown>>): ObjectAbout {
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

function withType(about: ObjectAbout, contentType: string | undefined): ObjectAbout {
  return about.contentType !== undefined || contentType === undefined ? about : { ...about, contentType };
}

function nameOf(query: URLSearchParams, said: Readonly<Record<string, unknown>>): string {
  const name = query.get('name') ?? said['name'];
  if (typeof name === 'string' && name !== '') return name;
  throw refusals.invalid('An object needs a name.');
}

function preconditionsOf(query: URLSearchParams): Preconditions {
  return {
    ifGenerationMatch: query.get('ifGenerationMatch') ?? undefined,
    ifGenerationNotMatch: query.get('ifGenerationNotMatch') ?? undefined,
    ifMetagenerationMatch: query.get('ifMetagenerationMatch') ?? undefined,
    ifMetagenerationNotMatch: query.get('ifMetagenerationNotMatch') ?? undefined,
  };
}

function header(request: IncomingMessage, name: string): string | undefined {
  const value = request.headers[name];
  return typeof value === 'string' ? value : undefined;
}

/** `bytes=0-9`, `bytes=5-`, `bytes=-3`: the first and the last byte; undefined for all. Throws where there is none of them. */
function readRange(text: string | undefined, size: number): readonly [from: number, to: number] | undefined {
  const [range, first = '', last = ''] = /^bytes=(\d*)-(\d*)$/.exec(text ?? '') ?? [];
  if (range === undefined || (first === '' && last === '')) return undefined;
  const from = first === '' ? Math.max(0, size - Number(last)) : Number(first);
  const to = first === '' || last === '' ? size - 1 : Math.min(Number(last), size - 1);
  if (from >= size || to < from) throw refusals.badRange();
  return [from, to];
}

const pageMost = 1_000;

function pageSize(query: URLSearchParams): number {
  const asked = Number(query.get('maxResults') ?? pageMost);
  return Number.isInteger(asked) && asked > 0 ? Math.min(asked, pageMost) : pageMost;
}

function pageStart(query: URLSearchParams): string {
  return Buffer.from(query.get('pageToken') ?? '', 'base64url').toString('utf8');
}

function nextPage(last: string | undefined): object {
  return last === undefined ? {} : { nextPageToken: Buffer.from(last).toString('base64url') };
}

async function jsonOf(request: IncomingMessage): Promise<Readonly<Record<string, unknown>>> {
  return parseJson(await bodyOf(request));
}

function parseJson(bytes: Buffer): Readonly<Record<string, unknown>> {
  const text = bytes.toString('utf8').trim();
  if (text === '') return {};
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // Said below.
  }
  throw refusals.invalid('Parse Error');
}

function reply(response: ServerResponse, status: number, body: object): void {
  const text = JSON.stringify(body);
  response.writeHead(status, {
    'content-type': 'application/json; charset=UTF-8',
    'content-length': Buffer.byteLength(text),
  });
  response.end(text);
}
