// Implements app/cluster/cluster.ts over an API server. A lost reply does not create a second Job, and a removal is reported
// only after it is confirmed.

import {
  replacedError,
  type Cluster,
  type ClusterContext,
  type PriorityClass,
  type ClusterRemoval,
  type ClusterQuery,
  type JobIdentity,
} from '../../app/cluster/cluster.ts';
import type { ClusterEvent } from '../../app/cluster/objects.ts';
import type { RequestLimits, RetryPolicy } from '../../http/client.ts';
import { createApi, defaultRetry, type ApiRequest } from './api.ts';
import type { KubeContext } from './kubeconfig.ts';
import { createLogin, type LoginContext } from './login.ts';
import {
  type RawQuota,
  readEvent,
  readNode,
  readPriority,
  readQuota,
  type RawJob,
  readJob,
  readPod,
  readPodOwner,
  readPodUsage,
} from './objects.ts';
import { ClusterRefusal, isForbidden } from './status.ts';
import type { V1Job } from '@kubernetes/client-node';
import { exitCode, JobmanError, reworded } from '../../app/errors.ts';
import { watchAll } from './watch.ts';
import { requestAnnotation } from '../../app/cluster/job-object.ts';
import { formatAge } from '../../app/format.ts';
import { type Duration, type Instant, second } from '../../core/model/time.ts';
import { NoReply } from '../../http/reply.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ClusterAccess } from './channels.ts';
import { copyFromRemote, copyToRemote } from '../../remote/copy.ts';
import { startAttach, startExec } from './exec.ts';
import { readLog } from './logs.ts';
import { openTunnel } from './port-forward.ts';

export interface CreateClusterOptions extends LoginContext {
  readonly context: KubeContext;
  readonly flavorKey: string;
  readonly retry?: RetryPolicy;
  /** Called with the purpose of a request, such as `list the nodes of lab`, after two seconds. */
  readonly onWait?: (what: string) => void;
  /** For tests. */
  readonly limits?: Partial<RequestLimits>;
  readonly listTimeout?: Duration;
}

/** The cluster of a context. It makes no request and no login before a method is called. */
export function createCluster(options: CreateClusterOptions): Cluster {
  const { context, flavorKey, retry = defaultRetry, onWait, limits, listTimeout, ...loginContext } = options;
  const login = createLogin(context, loginContext);
  const clusterContext: ClusterContext = {
    context: context.name,
    server: context.cluster.server,
    namespace: context.namespace,
    user: login.user,
  };
  const api = createApi(context, login, clusterContext, { env: loginContext.env, retry, limits, listTimeout, onWait });
  const scope: RequestScope = { api, clusterContext, flavorKey, now: loginContext.now };
  return {
    context: () => clusterContext,
    ...jobRequests(scope),
    ...podRequests(scope),
    ...clusterRequests(scope),
    ...configMapRequests(scope),
    ...secretRequests(scope),
    async close() {
      api.close();
    },
  };
}

/** The API versions with Kueue's WorkloadPriorityClass, newest first. */
const kueueVersions = ['v1beta2', 'v1beta1'];

function clusterRequests(
  scope: RequestScope,
): Pick<Cluster, 'nodes' | 'priorityClasses' | 'queuePriorityClasses' | 'events' | 'quotas'> {
  const { clusterContext } = scope;
  return {
    nodes: () =>
      unlessForbidden(
        () =>
          listAll(scope, { path: '/api/v1/nodes', purpose: `list the nodes of ${clusterContext.context}` }, readNode),
        null,
      ),

    priorityClasses: () => listPriorities(scope, '/apis/scheduling.k8s.io/v1/priorityclasses', 'priority classes'),

    async queuePriorityClasses() {
      for (const version of kueueVersions) {
        const path = `/apis/kueue.x-k8s.io/${version}/workloadpriorityclasses`;
        const found = await listPriorities(scope, path, 'priority classes of Kueue');
        if (found !== null) return found;
      }
      return null;
    },

    async events({ names }) {
      const all = await Promise.all(names.map((name) => listEvents(scope, name)));
      if (all.includes(null)) return null;
      return all.flatMap((some) => some ?? []).toSorted((one, other) => one.lastAt - other.lastAt);
    },

    quotas: () =>
      unlessForbidden(async () => {
        const path = pathOf('/api/v1', 'resourcequotas', clusterContext.namespace);
        const all = await listAll(
          scope,
          { path, purpose: `list the quotas ${formatScope(scope, {})}` },
          (raw: RawQuota) => raw,
        );
        return all.filter(({ spec }) => spec?.scopes === undefined && spec?.scopeSelector === undefined).map(readQuota);
      }, null),
  };
}

