// Requests about Jobs. A lost reply does not create a second Job, and a removal is reported only after it is confirmed.

import type { V1Job } from '@kubernetes/client-node';
import type { Cluster, ClusterRemoval } from '../../app/cluster/cluster.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import type { ApiRequest } from './api.ts';
import { type RawJob, readJob } from './objects.ts';
import {
  findJob,
  jobPath,
  jobsPath,
  pathForQuery,
  pathOf,
  type RequestScope,
  unlessForbidden,
  formatScope,
} from './scope.ts';
import { watchAll } from './watch.ts';
import { clusterLabels } from '../../app/cluster/job-object.ts';
import { formatAge } from '../../app/format.ts';
import { type Duration, type Instant, second } from '../../core/model/time.ts';
import { NoReply } from '../../http/reply.ts';
import { ClusterRefusal } from './status.ts';
import { setTimeout as sleep } from 'node:timers/promises';

const group = '/apis/batch/v1';

export function jobRequests(
  scope: RequestScope,
): Pick<Cluster, 'jobs' | 'job' | 'raw' | 'create' | 'patch' | 'remove' | 'watchJobs'> {
  const { api, clusterContext, flavorKey } = scope;
  const read = (raw: RawJob) => readJob(raw, flavorKey);
  return {
    async *jobs(query) {
      let isEmpty = true;
      const request: ApiRequest = {
        path: pathForQuery(scope, group, 'jobs', query),
        query: { labelSelector: query.labels, fieldSelector: query.fields },
        signal: query.signal,
        purpose: `list the jobs ${formatScope(scope, query)}`,
      };
      for await (const { items } of api.listPages(request, read)) {
        isEmpty &&= items.length === 0;
        yield items;
      }
      // The API server answers for a missing namespace as for an empty one.
      if (isEmpty && query.allNamespaces !== true) {
        await expectNamespace(scope, query.namespace ?? clusterContext.namespace, query.signal);
      }
    },

    async job(name) {
      const raw = await findJob(scope, name);
      return raw === null ? null : api.parseAnswer({ purpose: `read the job ${name}` }, () => read(raw));
    },

    raw: (name) => findJob(scope, name) as Promise<V1Job | null>,

    create: (job, options) => createJob(scope, job, options),

    async patch(name, change) {
      await api.fetchObject({
        method: 'PATCH',
        path: jobPath(scope, name),
        body: change,
        type: 'application/merge-patch+json',
        purpose: `change the job ${name}`,
      });
    },

    remove: (name, { signal } = {}) => removeJob(scope, name, signal),

    watchJobs: (query) =>
      watchAll(api, {
        path: pathForQuery(scope, group, 'jobs', query),
        query,
        purpose: `watch the jobs ${formatScope(scope, query)}`,
        read,
      }),
  };
}

