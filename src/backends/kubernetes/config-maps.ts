// ConfigMaps: small texts that a cluster keeps for others to read.

import type { Cluster } from '../../app/cluster/cluster.ts';
import { pathOf, unlessForbidden, type Scope } from './scope.ts';
import { ClusterRefusal } from './status.ts';

/** How often a ConfigMap is written that others write too. */
const writeTries = 5;

/** The part of Cluster that is about ConfigMaps. */
export function configMapRequests({ api, place }: Scope): Pick<Cluster, 'configMap' | 'writeConfigMap'> {
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
