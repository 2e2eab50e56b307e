// Scope: what requests of every kind to one cluster share, and the paths that they ask for.

import type { ClusterQuery } from '../../app/cluster/cluster.ts';
import type { Instant } from '../../core/time.ts';
import type { ApiRequest } from './api.ts';
import type { ChannelsOf } from './channels.ts';
import type { RawJob } from './objects.ts';
import { isForbidden } from './status.ts';

/** One cluster and the namespace that its requests are about. */
export interface Scope extends ChannelsOf {
  readonly flavorKey: string;
  readonly now: () => Instant;
}

/** `/api/v1/namespaces/vision/pods`, or that of the whole cluster. */
export function pathOf(group: string, resource: string, namespace: string | undefined): string {
  return namespace === undefined
    ? `${group}/${resource}`
    : `${group}/namespaces/${encodeURIComponent(namespace)}/${resource}`;
}

/** The path of all objects of a kind that the query is about. */
export function pathFor(
  { place }: Scope,
  group: string,
  resource: string,
  { namespace, everywhere }: ClusterQuery,
): string {
  return pathOf(group, resource, everywhere === true ? undefined : (namespace ?? place.namespace));
}

/** The path of the Jobs of the scope's namespace. */
export function jobsPath({ place }: Scope): string {
  return pathOf('/apis/batch/v1', 'jobs', place.namespace);
}

/** The path of one of them. */
export function jobPath(scope: Scope, name: string): string {
  return `${jobsPath(scope)}/${encodeURIComponent(name)}`;
}

/** A Job as the cluster writes it; null if there is none. */
export function findJob(scope: Scope, name: string, signal?: AbortSignal): Promise<RawJob | null> {
  return scope.api.find<RawJob>({ path: jobPath(scope, name), what: `read the job ${name}`, signal });
}

/** Where the query looks, for messages: `of lab/vision`. */
export function whereText({ place }: Scope, { namespace, everywhere }: ClusterQuery): string {
  return everywhere === true
    ? `of all namespaces of ${place.context}`
    : `of ${place.context}/${namespace ?? place.namespace}`;
}

/** All pages of a list together. */
export async function listOf<R extends object, T>(
  { api }: Scope,
  request: ApiRequest,
  read: (raw: R) => T,
): Promise<readonly T[]> {
  const all: T[] = [];
  for await (const { items } of api.pages(request, read)) for (const item of items) all.push(item);
  return all;
}

/** The result of `ask`; `otherwise` if the right for it is missing. */
export async function unlessForbidden<T, U>(ask: () => Promise<T>, otherwise: U): Promise<T | U> {
  try {
    return await ask();
  } catch (error) {
    if (isForbidden(error)) return otherwise;
    throw error;
  }
}
