/**
 * Cloud Storage as its clients know it: the JSON API (v1) for the buckets of this cloud, and reading by plain path as the
 * XML API has it. It answers at the emulator's own address and at every worker's metadata address, which is what a worker's
 * STORAGE_EMULATOR_HOST names: who asks there is in that worker's zone, and a bucket that is first used from there is
 * placed there. https://cloud.google.com/storage/docs/json_api/v1
 *
 * Nobody's rights are asked for, as elsewhere in this cloud. What is not played is refused with 501.
 */
import { join } from 'node:path';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { bucketPattern, readLocation, type Buckets } from '../world/buckets.ts';
import { refusals, StorageError } from './storage-errors.ts';
import { createFinder } from './storage-find.ts';
import { checkPreconditions, checkRead, openObjects } from './storage-objects.ts';
import {
  isPlain,
  jsonOf,
  nextPage,
  pageSize,
  pageStart,
  pathParts,
  preconditionsOf,
  reply,
} from './storage-requests.ts';
import type { Answer, StorageCall } from './storage-requests.ts';
import { bucketResource, merged, objectResource, placeFields } from './storage-resources.ts';
import { type StorageWeather, wishOf } from './storage-temper.ts';
import { openTransfers } from './storage-transfers.ts';

export interface StorageOptions {
  readonly buckets: Buckets;
  /** A folder on the disk of the buckets, for notes about objects and for what is under way. */
  readonly folder: string;
  readonly log: (line: string) => void;
  /** What stands between a client and Storage; without it nothing does. */
  readonly weather?: StorageWeather;
}

/**
 * Answers a request if it is Storage's; false when it is not, and nothing was done. `zone` is where it comes from, if that
 * is known.
 */
export type Storage = (request: IncomingMessage, response: ServerResponse, zone?: string) => Promise<boolean>;

export function createStorage({ buckets, folder, log, weather }: StorageOptions): Storage {
  const objects = openObjects(buckets, join(folder, 'notes'));
  const { need, needObject, makeByUse } = createFinder(buckets, objects);
  const { upload, download, copy, compose } = openTransfers(objects, { need, needObject, makeByUse }, folder);

  function insertBucket(body: Readonly<Record<string, unknown>>, call: StorageCall): Answer {
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
    return bucketResource(buckets, name, call.origin);
  }

  function listBuckets(call: StorageCall): Answer {
    const prefix = call.query.get('prefix') ?? '';
    const names = buckets.names().filter((name) => name.startsWith(prefix));
    const after = pageStart(call.query);
    const most = pageSize(call.query);
    const rest = names.filter((name) => name > after);
    const items = rest.slice(0, most).map((name) => bucketResource(buckets, name, call.origin));
    return { kind: 'storage#buckets', items, ...nextPage(rest.length > most ? rest[most - 1] : undefined) };
  }

  function listObjects(bucket: string, call: StorageCall): Answer {
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
      ...(items.length === 0 ? {} : { items: items.map((item) => objectResource(item, call.origin)) }),
      ...nextPage(next),
    };
  }

  async function oneObject(bucket: string, name: string, call: StorageCall): Promise<Answer> {
    const { request, response, query } = call;
    switch (request.method) {
      case 'GET':
      case 'HEAD': {
        if (query.get('alt') === 'media') return download(bucket, name, call);
        const found = needObject(bucket, name, call);
        checkRead(found, preconditionsOf(query), request.headers);
        return objectResource(found, call.origin);
      }
      case 'PATCH':
      case 'PUT': {
        const said = await jsonOf(request);
        const found = needObject(bucket, name, call);
        checkPreconditions(found, preconditionsOf(query));
        const { crc32c, md5Hash } = found.about;
        const before = request.method === 'PATCH' ? found.about : {};
        const about = { ...merged(before, said), ...(crc32c && { crc32c }), ...(md5Hash && { md5Hash }) };
        return objectResource(objects.describe(found, about), call.origin);
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
  async function json(path: readonly string[], call: StorageCall): Promise<Answer> {
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
      return bucketResource(buckets, bucket, call.origin);
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

  async function answer(call: StorageCall, path: readonly string[]): Promise<Answer> {
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
      await weather?.(wishOf(request.method, path, query, zone));
      const body = await answer({ request, response, query, origin, zone }, path);
      if (body === null) return true;
      reply(response, 200, body);
    } catch (error) {
      // What is left of a body that nobody wants would be read as the next request.
      request.resume();
      if (response.headersSent) {
        response.destroy();
      } else if (error instanceof StorageError && error.code === 304) {
        response.writeHead(304).end();
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
