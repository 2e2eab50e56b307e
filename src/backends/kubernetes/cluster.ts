// Cluster: the door of app/cluster/cluster.ts to a real API server. Each method is one or a few requests; what they read is
// trimmed at once.

import type { Cluster, ClusterPlace } from '../../app/cluster/cluster.ts';
import type { Limits } from '../../http/client.ts';
import type { RetryPolicy } from '../../http/retry.ts';
import { createApi, usualRetry } from './api.ts';
import { configMapRequests } from './config-maps.ts';
import { createConnection } from './connection.ts';
import { jobRequests } from './jobs.ts';
import type { KubeContext } from './kubeconfig.ts';
import type { ListLimits } from './list-pages.ts';
import { createLogin, type LoginPlace } from './login.ts';
import { podRequests } from './pods.ts';
import type { Scope } from './scope.ts';
import { surroundingRequests } from './surroundings.ts';

/** The parts that a cluster is built from. */
export interface ClusterOf extends LoginPlace {
  readonly context: KubeContext;
  /** The annotation that holds a flavor's name. */
  readonly flavorKey: string;
  /** How often what is refused for now is asked again. */
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
