/** A fake API server: records the requests, and answers as the test sets it up. */
import assert from 'node:assert/strict';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises';
import type { Cluster } from '../../../../src/app/cluster/cluster.ts';
import { JobmanError } from '../../../../src/app/errors.ts';
import { createCluster, type CreateClusterOptions } from '../../../../src/backends/kubernetes/cluster.ts';
import type { KubeContext } from '../../../../src/backends/kubernetes/kubeconfig.ts';

export interface RecordedRequest {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly body: string;
  readonly headers: IncomingMessage['headers'];
}

interface ObjectReply {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly json: object;
}

/** An object is sent as JSON with 200. `drop` closes the connection; `parts` are sent with a pause in ms after each, and the connection is then cut or ended. */
export type Reply =
  | ObjectReply
  | { readonly drop: true }
  | { readonly parts: Iterable<string>; readonly cut?: true; readonly every?: number };

export interface FakeServer {
  readonly url: string;
  readonly requests: readonly RecordedRequest[];
  /** `GET /api/v1/nodes`, one line for each request. */
  requestLines(): readonly string[];
  /** The cluster at this server; its namespace is `vision`. */
  cluster(
    context?: Partial<KubeContext>,
    more?: Pick<CreateClusterOptions, 'limits' | 'listTimeout' | 'onWait' | 'retry'>,
  ): Cluster;
}

/** A Status as an API server writes it. */
export function status(
  code: number,
  reason: string,
  message: string,
  details: object = {},
  more: object = {},
): ObjectReply {
  return { status: code, json: { kind: 'Status', status: 'Failure', code, reason, message, details, ...more } };
}

/** Closed, with its clusters, when the test is over. */
export async function openServer(
  scope: { after(fn: () => Promise<void>): void },
  answer: (requests: RecordedRequest, number: number) => Reply,
): Promise<FakeServer> {
  const requests: RecordedRequest[] = [];
  const server = createServer((incoming, outgoing) => {
    void (async () => {
      let body = '';
      for await (const part of incoming) body += String(part);
      const { pathname: path, searchParams: query } = new URL(incoming.url ?? '', 'http://x');
      const one = { method: incoming.method ?? '', path, query, body, headers: incoming.headers };
      requests.push(one);
      const reply = answer(one, requests.length);
      if ('drop' in reply) outgoing.destroy();
      else if ('parts' in reply) {
        outgoing.writeHead(200, { 'content-type': 'text/plain' });
        for (const part of reply.parts) {
          if (outgoing.destroyed) return;
          await new Promise((resolve) => outgoing.write(part, resolve));
          await (reply.every === undefined ? turn() : sleep(reply.every));
        }
        if (reply.cut === true) outgoing.destroy();
        else outgoing.end();
      } else {
        outgoing.writeHead(reply.status ?? 200, { 'content-type': 'application/json', ...reply.headers });
        outgoing.end(JSON.stringify(reply.json));
      }
    })();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const clusters: Cluster[] = [];
  scope.after(async () => {
    for (const cluster of clusters) await cluster.close();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url,
    requests,
    requestLines: () => requests.map(({ method, path }) => `${method} ${path}`),
    cluster(context = {}, more = {}) {
      const cluster = createCluster({
        context: {
          name: 'lab',
          namespace: 'vision',
          cluster: { server: url },
          user: { token: 'secret' },
          userName: 'ada',
          source: 'a test',
          ...context,
        },
        flavorKey: 'jobman/flavor',
        env: {},
        now: () => now,
        retry: { maxTries: 4, maxTriesIfBroken: 2, initialDelay: 1, maxDelay: 10 },
        ...more,
      });
      clusters.push(cluster);
      return cluster;
    },
  };
}

/** The JobmanError with which that work fails. */
export async function failure(work: Promise<unknown>): Promise<JobmanError> {
  const [ended] = await Promise.allSettled([work]);
  const error: unknown = ended.status === 'rejected' ? ended.reason : undefined;
  assert.ok(error instanceof JobmanError, `it ended with ${String(error)}`);
  return error;
}

/** The current time of the tests. */
export const now = Date.UTC(2026, 10, 22, 1, 0, 0);
