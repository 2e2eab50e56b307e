import type { Cluster } from '../../app/cluster/cluster.ts';
import { copyFromRemote, copyToRemote } from '../../remote/copy.ts';
import type { ApiRequest } from './api.ts';

import { startAttach, startExec } from './exec.ts';
import { readLog } from './logs.ts';
import { readPod, readPodOwner } from './objects.ts';
import { openTunnel } from './port-forward.ts';
import { pathForQuery, formatScope, type RequestScope } from './scope.ts';
import { watchAll } from './watch.ts';

const group = '/api/v1';

export function podRequests(
  scope: RequestScope,
): Pick<Cluster, 'pods' | 'unscheduledPods' | 'watchPods' | 'logs' | 'exec' | 'attach' | 'put' | 'get' | 'tunnel'> {
  const { api, clusterContext } = scope;
  const exec: Cluster['exec'] = (target, request) => startExec(scope, target, request);
  return {
    async *pods(query) {
      const { job, labels, fields, signal } = query;
      const selector = [...(job === undefined ? [] : [`job-name=${job}`]), ...(labels === undefined ? [] : [labels])];
      const request: ApiRequest = {
        path: pathForQuery(scope, group, 'pods', query),
        query: { labelSelector: selector.length === 0 ? undefined : selector.join(','), fieldSelector: fields },
        signal,
        purpose: job === undefined ? `list the pods ${formatScope(scope, query)}` : `list the pods of the job ${job}`,
      };
      for await (const { items } of api.listPages(request, readPod)) yield items;
    },

    async *unscheduledPods(query) {
      const request: ApiRequest = {
        path: pathForQuery(scope, group, 'pods', query),
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
        path: pathForQuery(scope, group, 'pods', query),
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
