// Surroundings: the requests about what decides where and when a job may run: nodes, classes of priority, quotas, events.

import type { Cluster, ClusterEvent, ClusterPriority } from '../../app/cluster/cluster.ts';
import { readEvent, readNode, readPriority, readQuota, type RawQuota } from './objects.ts';
import { listOf, pathFor, pathOf, unlessForbidden, whereText, type Scope } from './scope.ts';
import { ClusterRefusal } from './status.ts';

/** In which Kueue tells its classes of priority, the newest first. */
const kueueVersions = ['v1beta2', 'v1beta1'];

/** The part of Cluster that is about the surroundings of jobs. */
export function surroundingRequests(
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

/** Null where they may not be listed, or the cluster does not know the kind. */
async function prioritiesAt(scope: Scope, path: string, called: string): Promise<readonly ClusterPriority[] | null> {
  try {
    const request = { path, what: `list the ${called} of ${scope.place.context}` };
    return await unlessForbidden(() => listOf(scope, request, readPriority), null);
  } catch (error) {
    if (error instanceof ClusterRefusal && error.status.code === 404) return null;
    throw error;
  }
}

/** Null when they may not be listed. */
function eventsOf(scope: Scope, name: string): Promise<readonly ClusterEvent[] | null> {
  const request = {
    path: pathOf('/api/v1', 'events', scope.place.namespace),
    query: { fieldSelector: `involvedObject.name=${name}` },
    what: `list the events of ${name}`,
  };
  return unlessForbidden(() => listOf(scope, request, readEvent), null);
}
