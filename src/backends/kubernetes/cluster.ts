// Implements app/cluster/cluster.ts over an API server. Requests about nodes, priorities, quotas, events and ConfigMaps
// are here.

import type { Cluster, ClusterEvent, ClusterContext, PriorityClass } from '../../app/cluster/cluster.ts';
import type { RequestLimits, RetryPolicy } from '../../http/client.ts';
import { createApi, type ListLimits, defaultRetry } from './api.ts';
import { createConnection } from './connection.ts';
import { jobRequests } from './jobs.ts';
import type { KubeContext } from './kubeconfig.ts';
import { createLogin, type LoginContext } from './login.ts';
import { podRequests } from './pods.ts';
import { listAll, pathForQuery, pathOf, type RequestScope, unlessForbidden, formatScope } from './scope.ts';
import { type RawQuota, readEvent, readNode, readPriority, readQuota } from './objects.ts';
import { ClusterRefusal } from './status.ts';

export interface CreateClusterOptions extends LoginContext {
  readonly context: KubeContext;
  readonly flavorKey: string;
  readonly retry?: RetryPolicy;
  /** Called with the purpose of a request, such as `list the nodes of lab`, after two seconds. */
  readonly onWait?: (what: string) => void;
  /** For tests. */
  readonly limits?: Partial<RequestLimits>;
  readonly lists?: Partial<ListLimits>;
}

/** The cluster of a context. It makes no request and no login before a method is called. */
export function createCluster({
  context,
  flavorKey,
  retry = defaultRetry,
  onWait,
  limits,
  lists,
  ...loginContext
}: CreateClusterOptions): Cluster {
  const login = createLogin(context, loginContext);
  const clusterContext: ClusterContext = {
    context: context.name,
    server: context.cluster.server,
    namespace: context.namespace,
    user: login.user,
  };
  const connection = createConnection(context, login, loginContext.env, { limits, retry });
  const api = createApi(connection, login, clusterContext, { retry, lists, onWait });
  const scope: RequestScope = { connection, api, clusterContext, flavorKey, now: loginContext.now };
  return {
    context: () => clusterContext,
    ...jobRequests(scope),
    ...podRequests(scope),
    ...clusterRequests(scope),
    ...configMapRequests(scope),
    async close() {
      api.close();
    },
  };
}

/** The API versions with Kueue's WorkloadPriorityClass, newest first. */
const kueueVersions = ['v1beta2', 'v1beta1'];

function clusterRequests(
  scope: RequestScope,
): Pick<Cluster, 'nodes' | 'priorityClasses' | 'queuePriorityClasses' | 'events' | 'quotas' | 'podCreationErrors'> {
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

    async podCreationErrors(query) {
      const request = {
        path: pathForQuery(scope, '/api/v1', 'events', query),
        query: { fieldSelector: 'involvedObject.kind=Job,reason=FailedCreate' },
        signal: query.signal,
        purpose: `list the events ${formatScope(scope, query)}`,
      };
      const all = await unlessForbidden(() => listAll(scope, request, readEvent), []);
      const newest = new Map<string, ClusterEvent>();
      for (const event of all) {
        const before = newest.get(event.object.uid);
        if (before === undefined || before.lastAt <= event.lastAt) newest.set(event.object.uid, event);
      }
      return [...newest.values()];
    },
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