async function listPriorities(
  scope: RequestScope,
  path: string,
  kindName: string,
): Promise<readonly PriorityClass[] | null> {
  try {
    const request = { path, purpose: `list the ${kindName} of ${scope.clusterContext.context}` };
    return await unlessForbidden(() => listAll(scope, request, readPriority), null);
  } catch (error) {
    if (error instanceof ClusterRefusal && error.status.code === 404) return null;
    throw error;
  }
}

function listEvents(scope: RequestScope, name: string): Promise<readonly ClusterEvent[] | null> {
  const request = {
    path: pathOf('/api/v1', 'events', scope.clusterContext.namespace),
    query: { fieldSelector: `involvedObject.name=${name}` },
    purpose: `list the events of ${name}`,
  };
  return unlessForbidden(() => listAll(scope, request, readEvent), null);
}

const maxWriteTries = 5;

function configMapRequests({ api, clusterContext }: RequestScope): Pick<Cluster, 'configMap' | 'writeConfigMap'> {
  return {
    configMap(name, namespace = clusterContext.namespace, signal) {
      const path = `${pathOf('/api/v1', 'configmaps', namespace)}/${encodeURIComponent(name)}`;
      const purpose = `read the ConfigMap ${name} of ${clusterContext.context}/${namespace}`;
      return unlessForbidden(async () => {
        const found = await api.findObject<{ readonly data?: Readonly<Record<string, string>> }>({
          path,
          signal,
          purpose,
        });
        return found === null ? null : (found.data ?? {});
      }, null);
    },

    async writeConfigMap(name, namespace, data) {
      const parent = pathOf('/api/v1', 'configmaps', namespace);
      const path = `${parent}/${encodeURIComponent(name)}`;
      const purpose = `write the ConfigMap ${name} of ${clusterContext.context}/${namespace}`;
      const kind = { apiVersion: 'v1', kind: 'ConfigMap' };
      for (let tries = 1; ; tries += 1) {
        const existing = await api.findObject<{ readonly metadata?: object }>({ path, purpose });
        try {
          if (existing === null) {
            await api.fetchObject({
              method: 'POST',
              path: parent,
              body: { ...kind, metadata: { name, namespace }, data },
              purpose,
            });
          } else {
            // With the version that was read, so that labels set by others in the meantime are not lost.
            await api.fetchObject({
              method: 'PUT',
              path,
              body: { ...kind, metadata: existing.metadata, data },
              purpose,
            });
          }
          return;
        } catch (error) {
          // Another client created or changed it, or deleted it after it was read.
          const code = error instanceof ClusterRefusal ? error.status.code : 0;
          const isTransient = code === 409 || (code === 404 && existing !== null);
          if (!isTransient || tries >= maxWriteTries) throw error;
        }
      }
    },
  };
}

function secretRequests({
  api,
  clusterContext,
}: RequestScope): Pick<Cluster, 'secret' | 'createSecret' | 'patchSecret'> {
  const parent = pathOf('/api/v1', 'secrets', clusterContext.namespace);
  const pathOfSecret = (name: string) => `${parent}/${encodeURIComponent(name)}`;
  const where = `of ${clusterContext.context}/${clusterContext.namespace}`;
  return {
    secret(name) {
      const request = { path: pathOfSecret(name), purpose: `read the Secret ${name} ${where}` };
      return unlessForbidden(async () => {
        const found = await api.findObject<{ readonly data?: Readonly<Record<string, string>> }>(request);
        return found === null ? null : (found.data ?? {});
      }, null);
    },

    async createSecret(name, { metadata }, data) {
      const owner = { apiVersion: 'batch/v1', kind: 'Job', name: metadata?.name, uid: metadata?.uid };
      const own = { name, labels: metadata?.labels, ownerReferences: [owner] };
      const body = { apiVersion: 'v1', kind: 'Secret', type: 'Opaque', metadata: own, data };
      try {
        await api.fetchObject({ method: 'POST', path: parent, body, purpose: `create the Secret ${name} ${where}` });
      } catch (error) {
        // The name is new, so it is this Secret: the answer to a former try was lost.
        if (!(error instanceof ClusterRefusal && error.status.reason === 'AlreadyExists')) throw error;
      }
    },

    async patchSecret(name, job, data) {
      const changes = Object.entries(data).map(([key, value]) => ({ op: 'add', path: `/data/${key}`, value }));
      // `createSecret` has written this reference. Its check needs no right to read Secrets.
      const check = { op: 'test', path: '/metadata/ownerReferences/0/uid', value: job.uid };
      const request: ApiRequest = {
        method: 'PATCH',
        path: pathOfSecret(name),
        body: [check, ...changes],
        type: 'application/json-patch+json',
        purpose: `change the Secret ${name} ${where}`,
      };
      // The cluster names no cause for a failed check.
      await unlessReplaced(job, ({ details }) => (details?.causes ?? []).length === 0, api.fetchObject(request));
    },
  };
}

