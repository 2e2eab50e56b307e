// Jobs: the requests about Jobs. One is created once, also if the reply is lost, and its removal is seen before it is reported.

import type { V1Job } from '@kubernetes/client-node';
import type { Cluster, ClusterRemoval } from '../../app/cluster/cluster.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import type { ApiRequest } from './api.ts';
import { type RawJob, readJob } from './objects.ts';
import { findJob, jobPath, jobsPath, pathFor, pathOf, type Scope, unlessForbidden, whereText } from './scope.ts';
import { watchAll } from './watch.ts';
import { clusterLabels } from '../../app/cluster/job-object.ts';
import { ageText } from '../../app/figures.ts';
import { type Duration, type Instant, second } from '../../core/time.ts';
import { NoReply } from '../../http/reply.ts';
import { ClusterRefusal } from './status.ts';
import { setTimeout as sleep } from 'node:timers/promises';

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

// ------------------------------------------------------------------------------------------ creating

const createTries = 3;
/** The cluster's clock may go a little behind ours. */
const clocksDiffer: Duration = 10 * second;

async function createJob(
  scope: Scope,
  job: V1Job,
  { dryRun = false, signal }: { readonly dryRun?: boolean; readonly signal?: AbortSignal } = {},
): Promise<V1Job> {
  const name = job.metadata?.name ?? '';
  const began = scope.now();
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await scope.api.ask<V1Job>({
        method: 'POST',
        path: jobsPath(scope),
        query: { dryRun: dryRun ? 'All' : undefined, fieldValidation: 'Strict' },
        body: job,
        signal,
        what: `create the job ${name}`,
      });
    } catch (error) {
      if (!(error instanceof JobmanError) || dryRun) throw error;
      const status = error instanceof ClusterRefusal ? error.status : undefined;
      if (status?.reason === 'AlreadyExists') throw await taken(scope, name, error as ClusterRefusal);
      if (status !== undefined && status.code < 500) throw error;
      if (error.cause instanceof NoReply && !error.cause.wasSent) throw notSubmitted(error);
      // It may have been done and the reply lost. A look tells, and only what is seen not to be there is asked for again.
      const there = await findJob(scope, name, signal).catch(() => undefined);
      if (there === undefined) throw error;
      if (there !== null && isOwn(scope, there, began, job)) return there as object as V1Job;
      if (there !== null || attempt >= createTries) throw error;
    }
  }
}

function isOwn({ flavorKey }: Scope, there: RawJob, began: Instant, asked: V1Job): boolean {
  const made = there as object as V1Job;
  const ours = [clusterLabels.owner, clusterLabels.installation, clusterLabels.job];
  const hasOurs = ours.every((label) => made.metadata?.labels?.[label] === asked.metadata?.labels?.[label]);
  const words = (job: V1Job): string => {
    const [container] = job.spec?.template.spec?.containers ?? [];
    return JSON.stringify([container?.image, container?.command, container?.args]);
  };
  const isNew = readJob(there, flavorKey).createdAt >= began - clocksDiffer;
  return made.metadata?.name === asked.metadata?.name && hasOurs && isNew && words(made) === words(asked);
}

/** The request never left this machine, so there is nothing to be searched for. */
function notSubmitted(error: JobmanError): JobmanError {
  return new JobmanError(error.message, error.code, [...error.lines, 'Nothing was submitted.'], { cause: error.cause });
}

async function taken(scope: Scope, name: string, refusal: ClusterRefusal): Promise<JobmanError> {
  const there = await findJob(scope, name);
  if (there === null) return refusal;
  const { createdAt, deleting, owner } = readJob(there, scope.flavorKey);
  const where = `${scope.place.context}/${scope.place.namespace}`;
  const who = owner === null ? '' : ` by ${owner}`;
  const free = await freeName(scope, name);
  return new JobmanError(
    `The name ${name} is taken in ${where}: a job of that name was created ${ageText(scope.now() - createdAt)} ago${who}${deleting ? ' and is being deleted' : ''}. Nothing was submitted.`,
    exitCode.conflict,
    [
      free === undefined
        ? 'Without a name the job gets a new one.'
        : `-j ${free} is free, or that name in the manifest; without a name the job gets a new one.`,
    ],
  );
}

async function freeName(scope: Scope, name: string): Promise<string | undefined> {
  for (let number = 2; number < 10; number += 1) {
    const other = `${name.slice(0, 61)}-${number}`;
    if ((await findJob(scope, other)) === null) return other;
  }
  return undefined;
}

// ------------------------------------------------------------------------------------------ removing

const looks: { readonly first: Duration; readonly most: Duration } = { first: 0.1 * second, most: second };

async function removeJob(scope: Scope, name: string, signal: AbortSignal | undefined): Promise<ClusterRemoval> {
  const { api, place } = scope;
  const there = await findJob(scope, name, signal);
  if (there === null) return 'absent';
  const uid = there.metadata?.uid ?? '';
  const what = `delete the job ${name}`;
  await api.find({
    method: 'DELETE',
    path: jobPath(scope, name),
    // The one that was looked at, and not another that has its name by now.
    body: { kind: 'DeleteOptions', apiVersion: 'v1', propagationPolicy: 'Background', preconditions: { uid } },
    signal,
    what,
  });
  let wait = looks.first;
  const until = async (isGone: () => Promise<boolean>): Promise<void> => {
    while (!(await isGone())) {
      await sleep(wait, undefined, signal === undefined ? {} : { signal });
      wait = Math.min(wait * 2, looks.most);
    }
  };
  await until(async () => {
    const now = await findJob(scope, name, signal);
    return now === null || now.metadata?.uid !== uid;
  });
  const pods = {
    path: pathOf('/api/v1', 'pods', place.namespace),
    query: { labelSelector: `controller-uid=${uid}`, limit: 1 },
    signal,
    what,
  };
  await until(async () => {
    // Without the right to see pods the Job's own answer has to do.
    const left = await unlessForbidden(() => api.ask<{ readonly items?: readonly object[] | null }>(pods), {
      items: [],
    });
    return (left.items ?? []).length === 0;
  });
  return 'gone';
}
