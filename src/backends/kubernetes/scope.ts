// The parts that all requests to one cluster share, and the paths of its resources.

import type { ClusterQuery } from '../../app/cluster/cluster.ts';
import type { Instant } from '../../core/model/time.ts';
import type { ApiRequest } from './api.ts';
import type { ClusterAccess } from './channels.ts';
import type { RawJob } from './objects.ts';
import { isForbidden } from './status.ts';

export interface RequestScope extends ClusterAccess {
  readonly flavorKey: string;
  readonly now: () => Instant;
}

/** `/api/v1/namespaces/vision/pods`; without a namespace, the path for the whole cluster. */
export function pathOf(group: string, resource: string, namespace: string | undefined): string {
  return namespace === undefined
    ? `${group}/${resource}`
    : `${group}/namespaces/${encodeURIComponent(namespace)}/${resource}`;
}

export function pathForQuery(
  { clusterContext }: RequestScope,
  group: string,
  resource: string,
  { namespace, allNamespaces }: ClusterQuery,
): string {
  return pathOf(group, resource, allNamespaces === true ? undefined : (namespace ?? clusterContext.namespace));
}

export function jobsPath({ clusterContext }: RequestScope): string {
  return pathOf('/apis/batch/v1', 'jobs', clusterContext.namespace);
}

export function jobPath(scope: RequestScope, name: string): string {
  return `${jobsPath(scope)}/${encodeURIComponent(name)}`;
}

export function findJob(scope: RequestScope, name: string, signal?: AbortSignal): Promise<RawJob | null> {
  return scope.api.findObject<RawJob>({ path: jobPath(scope, name), purpose: `read the job ${name}`, signal });
}

/** The scope of a query for messages: `of lab/vision`. */
export function formatScope({ clusterContext }: RequestScope, { namespace, allNamespaces }: ClusterQuery): string {
  return allNamespaces === true
    ? `of all namespaces of ${clusterContext.context}`
    : `of ${clusterContext.context}/${namespace ?? clusterContext.namespace}`;
}

export async function listAll<R extends object, T>(
  { api }: RequestScope,
  request: ApiRequest,
  read: (raw: R) => T,
): Promise<readonly T[]> {
  const all: T[] = [];
  for await (const { items } of api.listPages(request, read)) for (const item of items) all.push(item);
  return all;
}

/** The result of `request`, or `fallback` if the cluster answers 403. */
export async function unlessForbidden<T, U>(request: () => Promise<T>, fallback: U): Promise<T | U> {
  try {
    return await request();
  } catch (error) {
    if (isForbidden(error)) return fallback;
    throw error;
  }
}