/** `isOther`: true if the cluster calls a patch invalid because the object is not the one that was read. */
async function unlessReplaced(
  job: JobIdentity,
  isOther: (status: ClusterRefusal['status']) => boolean,
  change: Promise<object>,
): Promise<void> {
  try {
    await change;
  } catch (error) {
    const isReplaced = error instanceof ClusterRefusal && error.status.code === 422 && isOther(error.status);
    throw isReplaced ? replacedError(job.name) : error;
  }
}

const group = '/apis/batch/v1';

function jobRequests(
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

    async patch(job, change) {
      const request: ApiRequest = {
        method: 'PATCH',
        path: jobPath(scope, job.name),
        // The cluster refuses another uid, because it never changes.
        body: { ...change, metadata: { ...change.metadata, uid: job.uid } },
        type: 'application/merge-patch+json',
        purpose: `change the job ${job.name}`,
      };
      const isOther = ({ details }: ClusterRefusal['status']): boolean =>
        details?.causes?.some(({ field }) => field === 'metadata.uid') === true;
      await unlessReplaced(job, isOther, api.fetchObject(request));
    },

    remove: (job, { signal } = {}) => removeJob(scope, job, signal),

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

const maxCreateTries = 3;

async function createJob(
  scope: RequestScope,
  given: V1Job,
  { dryRun = false, signal }: { readonly dryRun?: boolean; readonly signal?: AbortSignal } = {},
): Promise<V1Job> {
  const job = structuredClone(given);
  const { name = '', annotations } = (job.metadata ??= {});
  const request = annotations?.[requestAnnotation] ?? crypto.randomUUID();
  job.metadata.annotations = { ...annotations, [requestAnnotation]: request };
  const isOwn = (found: RawJob | null): found is RawJob =>
    found?.metadata?.annotations?.[requestAnnotation] === request;
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
      if (!(error instanceof JobmanError)) throw error;
      const status = error instanceof ClusterRefusal ? error.status : undefined;
      if (status?.reason === 'AlreadyExists') {
        const existing = await findJob(scope, name, signal);
        if (isOwn(existing) && !dryRun) return existing as object as V1Job;
        throw await nameTakenError(scope, name, existing, error);
      }
      if (dryRun) throw error;
      if (status !== undefined && status.code < 500) throw error;
      if (error.cause instanceof NoReply && !error.cause.wasSent) throw notSubmittedError(error);
      // The cluster may have created the Job although the reply was lost. Repeat the request only after a read that
      // finds no Job.
      const existing = await findJob(scope, name, signal).catch(() => undefined);
      if (existing === undefined) throw error;
      if (isOwn(existing)) return existing as object as V1Job;
      if (existing !== null || tries >= maxCreateTries) throw error;
    }
  }
}

function notSubmittedError(error: JobmanError): JobmanError {
  return reworded(error, { lines: [...error.lines, 'Nothing was submitted.'] });
}

