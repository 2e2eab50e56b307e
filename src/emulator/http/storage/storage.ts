/**
 * Cloud Storage as its clients know it: the JSON API (v1) for the buckets of this cloud, and reading by plain path as the
 * XML API has it. It answers at the emulator's own address and at every worker's metadata address, which is what a worker's
 * STORAGE_EMULATOR_HOST names: who asks there is in that worker's zone, and a bucket that is first used from there is
 * placed there. https://cloud.google.com/storage/docs/json_api/v1
 *
 * Nobody's rights are asked for, as elsewhere in this cloud. What is not played is refused with 501.
 */

import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { TrieRouter } from 'hono/router/trie-router';
import type { Buckets } from '../../world/buckets.ts';
import { isFlaky, replyDelay, standing, useUp } from '../../world/temper.ts';
import type { World } from '../../world/world.ts';
import { download } from './downloads.ts';
import { refusals, StorageError } from './errors.ts';
import {
  composeObject,
  copyObject,
  describeObject,
  getBucket,
  getObject,
  insertBucket,
  listBuckets,
  listObjects,
  moveObject,
  removeBucket,
  removeObject,
  rewriteObject,
  storageLayout,
  upload,
  type Method,
  type Stores,
} from './methods.ts';
import { createFinder, openNotes, openObjects } from './objects.ts';
import { isPlain, pathParts, reply, type PathPart } from './requests.ts';
import { openUploads } from './uploads.ts';

export interface StorageOptions {
  readonly buckets: Buckets;
  /** A folder on the disk of the buckets, for notes about objects and for what is under way. */
  readonly folder: string;
  readonly log: (line: string) => void;
  /** Faults between a client and Storage; without it there are none. */
  readonly weather?: StorageWeather;
}

/**
 * Answers a request if it is Storage's; false when it is not, and nothing was done. `zone` is where it comes from, if that
 * is known.
 */
export type Storage = (request: IncomingMessage, response: ServerResponse, zone?: string) => Promise<boolean>;

/** The first that matches answers. `ALL` is any HTTP method. */
const methods: readonly (readonly [method: string, path: string, answer: Method])[] = [
  ['POST', '/storage/v1/b', insertBucket],
  ['ALL', '/storage/v1/b', listBuckets],
  ['DELETE', '/storage/v1/b/:bucket', removeBucket],
  ['ALL', '/storage/v1/b/:bucket', getBucket],
  ['ALL', '/storage/v1/b/:bucket/storageLayout', storageLayout],
  ['POST', '/storage/v1/b/:bucket/o', upload],
  ['ALL', '/storage/v1/b/:bucket/o', listObjects],
  ['GET', '/storage/v1/b/:bucket/o/:name', getObject],
  ['HEAD', '/storage/v1/b/:bucket/o/:name', getObject],
  ['PATCH', '/storage/v1/b/:bucket/o/:name', describeObject],
  ['PUT', '/storage/v1/b/:bucket/o/:name', describeObject],
  ['DELETE', '/storage/v1/b/:bucket/o/:name', removeObject],
  ['POST', '/storage/v1/b/:bucket/o/:name/compose', composeObject],
  ['POST', '/storage/v1/b/:bucket/o/:name/copyTo/b/:toBucket/o/:toName', copyObject],
  ['POST', '/storage/v1/b/:bucket/o/:name/rewriteTo/b/:toBucket/o/:toName', rewriteObject],
  ['POST', '/storage/v1/b/:bucket/o/:name/moveTo/o/:toName', moveObject],
  ['ALL', '/upload/storage/v1/b/:bucket/o', upload],
  ['ALL', '/download/storage/v1/b/:bucket/o/:name', download],
  // By plain path; the rest of the XML API is not played.
  ['GET', '/:bucket/:name{.+}', download],
  ['HEAD', '/:bucket/:name{.+}', download],
];

const router = new TrieRouter<Method>();
for (const [method, path, answer] of methods) router.add(method, path, answer);

/** Finds the method of a request. Throws where there is none. */
function methodOf(method: string, pathname: string): { answer: Method; part: (name: PathPart) => string } {
  const path = pathname.replace(/^\/resumable\/upload/, '/upload').replace(/\/$/, '');
  const [[answer, parts] = []] = router.match(method, path)[0];
  if (answer === undefined) throw refusals.notPlayed(`${method} ${pathname}`);
  return { answer, part: (name) => decodeURIComponent(String(parts?.[name] ?? '')) };
}

export function createStorage({ buckets, folder, log, weather }: StorageOptions): Storage {
  const objects = openObjects(buckets, openNotes(join(folder, 'notes')));
  const finder = createFinder(buckets, objects);
  const stores: Stores = { buckets, objects, finder, uploads: openUploads(join(folder, 'uploads')), log };

  return async (request, response, zone) => {
    const { pathname, searchParams: query } = new URL(request.url ?? '/', 'http://storage');
    const path = pathParts(pathname);
    if (path === undefined || (isPlain(path) && !buckets.has(path[0] ?? ''))) return false;
    const origin = `http://${request.headers.host ?? 'storage'}`;
    try {
      await weather?.(wishOf(request.method, path, query, zone));
      const { answer, part } = methodOf(request.method ?? 'GET', pathname);
      const body = await answer(stores, { request, response, query, origin, part, zone });
      if (body === null) return true;
      reply(response, 200, body);
    } catch (error) {
      // The rest of a body would be read as the next request.
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

/** The right that a request needs: `storage.objects.get`. */
interface StorageWish {
  readonly permission: string;
  /** Where the worker is that asks; undefined for whoever asks from this machine. */
  readonly zone: string | undefined;
}

/** Waits, or throws a refusal, where the temper wants it. */
export type StorageWeather = (wish: StorageWish) => Promise<void>;

/** The weather of that world. */
export function storageWeather(world: World): StorageWeather {
  return async ({ permission, zone }) => {
    const delay = replyDelay(world, 'storage');
    if (delay > 0) await new Promise((resolve) => setTimeout(resolve, delay));
    const refusal = standing(world, 'permission').find(
      ({ target }) => target === permission || (target === 'login' && zone === undefined),
    );
    if (refusal !== undefined) {
      world.change(() => useUp(world, refusal));
      throw refusal.target === 'login' ? refusals.login() : refusals.forbidden(permission);
    }
    if (isFlaky(world, (target) => target === 'storage')) throw refusals.unavailable();
  };
}

/** The right that Google asks for, by method and path: https://cloud.google.com/storage/docs/access-control/iam-json */
function wishOf(
  method: string | undefined,
  path: readonly string[],
  query: URLSearchParams,
  zone: string | undefined,
): StorageWish {
  const isApi = path.length !== 2 || path[0] === 'storage';
  const [bucket, what, name, act] = isApi ? path.slice(path[0] === 'storage' ? 3 : 4) : [path[0], 'o', path[1]];
  if (what !== 'o') return { permission: `storage.buckets.${verbOf(method, bucket === undefined)}`, zone };
  // A copy, a composition and an upload make objects, and so does each part of an upload.
  const isMade = act !== undefined || path[0] === 'upload' || query.has('upload_id');
  return { permission: `storage.objects.${isMade ? 'create' : verbOf(method, name === undefined)}`, zone };
}

function verbOf(method: string | undefined, isCollection: boolean): string {
  switch (method) {
    case 'POST':
      return 'create';
    case 'PATCH':
    case 'PUT':
      return 'update';
    case 'DELETE':
      return 'delete';
    default:
      return isCollection ? 'list' : 'get';
  }
}
