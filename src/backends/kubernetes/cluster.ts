// Cluster: the door of app/cluster/cluster.ts to a real API server. Each method is one or a few requests; what they read is
// trimmed at once.

import { setTimeout as sleep } from 'node:timers/promises';
import { given } from '../../core/given.ts';
import { second, type Duration } from '../../core/time.ts';
import type {
  Cluster,
  ClusterEvent,
  ClusterJob,
  ClusterPlace,
  ClusterPriority,
  ClusterQuery,
} from '../../app/cluster/cluster.ts';
import { clusterLabels } from '../../app/cluster/job-object.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { ageText } from '../../app/figures.ts';
import type { V1Job } from '@kubernetes/client-node';
import { createApi, type Api, type ApiRequest, type ListLimits, type Patience } from './api.ts';
import { createConnection, LineError, type Connection, type ReplyLimits } from './connection.ts';
import { startAttach } from './attach.ts';
import { startExec } from './exec.ts';
import type { KubeContext } from './kubeconfig.ts';
import { jobShape, metadataShape, podShape } from './list-shapes.ts';
import { createLogin, type LoginPlace } from './login.ts';
import { readLog } from './logs.ts';
import {
  readEvent,
  readJob,
  readNode,
  readPod,
  readPodOwner,
  readPriority,
  readQuota,
  type RawJob,
  type RawQuota,
} from './objects.ts';
import { openTunnel } from './port-forward.ts';
import { ClusterRefusal, isForbidden } from './status.ts';
import { watchAll } from './watch.ts';

/** What a cluster is made from. */
export interface ClusterOf extends LoginPlace {
  readonly context: KubeContext;
  /** The annotation that holds a flavor's name. */
  readonly flavorKey: string;
  /** How often what is refused for now is asked again. */
  readonly patience?: Patience;
  /** See ClusterOptions. */
  readonly isAlone?: boolean;
  /** Called when a request takes long, with the words for it that follow "could not" in messages. */
  readonly onWait?: (what: string) => void;
  /** In place of the usual limits; for tests. */
  readonly limits?: Partial<ReplyLimits>;
  readonly lists?: Partial<ListLimits>;
}

/** How often is looked whether what was deleted is gone; doubled up to the second. */
const looks: { readonly first: Duration; readonly most: Duration } = { first: 0.1 * second, most: second };

/**
 * The cluster of that context. Nothing is asked, and no login is made, before a method is called; `begin` is Connection's, for a
 * caller that is about to ask.
 */