async function expectNamespace(
  { api, clusterContext }: RequestScope,
  namespace: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}`;
  const request = { path, signal, purpose: `read the namespace ${namespace}` };
  if ((await unlessForbidden(() => api.findObject(request), undefined)) !== null) return;
  throw new JobmanError(`There is no namespace ${namespace} in ${clusterContext.context}.`, exitCode.notFound);
}

// ------------------------------------------------------------------------------------------ creating

const maxCreateTries = 3;
/** The cluster's clock may be slightly behind ours. */
const maxClockSkew: Duration = 10 * second;

async function createJob(
  scope: RequestScope,
  job: V1Job,
  { dryRun = false, signal }: { readonly dryRun?: boolean; readonly signal?: AbortSignal } = {},
): Promise<V1Job> {
  const name = job.metadata?.name ?? '';
  const startedAt = scope.now();
  for (let tries = 1; ; tries += 1) {
    try {
      return await scope.api.fetchObject<V1Job>({
        method: 'POST',
        path: jobsPath(scope),
        query: { dryRun: dryRun ? 'All' : undefined, fieldValidation: 'Strict' },
        body: job,
        signal,
        purpose: `create the job ${name}`,
      });
    } catch (error) {
      if (!(error instanceof JobmanError) || dryRun) throw error;
      const status = error instanceof ClusterRefusal ? error.status : undefined;
      if (status?.reason === 'AlreadyExists') throw await nameTakenError(scope, name, error as ClusterRefusal);
      if (status !== undefined && status.code < 500) throw error;
      if (error.cause instanceof NoReply && !error.cause.wasSent) throw notSubmittedError(error);
      // The cluster may have created the Job although the reply was lost. Repeat the request only after a read that
      // finds no Job.
      const existing = await findJob(scope, name, signal).catch(() => undefined);
      if (existing === undefined) throw error;
      if (existing !== null && isOwnJob(scope, existing, startedAt, job)) return existing as object as V1Job;
      if (existing !== null || tries >= maxCreateTries) throw error;
    }
  }
}

function isOwnJob({ flavorKey }: RequestScope, existing: RawJob, startedAt: Instant, requested: V1Job): boolean {
  const created = existing as object as V1Job;
  const ours = [clusterLabels.owner, clusterLabels.installation, clusterLabels.job];
  const hasOurs = ours.every((label) => created.metadata?.labels?.[label] === requested.metadata?.labels?.[label]);
  const programText = (job: V1Job): string => {
    const [container] = job.spec?.template.spec?.containers ?? [];
    return JSON.stringify([container?.image, container?.command, container?.args]);
  };
  const isNew = readJob(existing, flavorKey).createdAt >= startedAt - maxClockSkew;
  return (
    created.metadata?.name === requested.metadata?.name &&
    hasOurs &&
    isNew &&
    programText(created) === programText(requested)
  );
}

function notSubmittedError(error: JobmanError): JobmanError {
  return new JobmanError(error.message, error.code, [...error.lines, 'Nothing was submitted.'], { cause: error.cause });
}

async function nameTakenError(scope: RequestScope, name: string, refusal: ClusterRefusal): Promise<JobmanError> {
  const existing = await findJob(scope, name);
  if (existing === null) return refusal;
  const { createdAt, deleting, owner } = readJob(existing, scope.flavorKey);
  const where = `${scope.clusterContext.context}/${scope.clusterContext.namespace}`;
  const creatorNote = owner === null ? '' : ` by ${owner}`;
  const free = await freeName(scope, name);
  return new JobmanError(
    `The name ${name} is taken in ${where}: a job of that name was created ${formatAge(scope.now() - createdAt)} ago${creatorNote}${deleting ? ' and is being deleted' : ''}. Nothing was submitted.`,
    exitCode.conflict,
    [
      free === undefined
        ? 'Without a name the job gets a generated one.'
        : `Use -j ${free} or that name in the manifest. Without a name the job gets a generated one.`,
    ],
  );
}

async function freeName(scope: RequestScope, name: string): Promise<string | undefined> {
  for (let number = 2; number < 10; number += 1) {
    const candidate = `${name.slice(0, 61)}-${number}`;
    if ((await findJob(scope, candidate)) === null) return candidate;
  }
  return undefined;
}

// ------------------------------------------------------------------------------------------ removing

const removalChecks: { readonly initialDelay: Duration; readonly maxDelay: Duration } = {
  initialDelay: 0.1 * second,
  maxDelay: second,
};

async function removeJob(scope: RequestScope, name: string, signal: AbortSignal | undefined): Promise<ClusterRemoval> {
  const { api, clusterContext } = scope;
  const existing = await findJob(scope, name, signal);
  if (existing === null) return 'absent';
  const uid = existing.metadata?.uid ?? '';
  const purpose = `delete the job ${name}`;
  await api.findObject({
    method: 'DELETE',
    path: jobPath(scope, name),
    // Delete only the Job that was read above, not a later one with the same name.
    body: { kind: 'DeleteOptions', apiVersion: 'v1', propagationPolicy: 'Background', preconditions: { uid } },
    signal,
    purpose,
  });
  let wait = removalChecks.initialDelay;
  const waitUntil = async (isGone: () => Promise<boolean>): Promise<void> => {
    while (!(await isGone())) {
      await sleep(wait, undefined, signal === undefined ? {} : { signal });
      wait = Math.min(wait * 2, removalChecks.maxDelay);
    }
  };
  await waitUntil(async () => {
    const now = await findJob(scope, name, signal);
    return now === null || now.metadata?.uid !== uid;
  });
  const pods = {
    path: pathOf('/api/v1', 'pods', clusterContext.namespace),
    query: { labelSelector: `controller-uid=${uid}`, limit: 1 },
    signal,
    purpose,
  };
  await waitUntil(async () => {
    // Without permission to list pods, the deletion of the Job has to suffice.
    const left = await unlessForbidden(() => api.fetchObject<{ readonly items?: readonly object[] | null }>(pods), {
      items: [],
    });
    return (left.items ?? []).length === 0;
  });
  return 'gone';
}
