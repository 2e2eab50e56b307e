// Jobs: the requests about Jobs, apart from creating and removing one.

import type { V1Job } from '@kubernetes/client-node';
import type { Cluster } from '../../app/cluster/cluster.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import type { ApiRequest } from './api.ts';
import { createJob } from './create-job.ts';
import { readJob, type RawJob } from './objects.ts';
import { removeJob } from './remove-job.ts';
import { findJob, jobPath, pathFor, unlessForbidden, whereText, type Scope } from './scope.ts';
import { watchAll } from './watch.ts';

const group = '/apis/batch/v1';

/** The part of Cluster that is about Jobs. */
export function jobRequests(
  scope: Scope,
): Pick<Cluster, 'jobs' | 'job' | 'raw' | 'create' | 'patch' | 'remove' | 'watchJobs'> {
  const { api, place, flavorKey } = scope;
  const read = (raw: RawJob) => readJob(raw, flavorKey);
  return {
    async *jobs(query) {
      let isEmpty = true;
      const request: ApiRequest = {
        path: pathFor(scope, group, 'jobs', query),
        query: { labelSelector: query.labels, fieldSelector: query.fields },
        signal: query.signal,
        what: `list the jobs ${whereText(scope, query)}`,
      };
      for await (const { items } of api.pages(request, read)) {
        isEmpty &&= items.length === 0;
        yield items;
      }
      // A namespace that does not exist answers as an empty one does.
      if (isEmpty && query.everywhere !== true) {
        await expectNamespace(scope, query.namespace ?? place.namespace, query.signal);
      }
    },

    async job(name) {
      const raw = await findJob(scope, name);
      return raw === null ? null : api.readAs({ what: `read the job ${name}` }, () => read(raw));
    },

    raw: (name) => findJob(scope, name) as Promise<V1Job | null>,

    create: (job, options) => createJob(scope, job, options),

    async patch(name, change) {
      await api.ask({
        method: 'PATCH',
        path: jobPath(scope, name),
        body: change,
        type: 'application/merge-patch+json',
        what: `change the job ${name}`,
      });
    },

    remove: (name, { signal } = {}) => removeJob(scope, name, signal),

    watchJobs: (query) =>
      watchAll(api, {
        path: pathFor(scope, group, 'jobs', query),
        query,
        what: `watch the jobs ${whereText(scope, query)}`,
        read,
      }),
  };
}

/** Throws JobmanError (not found) for a namespace that does not exist; does nothing where that may not be asked. */
async function expectNamespace(
  { api, place }: Scope,
  namespace: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}`;
  const request = { path, signal, what: `read the namespace ${namespace}` };
  if ((await unlessForbidden(() => api.find(request), undefined)) !== null) return;
  throw new JobmanError(`There is no namespace ${namespace} in ${place.context}.`, exitCode.notFound);
}