async function nameTakenError(
  scope: RequestScope,
  name: string,
  existing: RawJob | null,
  refusal: JobmanError,
): Promise<JobmanError> {
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

const removalChecks: { readonly initialDelay: Duration; readonly maxDelay: Duration } = {
  initialDelay: 0.1 * second,
  maxDelay: second,
};

async function removeJob(
  scope: RequestScope,
  { name, uid }: JobIdentity,
  signal: AbortSignal | undefined,
): Promise<ClusterRemoval> {
  const { api, clusterContext } = scope;
  const existing = await findJob(scope, name, signal);
  if (existing === null) return 'absent';
  if (existing.metadata?.uid !== uid) throw replacedError(name);
  const purpose = `delete the job ${name}`;
  try {
    await api.findObject({
      method: 'DELETE',
      path: jobPath(scope, name),
      body: { kind: 'DeleteOptions', apiVersion: 'v1', propagationPolicy: 'Background', preconditions: { uid } },
      signal,
      purpose,
    });
  } catch (error) {
    // The only condition of the request is the uid.
    throw error instanceof ClusterRefusal && error.status.code === 409 ? replacedError(name) : error;
  }
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

interface RequestScope extends ClusterAccess {
  readonly flavorKey: string;
  readonly now: () => Instant;
}

/** `/api/v1/namespaces/vision/pods`; without a namespace, the path for the whole cluster. */
function pathOf(group: string, resource: string, namespace: string | undefined): string {
  return namespace === undefined
    ? `${group}/${resource}`
    : `${group}/namespaces/${encodeURIComponent(namespace)}/${resource}`;
}

function pathForQuery(
  { clusterContext }: RequestScope,
  group: string,
  resource: string,
  { namespace, allNamespaces }: ClusterQuery,
): string {
  return pathOf(group, resource, allNamespaces === true ? undefined : (namespace ?? clusterContext.namespace));
}

function jobsPath({ clusterContext }: RequestScope): string {
  return pathOf('/apis/batch/v1', 'jobs', clusterContext.namespace);
}

function jobPath(scope: RequestScope, name: string): string {
  return `${jobsPath(scope)}/${encodeURIComponent(name)}`;
}

function findJob(scope: RequestScope, name: string, signal?: AbortSignal): Promise<RawJob | null> {
  return scope.api.findObject<RawJob>({ path: jobPath(scope, name), purpose: `read the job ${name}`, signal });
}

/** The scope of a query for messages: `of lab/vision`. */
function formatScope({ clusterContext }: RequestScope, { namespace, allNamespaces }: ClusterQuery): string {
  return allNamespaces === true
    ? `of all namespaces of ${clusterContext.context}`
    : `of ${clusterContext.context}/${namespace ?? clusterContext.namespace}`;
}

async function listAll<R extends object, T>(
  { api }: RequestScope,
  request: ApiRequest,
  read: (raw: R) => T,
): Promise<readonly T[]> {
  const all: T[] = [];
  for await (const { items } of api.listPages(request, read)) for (const item of items) all.push(item);
  return all;
}

async function unlessForbidden<T, U>(request: () => Promise<T>, fallback: U): Promise<T | U> {
  try {
    return await request();
  } catch (error) {
    if (isForbidden(error)) return fallback;
    throw error;
  }
}

function podRequests(
  scope: RequestScope,
): Pick<
  Cluster,
  'pods' | 'podUsage' | 'unscheduledPods' | 'watchPods' | 'logs' | 'exec' | 'attach' | 'put' | 'get' | 'tunnel'
> {
  const { api, clusterContext } = scope;
  const exec: Cluster['exec'] = (target, request) => startExec(scope, target, request);
  return {
    async *pods(query) {
      const { job, labels, fields, signal } = query;
      const selector = [...(job === undefined ? [] : [`job-name=${job}`]), ...(labels === undefined ? [] : [labels])];
      const request: ApiRequest = {
        path: pathForQuery(scope, '/api/v1', 'pods', query),
        query: { labelSelector: selector.length === 0 ? undefined : selector.join(','), fieldSelector: fields },
        signal,
        purpose: job === undefined ? `list the pods ${formatScope(scope, query)}` : `list the pods of the job ${job}`,
      };
      for await (const { items } of api.listPages(request, readPod)) yield items;
    },

    async podUsage(query) {
      const request: ApiRequest = {
        path: pathForQuery(scope, '/apis/metrics.k8s.io/v1beta1', 'pods', query),
        signal: query.signal,
        purpose: `read the usage of the pods ${formatScope(scope, query)}`,
      };
      try {
        return await unlessForbidden(() => listAll(scope, request, readPodUsage), null);
      } catch (error) {
        // Without metrics-server there is no such API, and while it does not run, the API server answers 503.
        if (error instanceof ClusterRefusal && [404, 503].includes(error.status.code)) return null;
        throw error;
      }
    },

    async *unscheduledPods(query) {
      const request: ApiRequest = {
        path: pathForQuery(scope, '/api/v1', 'pods', query),
        query: { labelSelector: query.labels, fieldSelector: 'spec.nodeName=,status.phase=Pending' },
        // Metadata only: half the size of a pod, and half the work to write and read it.
        accept: 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json',
        signal: query.signal,
        purpose: `list the pods ${formatScope(scope, query)}`,
      };
      for await (const { items } of api.listPages(request, readPodOwner)) yield items;
    },

    watchPods: (query) =>
      watchAll(api, {
        path: pathForQuery(scope, '/api/v1', 'pods', query),
        query,
        purpose: `watch the pods ${formatScope(scope, query)}`,
        read: readPod,
      }),

    logs: (pod, container, query) => readLog(api, { namespace: clusterContext.namespace, pod, container }, query),

    exec,
    attach: (target, request) => startAttach(scope, target, request),
    put: (target, request) =>
      copyToRemote((session) => exec(target, { ...session, terminal: null }), { ...request, runsIn: 'container' }),
    get: (target, request) =>
      copyFromRemote((session) => exec(target, { ...session, terminal: null }), { ...request, runsIn: 'container' }),
    tunnel: (pod, port) => openTunnel(scope, pod, port),
  };
}
