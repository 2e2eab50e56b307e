// Cluster: the implementation of app/cluster/cluster.ts over a real API server, with the requests about what surrounds jobs: nodes, priorities,
// quotas, events, ConfigMaps. What requests read is trimmed at once.

import type { Cluster, ClusterEvent, ClusterPlace, ClusterPriority } from '../../app/cluster/cluster.ts';
import type { Limits, RetryPolicy } from '../../http/client.ts';
import { createApi, type ListLimits, usualRetry } from './api.ts';
import { createConnection } from './connection.ts';
import { jobRequests } from './jobs.ts';
import type { KubeContext } from './kubeconfig.ts';
import { createLogin, type LoginPlace } from './login.ts';
import { podRequests } from './pods.ts';
import { listOf, pathFor, pathOf, type Scope, unlessForbidden, whereText } from './scope.ts';
import { type RawQuota, readEvent, readNode, readPriority, readQuota } from './objects.ts';
import { ClusterRefusal } from './status.ts';

/** The parts that a cluster is built from. */
export interface ClusterOf extends LoginPlace {
  readonly context: KubeContext;
  readonly flavorKey: string;
  readonly retry?: RetryPolicy;
  /** Called when a request takes long, with the words for it that follow "could not" in messages. */
  readonly onWait?: (what: string) => void;
  /** In place of the usual limits; for tests. */
  readonly limits?: Partial<Limits>;
  readonly lists?: Partial<ListLimits>;
}

/** The cluster of that context. Nothing is asked, and no login is made, before a method is called. */
export function createCluster({
  context,
  flavorKey,
  retry = usualRetry,
  onWait,
  limits,
  lists,
  ...around
}: ClusterOf): Cluster {
  const login = createLogin(context, around);
  const place: ClusterPlace = {
    context: context.name,
    server: context.cluster.server,
    namespace: context.namespace,
    user: login.user,
  };
  const connection = createConnection(context, login, around.env, { limits, retry });
  const api = createApi(connection, login, place, { retry, lists, onWait });
  const scope: Scope = { connection, api, place, flavorKey, now: around.now };
  return {
    place: () => place,
    ...jobRequests(scope),
    ...podRequests(scope),
    ...surroundingRequests(scope),
    ...configMapRequests(scope),
    async close() {
      api.close();
    },
  };
}

/** In which Kueue tells its classes of priority, the newest first. */
const kueueVersions = ['v1beta2', 'v1beta1'];

function surroundingRequests(
  scope: Scope,
): Pick<Cluster, 'nodes' | 'priorities' | 'queuePriorities' | 'events' | 'quotas' | 'refusedPods'> {
  const { place } = scope;
  return {
    nodes: () =>
      unlessForbidden(
        () => listOf(scope, { path: '/api/v1/nodes', what: `list the nodes of ${place.context}` }, readNode),
        null,
      ),

    priorities: () => prioritiesAt(scope, '/apis/scheduling.k8s.io/v1/priorityclasses', 'priority classes'),

    async queuePriorities() {
      for (const version of kueueVersions) {
        const path = `/apis/kueue.x-k8s.io/${version}/workloadpriorityclasses`;
        const found = await prioritiesAt(scope, path, 'priority classes of Kueue');
        if (found !== null) return found;
      }
      return null;
    },

    async events({ names }) {
      const all = await Promise.all(names.map((name) => eventsOf(scope, name)));
      if (all.includes(null)) return null;
      return all.flatMap((some) => some ?? []).toSorted((one, other) => one.lastAt - other.lastAt);
    },

    quotas: () =>
      unlessForbidden(async () => {
        const path = pathOf('/api/v1', 'resourcequotas', place.namespace);
        const all = await listOf(
          scope,
          { path, what: `list the quotas ${whereText(scope, {})}` },
          (raw: RawQuota) => raw,
        );
        return all.filter(({ spec }) => spec?.scopes === undefined && spec?.scopeSelector === undefined).map(readQuota);
      }, null),

    async refusedPods(query) {
      const request = {
        path: pathFor(scope, '/api/v1', 'events', query),
        query: { fieldSelector: 'involvedObject.kind=Job,reason=FailedCreate' },
        signal: query.signal,
        what: `list the events ${whereText(scope, query)}`,
      };
      const all = await unlessForbidden(() => listOf(scope, request, readEvent), []);
      const newest = new Map<string, ClusterEvent>();
      for (const event of all) {
        const before = newest.get(event.object.uid);
        if (before === undefined || before.lastAt <= event.lastAt) newest.set(event.object.uid, event);
      }
      return [...newest.values()];
    },
  };
}

async function prioritiesAt(scope: Scope, path: string, called: string): Promise<readonly ClusterPriority[] | null> {
  try {
    const request = { path, what: `list the ${called} of ${scope.place.context}` };
    return await unlessForbidden(() => listOf(scope, request, readPriority), null);
  } catch (error) {
    if (error instanceof ClusterRefusal && error.status.code === 404) return null;
    throw error;
  }
}

function eventsOf(scope: Scope, name: string): Promise<readonly ClusterEvent[] | null> {
  const request = {
    path: pathOf('/api/v1', 'events', scope.place.namespace),
    query: { fieldSelector: `involvedObject.name=${name}` },
    what: `list the events of ${name}`,
  };
  return unlessForbidden(() => listOf(scope, request, readEvent), null);
}

const writeTries = 5;

function configMapRequests({ api, place }: Scope): Pick<Cluster, 'configMap' | 'writeConfigMap'> {
  return {
    configMap(name, namespace = place.namespace, signal) {
      const path = `${pathOf('/api/v1', 'configmaps', namespace)}/${encodeURIComponent(name)}`;
      const what = `read the ConfigMap ${name} of ${place.context}/${namespace}`;
      return unlessForbidden(async () => {
        const found = await api.find<{ readonly data?: Readonly<Record<string, string>> }>({ path, signal, what });
        return found === null ? null : (found.data ?? {});
      }, null);
    },

    async writeConfigMap(name, namespace, data) {
      const parent = pathOf('/api/v1', 'configmaps', namespace);
      const path = `${parent}/${encodeURIComponent(name)}`;
      const what = `write the ConfigMap ${name} of ${place.context}/${namespace}`;
      const kind = { apiVersion: 'v1', kind: 'ConfigMap' };
      for (let attempt = 1; ; attempt += 1) {
        const there = await api.find<{ readonly metadata?: object }>({ path, what });
        try {
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
  };
}
