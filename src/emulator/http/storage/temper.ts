/**
 * The temper at Storage: verbs strike it where they name it (`flaky storage`, `slow storage --replies 2s`,
 * `permission storage.objects.get`). A login that has expired is that of this machine's user; workers have an account of
 * their own.
 */
import { isFlaky, replyDelay, standing, useUp } from '../../world/temper.ts';
import type { World } from '../../world/world.ts';
import { refusals } from './errors.ts';

/** The right that a request needs: `storage.objects.get`. */
export interface StorageWish {
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
export function wishOf(
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
