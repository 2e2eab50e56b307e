// Pods: the requests about pods and about what runs in them.

import type { Cluster } from '../../app/cluster/cluster.ts';
import { get, put } from '../../remote/copy.ts';
import type { ApiRequest } from './api.ts';

import { startAttach, startExec } from './exec.ts';
import { readLog } from './logs.ts';
import { readPod, readPodOwner } from './objects.ts';
import { openTunnel } from './port-forward.ts';
import { pathFor, whereText, type Scope } from './scope.ts';
import { watchAll } from './watch.ts';

const group = '/api/v1';

/** The part of Cluster that is about pods. */
export function podRequests(
  scope: Scope,
): Pick<Cluster, 'pods' | 'homeless' | 'watchPods' | 'logs' | 'exec' | 'attach' | 'put' | 'get' | 'tunnel'> {
  const { api, place } = scope;
  const exec: Cluster['exec'] = (target, request) => startExec(scope, target, request);
  return {
    async *pods(query) {
      const { job, labels, fields, signal } = query;
      const selector = [...(job === undefined ? [] : [`job-name=${job}`]), ...(labels === undefined ? [] : [labels])];
      const request: ApiRequest = {
        path: pathFor(scope, group, 'pods', query),
        query: { labelSelector: selector.length === 0 ? undefined : selector.join(','), fieldSelector: fields },
        signal,
        what: job === undefined ? `list the pods ${whereText(scope, query)}` : `list the pods of the job ${job}`,
      };
      for await (const { items } of api.pages(request, readPod)) yield items;
    },

    async *homeless(query) {
      const request: ApiRequest = {
        path: pathFor(scope, group, 'pods', query),
        query: { labelSelector: query.labels, fieldSelector: 'spec.nodeName=,status.phase=Pending' },
        // Half of a pod, and of what it costs to write and to read it.
        accept: 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json',
        signal: query.signal,
        what: `list the pods ${whereText(scope, query)}`,
      };
      for await (const { items } of api.pages(request, readPodOwner)) yield items;
    },

    watchPods: (query) =>
      watchAll(api, {
        path: pathFor(scope, group, 'pods', query),
        query,
        what: `watch the pods ${whereText(scope, query)}`,
        read: readPod,
      }),

    logs: (pod, container, query) => readLog(api, { namespace: place.namespace, pod, container }, query),

    exec,
    attach: (target, request) => startAttach(scope, target, request),
    put: (target, request) =>
      put((session) => exec(target, { ...session, terminal: null }), { ...request, site: 'container' }),
    get: (target, request) =>
      get((session) => exec(target, { ...session, terminal: null }), { ...request, site: 'container' }),
    tunnel: (pod, port) => openTunnel(scope, pod, port),
  };
}
