// The clusters of the server in use, for the commands of this machine.

import { createServerCluster, createServerParts } from '../app/cluster/server-cluster.ts';
import type { ServerInUse } from '../app/server-in-use.ts';
import type { Io, Services } from '../app/services.ts';
import type { SessionRequest } from '../app/worker-access.ts';
import type { ServerClient } from '../http-client/client.ts';
import { httpPartsOf } from './server-client.ts';

/** Sends nothing before first use. The server registers, archives and completes what is submitted through it. */
export function openClusters(
  io: Io,
  server: ServerInUse,
  client: ServerClient,
): Pick<Services, 'cluster' | 'clusterSettings' | 'clusterSubmissions' | 'isClusterConfigured'> {
  const api = client.cluster;
  return {
    ...createServerParts(api, client),
    async cluster({ context, namespace, quiet }) {
      const [at, { createWorkerStreams }] = await Promise.all([
        api.context({ ...(context && { context }), ...(namespace && { namespace }) }),
        import('../http-client/worker-streams.ts'),
      ]);
      const streams = createWorkerStreams(httpPartsOf(io, server));
      const pods = streams.podsIn(at);
      const start = (target: Parameters<typeof pods.exec>[0]) => (session: SessionRequest) =>
        pods.exec(target, { ...session, terminal: null });
      return {
        ...createServerCluster(
          api,
          at,
          {
            ...pods,
            async put(target, request) {
              const { copyToRemote } = await import('../remote/copy.ts');
              return copyToRemote(start(target), { ...request, runsIn: 'container' });
            },
            async get(target, request) {
              const { copyFromRemote } = await import('../remote/copy.ts');
              return copyFromRemote(start(target), { ...request, runsIn: 'container' });
            },
          },
          () => {
            if (quiet === true || !io.stderr.isTerminal) return;
            io.stderr.write(`Waiting for the cluster of ${at.context} (${at.server}), through the server.\n`);
          },
        ),
        close: async () => streams.close(),
      };
    },
  };
}
