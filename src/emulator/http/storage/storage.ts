/**
 * Cloud Storage: the JSON API (v1, https://cloud.google.com/storage/docs/json_api/v1) and downloads by plain path as in
 * the XML API. It also answers at every worker's metadata address, the worker's STORAGE_EMULATOR_HOST. There the first
 * use of a bucket sets its location to the region of the worker's zone.
 *
 * No permissions are checked unless a fault condition says so. Unsupported methods get 501.
 */

import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { TrieRouter } from 'hono/router/trie-router';
import type { Buckets } from '../../world/buckets.ts';
import { isFlaky, replyDelay, conditionsOf, countUse } from '../../world/faults.ts';
import type { World } from '../../world/world.ts';
import { download } from './downloads.ts';
import { storageErrors, StorageError } from './errors.ts';
import {
  composeObject,
  copyObject,
  updateObject,
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
import { isPlainPath, pathParts, sendJson, type PathPart } from './requests.ts';
import { openUploads } from './uploads.ts';

export interface StorageOptions {
  readonly buckets: Buckets;
  /** A folder for notes about objects and for uploads, on the same disk as the buckets. */
  readonly folder: string;
  readonly log: (line: string) => void;
  readonly checkFaults?: StorageFaultCheck;
}

/** Returns false, without an effect, for a request that is not for Storage. `zone` is that of the calling worker. */
export type Storage = (request: IncomingMessage, response: ServerResponse, zone?: string) => Promise<boolean>;

/** The first match answers. `ALL` means any HTTP method. */
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
  ['PATCH', '/storage/v1/b/:bucket/o/:name', updateObject],
  ['PUT', '/storage/v1/b/:bucket/o/:name', updateObject],
  ['DELETE', '/storage/v1/b/:bucket/o/:name', removeObject],
  ['POST', '/storage/v1/b/:bucket/o/:name/compose', composeObject],
  ['POST', '/storage/v1/b/:bucket/o/:name/copyTo/b/:toBucket/o/:toName', copyObject],
  ['POST', '/storage/v1/b/:bucket/o/:name/rewriteTo/b/:toBucket/o/:toName', rewriteObject],
  ['POST', '/storage/v1/b/:bucket/o/:name/moveTo/o/:toName', moveObject],
  ['ALL', '/upload/storage/v1/b/:bucket/o', upload],
  ['ALL', '/download/storage/v1/b/:bucket/o/:name', download],
  // Plain paths; the rest of the XML API is not supported.
  ['GET', '/:bucket/:name{.+}', download],
  ['HEAD', '/:bucket/:name{.+}', download],
];

const router = new TrieRouter<Method>();
for (const [method, path, answer] of methods) router.add(method, path, answer);

function methodOf(method: string, pathname: string): { answer: Method; part: (name: PathPart) => string } {
  const path = pathname.replace(/^\/resumable\/upload/, '/upload').replace(/\/$/, '');
  const [[answer, parts] = []] = router.match(method, path)[0];
  if (answer === undefined) throw storageErrors.notImplemented(`${method} ${pathname}`);
  return { answer, part: (name) => decodeURIComponent(String(parts?.[name] ?? '')) };
}

export function createStorage({ buckets, folder, log, checkFaults }: StorageOptions): Storage {
  const objects = openObjects(buckets, openNotes(join(folder, 'notes')));
  const finder = createFinder(buckets, objects);
  const stores: Stores = { buckets, objects, finder, uploads: openUploads(join(folder, 'uploads')), log };

  return async (request, response, zone) => {
    const { pathname, searchParams: query } = new URL(request.url ?? '/', 'http://storage');
    const path = pathParts(pathname);
    if (path === undefined || (isPlainPath(path) && !buckets.has(path[0] ?? ''))) return false;
    const origin = `http://${request.headers.host ?? 'storage'}`;
    try {
      await checkFaults?.(accessOf(request.method, path, query, zone));
      const { answer, part } = methodOf(request.method ?? 'GET', pathname);
      const body = await answer(stores, { request, response, query, origin, part, zone });
      if (body === null) return true;
      sendJson(response, 200, body);
    } catch (error) {
      // Otherwise the rest of the body would be read as the next request.
      request.resume();
      if (response.headersSent) {
        response.destroy();
      } else if (error instanceof StorageError && error.code === 304) {
        response.writeHead(304).end();
      } else if (error instanceof StorageError) {
        sendJson(response, error.code, error.body());
      } else {
        log(
          `the emulator's Storage has a bug: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`,
        );
        sendJson(response, 500, new StorageError(500, 'backendError', 'Internal error').body());
      }
    }
    return true;
  };
}

interface StorageAccess {
  readonly permission: string;
  /** The zone of the calling worker; undefined for a client on this machine. */
  readonly zone: string | undefined;
}

/** Delays or refuses a request according to the fault conditions. */
export type StorageFaultCheck = (access: StorageAccess) => Promise<void>;

export function createStorageFaultCheck(world: World): StorageFaultCheck {
  return async ({ permission, zone }) => {
    const delay = replyDelay(world, 'storage');
    if (delay > 0) await new Promise((resolve) => setTimeout(resolve, delay));
    const refusal = conditionsOf(world, 'permission').find(
      ({ target }) => target === permission || (target === 'login' && zone === undefined),
    );
    if (refusal !== undefined) {
      world.change(() => countUse(world, refusal));
      throw refusal.target === 'login' ? storageErrors.unauthenticated() : storageErrors.forbidden(permission);
    }
    if (isFlaky(world, (target) => target === 'storage')) throw storageErrors.unavailable();
  };
}

/** The permission that Google requires: https://cloud.google.com/storage/docs/access-control/iam-json */
function accessOf(
  method: string | undefined,
  path: readonly string[],
  query: URLSearchParams,
  zone: string | undefined,
): StorageAccess {
  const isApi = path.length !== 2 || path[0] === 'storage';
  const [bucket, what, name, act] = isApi ? path.slice(path[0] === 'storage' ? 3 : 4) : [path[0], 'o', path[1]];
  if (what !== 'o') return { permission: `storage.buckets.${verbOf(method, bucket === undefined)}`, zone };
  // Copies, compositions, uploads and their parts create objects.
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