export function createCluster({
  context,
  flavorKey,
  patience,
  isAlone = false,
  onWait,
  limits,
  lists,
  ...around
}: ClusterOf): Cluster & Pick<Connection, 'begin'> {
  const login = createLogin(context, around);
  const place: ClusterPlace = {
    context: context.name,
    server: context.cluster.server,
    namespace: context.namespace,
    user: login.user,
  };
  const connection = createConnection(context, login, around.env, { isAlone, ...given({ limits }) });
  const api = createApi(connection, login, place, { patience, lists, onWait });
  const where = `${place.context}/${place.namespace}`;
  const jobsPath = pathOf('/apis/batch/v1', 'jobs', place.namespace);
  const podsPath = pathOf('/api/v1', 'pods', place.namespace);
  const jobPath = (name: string): string => `${jobsPath}/${encodeURIComponent(name)}`;

  const pathFor = (group: string, resource: string, { namespace, everywhere }: ClusterQuery): string =>
    pathOf(group, resource, everywhere === true ? undefined : (namespace ?? place.namespace));
  const spotText = ({ namespace, everywhere }: ClusterQuery): string =>
    everywhere === true
      ? `of all namespaces of ${place.context}`
      : `of ${place.context}/${namespace ?? place.namespace}`;

  const jobOf = (raw: RawJob): ClusterJob => readJob(raw, flavorKey);
  const getJob = (name: string, signal?: AbortSignal): Promise<RawJob | null> =>
    api.find<RawJob>({ path: jobPath(name), what: `read the job ${name}`, signal });

  async function* pods(query: ClusterQuery & { readonly job?: string }) {
    const { job, labels, fields, signal } = query;
    const selector = [...(job === undefined ? [] : [`job-name=${job}`]), ...(labels === undefined ? [] : [labels])];
    const what = job === undefined ? `list the pods ${spotText(query)}` : `list the pods of the job ${job}`;
    const request: ApiRequest = {
      path: pathFor('/api/v1', 'pods', query),
      query: { labelSelector: selector.length === 0 ? undefined : selector.join(','), fieldSelector: fields },
      signal,
      shape: podShape,
      what,
    };
    for await (const { items } of api.pages(request, readPod)) yield items;
  }

  /** Throws JobmanError (not found) for a namespace that does not exist; does nothing where that may not be asked. */
  async function expectNamespace(namespace: string, signal: AbortSignal | undefined): Promise<void> {
    const path = `/api/v1/namespaces/${encodeURIComponent(namespace)}`;
    try {
      if ((await api.find({ path, signal, what: `read the namespace ${namespace}` })) !== null) return;
    } catch (error) {
      if (isForbidden(error)) return;
      throw error;
    }
    throw new JobmanError(`There is no namespace ${namespace} in ${place.context}.`, exitCode.notFound);
  }

  /** Null where they may not be listed, or the cluster does not know the kind. */
  async function prioritiesAt(path: string, called: string): Promise<readonly ClusterPriority[] | null> {
    const all: ClusterPriority[] = [];
    try {
      const request: ApiRequest = { path, what: `list the ${called} of ${place.context}` };
      for await (const { items } of api.pages(request, readPriority)) all.push(...items);
    } catch (error) {
      if (isForbidden(error) || (error instanceof ClusterRefusal && error.status.code === 404)) return null;
      throw error;
    }
    return all;
  }

  const exec: Cluster['exec'] = (target, request) =>
    startExec({ connection, api, place, namespace: place.namespace }, target, request);

  /** A name nobody has, near the one that is taken. */
  async function freeName(name: string): Promise<string | undefined> {
    for (let number = 2; number < 10; number += 1) {
      const other = `${name.slice(0, 61)}-${number}`;
      if ((await getJob(other)) === null) return other;
    }
    return undefined;
  }

  async function taken(name: string, refusal: ClusterRefusal): Promise<JobmanError> {
    const there = await getJob(name);
    if (there === null) return refusal;
    const { createdAt, deleting, owner } = readJob(there, flavorKey);
    const who = owner === null ? '' : ` by ${owner}`;
    const free = await freeName(name);
    return new JobmanError(
      `The name ${name} is taken in ${where}: a job of that name was created ${ageText(around.now() - createdAt)} ago${who}${deleting ? ' and is being deleted' : ''}. Nothing was submitted.`,
      exitCode.conflict,
      [
        free === undefined
          ? 'Without a name the job gets a new one.'
          : `-j ${free} is free, or that name in the manifest; without a name the job gets a new one.`,
      ],
    );
  }

  return {
    place: () => place,

    async *jobs(query) {
      let isEmpty = true;
      const request: ApiRequest = {
        path: pathFor('/apis/batch/v1', 'jobs', query),
        query: { labelSelector: query.labels, fieldSelector: query.fields },
        signal: query.signal,
        shape: jobShape,
        what: `list the jobs ${spotText(query)}`,
      };
      for await (const { items } of api.pages(request, jobOf)) {
        isEmpty &&= items.length === 0;
        yield items;
      }
      // A namespace that does not exist answers as an empty one does.
      if (isEmpty && query.everywhere !== true) await expectNamespace(query.namespace ?? place.namespace, query.signal);
    },

    async job(name) {
      const raw = await getJob(name);
      return raw === null ? null : api.readAs({ what: `read the job ${name}` }, () => jobOf(raw));
    },

    raw: (name) => getJob(name) as Promise<V1Job | null>,

    pods,

    async *homeless(query) {
      const request: ApiRequest = {
        path: pathFor('/api/v1', 'pods', query),
        query: { labelSelector: query.labels, fieldSelector: 'spec.nodeName=,status.phase=Pending' },
        shape: metadataShape,
        // Half of a pod, and of what it costs to write and to read it.
        accept: ['application/vnd.kubernetes.protobuf', 'application/json']
          .map((type) => `${type};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1`)
          .join(','),
        signal: query.signal,
        what: `list the pods ${spotText(query)}`,
      };
      for await (const { items } of api.pages(request, readPodOwner)) yield items;
    },

    async nodes() {
      const all: ReturnType<typeof readNode>[] = [];
      try {
        const request: ApiRequest = { path: '/api/v1/nodes', what: `list the nodes of ${place.context}` };
        for await (const { items } of api.pages(request, readNode)) all.push(...items);
      } catch (error) {
        if (isForbidden(error)) return null;
        throw error;
      }
      return all;
    },

    priorities: () => prioritiesAt('/apis/scheduling.k8s.io/v1/priorityclasses', 'priority classes'),

    async queuePriorities() {
      for (const version of kueueVersions) {
        const path = `/apis/kueue.x-k8s.io/${version}/workloadpriorityclasses`;
        const found = await prioritiesAt(path, 'priority classes of Kueue');
        if (found !== null) return found;
      }
      return null;
    },

    async events({ names }) {
      const all = await Promise.all(names.map((name) => eventsOf(api, place.namespace, name)));
      if (all.includes(null)) return null;
      return all.flatMap((some) => some ?? []).toSorted((one, other) => one.lastAt - other.lastAt);
    },

    async quotas() {
      const all: RawQuota[] = [];
      try {
        const path = pathOf('/api/v1', 'resourcequotas', place.namespace);
        const request: ApiRequest = { path, what: `list the quotas ${spotText({})}` };
        for await (const { items } of api.pages(request, (raw: RawQuota) => raw)) all.push(...items);
      } catch (error) {
        if (isForbidden(error)) return null;
        throw error;
      }
      const isForAll = ({ spec }: RawQuota): boolean => spec?.scopes === undefined && spec?.scopeSelector === undefined;
      return all.filter(isForAll).map(readQuota);
    },

    async refusedPods(query) {
      const newest = new Map<string, ReturnType<typeof readEvent>>();
      const request: ApiRequest = {
        path: pathFor('/api/v1', 'events', query),
        query: { fieldSelector: 'involvedObject.kind=Job,reason=FailedCreate' },
        signal: query.signal,
        what: `list the events ${spotText(query)}`,
      };
      try {
        for await (const { items } of api.pages(request, readEvent)) {
          for (const event of items) {
            const before = newest.get(event.object.uid);
            if (before === undefined || before.lastAt <= event.lastAt) newest.set(event.object.uid, event);
          }
        }
      } catch (error) {
        if (isForbidden(error)) return [];
        throw error;
      }
      return [...newest.values()];
    },

    async create(job, { dryRun = false, signal } = {}) {
      const name = job.metadata?.name ?? '';
      const began = around.now();
      for (let attempt = 1; ; attempt += 1) {
        try {
          return await api.ask<V1Job>({
            method: 'POST',
            path: jobsPath,
            query: { dryRun: dryRun ? 'All' : undefined, fieldValidation: 'Strict' },
            body: job,
            signal,
            what: `create the job ${name}`,
          });
        } catch (error) {
          if (!(error instanceof JobmanError) || dryRun) throw error;
          const status = error instanceof ClusterRefusal ? error.status : undefined;
          if (status?.reason === 'AlreadyExists') throw await taken(name, error as ClusterRefusal);
          if (status !== undefined && status.code < 500) throw error;
          // It may have been done and the reply lost. A look tells, and only what is seen not to be there is asked for again.
          if (error.cause instanceof LineError && !error.cause.wasSent) throw notSubmitted(error);
          const there = await getJob(name, signal).catch(() => undefined);
          if (there === undefined) throw error;
          if (there !== null && isOwn(there, name, began, job)) return there as object as V1Job;
          if (there !== null || attempt >= createTries) throw error;
        }
      }
    },

    async patch(name, change) {
      await api.ask({
        method: 'PATCH',
        path: jobPath(name),
        body: change,
        type: 'application/merge-patch+json',
        what: `change the job ${name}`,
      });
    },

    async remove(name, { signal } = {}) {
      const there = await getJob(name, signal);
      if (there === null) return 'absent';
      const uid = there.metadata?.uid ?? '';
      const what = `delete the job ${name}`;
      await api.find({
        method: 'DELETE',
        path: jobPath(name),
        // The one that was looked at, and not another that has its name by now.
        body: { kind: 'DeleteOptions', apiVersion: 'v1', propagationPolicy: 'Background', preconditions: { uid } },
        signal,
        what,
      });
      let wait = looks.first;
      const look = async (isGone: () => Promise<boolean>): Promise<void> => {
        while (!(await isGone())) {
          await sleep(wait, undefined, signal === undefined ? {} : { signal });
          wait = Math.min(wait * 2, looks.most);
        }
      };
      await look(async () => {
        const now = await getJob(name, signal);
        return now === null || now.metadata?.uid !== uid;
      });
      await look(async () => {
        try {
          const selector = `controller-uid=${uid}`;
          const request = { path: podsPath, query: { labelSelector: selector, limit: 1 }, signal, what };
          const { items } = await api.ask<{ readonly items?: readonly object[] | null }>(request);
          return (items ?? []).length === 0;
        } catch (error) {
          // Who may not see pods has to take the Job's word.
          if (isForbidden(error)) return true;
          throw error;
        }
      });
      return 'gone';
    },

    watchJobs: (query) =>
      watchAll(api, {
        path: pathFor('/apis/batch/v1', 'jobs', query),
        query,
        what: `watch the jobs ${spotText(query)}`,
        read: jobOf,
      }),

    watchPods: (query) =>
      watchAll(api, {
        path: pathFor('/api/v1', 'pods', query),
        query,
        what: `watch the pods ${spotText(query)}`,
        read: readPod,
      }),

    logs: (pod, container, query) => readLog(api, { namespace: place.namespace, pod, container }, query),

    async configMap(name, namespace = place.namespace, signal) {
      const path = `${pathOf('/api/v1', 'configmaps', namespace)}/${encodeURIComponent(name)}`;
      try {
        const found = await api.find<{ readonly data?: Readonly<Record<string, string>> }>({
          path,
          signal,
          what: `read the ConfigMap ${name} of ${place.context}/${namespace}`,
        });
        return found === null ? null : (found.data ?? {});
      } catch (error) {
        if (isForbidden(error)) return null;
        throw error;
      }
    },

    async writeConfigMap(name, namespace, data) {
      const parent = pathOf('/api/v1', 'configmaps', namespace);
      const path = `${parent}/${encodeURIComponent(name)}`;
      const what = `write the ConfigMap ${name} of ${place.context}/${namespace}`;
      for (let attempt = 1; ; attempt += 1) {
        const there = await api.find<{ readonly metadata?: object }>({ path, what });
        try {
          const kind = { apiVersion: 'v1', kind: 'ConfigMap' };
          if (there === null) {
            await api.ask({
              method: 'POST',
              path: parent,
              body: { ...kind, metadata: { name, namespace }, data },
              what,
            });
          } else {
            // With the version that was read: labels which somebody has set meanwhile are not lost.
            await api.ask({ method: 'PUT', path, body: { ...kind, metadata: there.metadata, data }, what });
          }
          return;
        } catch (error) {
          // Another has made or changed it, or has deleted it since the look.
          const code = error instanceof ClusterRefusal ? error.status.code : 0;
          const isPassing = code === 409 || (code === 404 && there !== null);
          if (!isPassing || attempt >= writeTries) throw error;
        }
      }
    },

    exec,

    attach: (target, request) => startAttach({ connection, api, place, namespace: place.namespace }, target, request),

    async put(target, request) {
      const { put } = await import('../../remote/copy.ts');
      return put((session) => exec(target, { ...session, terminal: null }), { ...request, site: 'container' });
    },

    async get(target, request) {
      const { get } = await import('../../remote/copy.ts');
      return get((session) => exec(target, { ...session, terminal: null }), { ...request, site: 'container' });
    },

    tunnel: (pod, port) => openTunnel({ connection, api, place, namespace: place.namespace }, pod, port),

    begin: () => connection.begin(),

    async close() {
      api.close();
    },
  };

  /** Whether that is what we asked for: it came into being since then, has our labels, and runs the same. */
  function isOwn(there: RawJob, name: string, began: number, asked: V1Job): boolean {
    const made = there as object as V1Job;
    const ours = [clusterLabels.owner, clusterLabels.installation, clusterLabels.job];
    const hasOurs = ours.every((label) => made.metadata?.labels?.[label] === asked.metadata?.labels?.[label]);
    const words = (job: V1Job): string => {
      const [container] = job.spec?.template.spec?.containers ?? [];
      return JSON.stringify([container?.image, container?.command, container?.args]);
    };
    const { createdAt } = readJob(there, flavorKey);
    return made.metadata?.name === name && hasOurs && createdAt >= began - clocksDiffer && words(made) === words(asked);
  }
}

/** The request never left this machine, so there is nothing to be searched for. */
function notSubmitted(error: JobmanError): JobmanError {
  return new JobmanError(error.message, error.code, [...error.lines, 'Nothing was submitted.'], { cause: error.cause });
}

/** In which Kueue tells its classes of priority, the newest first. */
const kueueVersions = ['v1beta2', 'v1beta1'];
/** How often a ConfigMap is written that others write too. */
const writeTries = 5;
/** How often a creation is asked for whose reply was lost. */
const createTries = 3;
/** The cluster's clock may go a little behind ours. */
const clocksDiffer: Duration = 10 * second;

/** `/api/v1/namespaces/vision/pods`, or that of the whole cluster. */
function pathOf(group: string, resource: string, namespace: string | undefined): string {
  return namespace === undefined
    ? `${group}/${resource}`
    : `${group}/namespaces/${encodeURIComponent(namespace)}/${resource}`;
}

/** Null when they may not be listed. */
async function eventsOf(api: Api, namespace: string, name: string): Promise<readonly ClusterEvent[] | null> {
  try {
    const found: ClusterEvent[] = [];
    const request: ApiRequest = {
      path: pathOf('/api/v1', 'events', namespace),
      query: { fieldSelector: `involvedObject.name=${name}` },
      what: `list the events of ${name}`,
    };
    for await (const { items } of api.pages(request, readEvent)) found.push(...items);
    return found;
  } catch (error) {
    if (isForbidden(error)) return null;
    throw error;
  }
}
