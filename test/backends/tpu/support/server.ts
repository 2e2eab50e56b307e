// A server that speaks as much of the Cloud TPU API as the adapter reads, keeps no life of its own and writes down what
// it was asked. A test puts things on its shelves and says which questions go wrong.

import { createServer } from 'node:http';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createTpuApi } from '../../../../src/backends/tpu/api.ts';
import type { Operation, QueuedResource, TpuApi, TpuNode } from '../../../../src/backends/tpu/api.ts';
import { createCaller } from '../../../../src/backends/tpu/call.ts';

export interface Asked {
  readonly method: string;
  /** `/v2/projects/p/locations/us-central2-b/nodes`, without what follows the question mark. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: unknown;
}

/**
 * How a question goes wrong. `drop`: the line is cut before anything happens. `lose`: it happens, and the reply is lost.
 * Otherwise this reply instead of what would have happened.
 */
export type Fault = 'drop' | 'lose' | { readonly status: number; readonly body: unknown };

export interface TpuServer {
  readonly url: string;
  readonly api: TpuApi;
  readonly asked: Asked[];
  readonly nodes: Map<string, TpuNode>;
  readonly queued: Map<string, QueuedResource>;
  readonly operations: Operation[];
  /** Zones that a list says it could not ask. */
  unreachable: string[];
  /** How many things a page of a list holds. */
  pageLength: number;
  /** What the lists leave out although it is there. */
  readonly unlisted: Set<string>;
  fault: (asked: Asked) => Fault | undefined;
  /** Where every question is sent on to, as a login page of the network in between does. */
  redirect: string | undefined;
  /** The questions so far as `GET nodes/x`, `DELETE queuedResources/y?force=true`. */
  questions(): string[];
}

export const place = { project: 'p', zone: 'us-central2-b' };
export const parent = `projects/${place.project}/locations/${place.zone}`;

/** An error as Google's front end writes it. */
export function failure(code: number, status: string, message: string): Fault {
  return { status: code, body: { error: { code, status, message } } };
}

const notFound = (name: string): Fault => failure(404, 'NOT_FOUND', `Resource '${name}' was not found`);

/** A server that answers nothing yet, on a port of its own. */
export async function listen(): Promise<{
  readonly http: Server;
  readonly port: number;
  close(this: void): Promise<void>;
}> {
  const http = createServer();
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  return {
    http,
    port: (http.address() as AddressInfo).port,
    async close() {
      const closed = new Promise((resolve) => http.close(resolve));
      http.closeAllConnections();
      await closed;
    },
  };
}

export async function openTpuServer(scope: { after(fn: () => Promise<void>): void }): Promise<TpuServer> {
  const { http, port, close } = await listen();
  scope.after(close);
  const url = `http://127.0.0.1:${port}`;

  const server: TpuServer = {
    url,
    api: createTpuApi(
      createCaller({
        env: {},
        endpoint: () => Promise.resolve(url),
        credentials: { headers: () => Promise.resolve({}), refused: () => 'log in again' },
      }),
    ),
    asked: [],
    nodes: new Map(),
    queued: new Map(),
    operations: [],
    unreachable: [],
    pageLength: Number.POSITIVE_INFINITY,
    unlisted: new Set(),
    fault: () => undefined,
    redirect: undefined,
    questions: () =>
      server.asked.map(({ method, path, query }) => {
        const words = query.size === 0 ? '' : `?${query.toString()}`;
        return `${method} ${path.replace(new RegExp(`^/v2(alpha1)?/${parent}/`), '')}${words}`;
      }),
  };

  http.on('request', (request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      const { pathname, searchParams } = new URL(request.url ?? '', url);
      const text = Buffer.concat(parts).toString();
      const asked: Asked = {
        method: request.method ?? '',
        path: decodeURIComponent(pathname),
        query: searchParams,
        headers: request.headers,
        body: text === '' ? undefined : JSON.parse(text),
      };
      server.asked.push(asked);
      const fault = server.fault(asked);
      if (fault === 'drop') {
        request.socket.destroy();
        return;
      }
      const reply = typeof fault === 'object' ? fault : answer(server, asked);
      if (fault === 'lose') {
        request.socket.destroy();
        return;
      }
      const { status, body } = reply as Exclude<Fault, string>;
      if (server.redirect !== undefined) {
        response.writeHead(302, { location: server.redirect }).end();
        return;
      }
      response.writeHead(status, { 'content-type': 'application/json; charset=UTF-8' });
      response.end(typeof body === 'string' ? body : JSON.stringify(body));
    });
  });
  return server;
}

const ok = (body: unknown): Fault => ({ status: 200, body });

function answer(server: TpuServer, { method, path, query, body }: Asked): Fault {
  const name = path.replace(/^\/v2(alpha1)?\//, '');
  const [, collection = '', id] = /^projects\/[^/]+\/locations\/[^/]+\/(\w+)(?:\/([^/]+))?$/.exec(name) ?? [];
  const shelf = collection === 'nodes' ? server.nodes : collection === 'queuedResources' ? server.queued : undefined;
  if (method === 'GET' && id === undefined) {
    const items = collection === 'operations' ? server.operations : [...(shelf?.values() ?? [])];
    return page(
      server,
      collection,
      items.filter((item) => !server.unlisted.has(item.name)),
      query,
    );
  }
  if (method === 'GET' && shelf !== undefined) return shelf.has(id ?? '') ? ok(shelf.get(id ?? '')) : notFound(name);
  if (method === 'DELETE' && shelf !== undefined) {
    return shelf.delete(id ?? '') ? ok(operation(server, 'delete', name)) : notFound(name);
  }
  if (method === 'POST' && shelf !== undefined && id === undefined) {
    const fresh = query.get('nodeId') ?? query.get('queuedResourceId') ?? '';
    const target = `${name}/${fresh}`;
    if (shelf.has(fresh)) return failure(409, 'ALREADY_EXISTS', `Resource '${target}' already exists`);
    if (collection === 'nodes') server.nodes.set(fresh, { ...(body as object), name: target, state: 'CREATING' });
    else {
      const state = { state: 'WAITING_FOR_RESOURCES', stateInitiator: 'SERVICE' };
      server.queued.set(fresh, { ...(body as object), name: target, state });
    }
    return ok(operation(server, 'create', target));
  }
  return { status: 404, body: '<!DOCTYPE html><title>Error 404 (Not Found)</title>' };
}

function operation(server: TpuServer, verb: string, target: string): Operation {
  const made: Operation = {
    name: `${parent}/operations/operation-${1_735_689_600_000 + server.operations.length}-62a1b2c3d4e5f-0a1b2c3d-4e5f6071`,
    metadata: { verb, target, createTime: '2026-05-01T12:00:00.123456789Z' },
  };
  server.operations.push(made);
  return made;
}

function page(
  { pageLength, unreachable }: TpuServer,
  field: string,
  items: readonly object[],
  query: URLSearchParams,
): Fault {
  const from = Number(query.get('pageToken') ?? 0);
  const next = from + pageLength;
  // Like the real one, it leaves out what is empty.
  return ok({
    ...(items.length === 0 ? {} : { [field]: items.slice(from, next) }),
    ...(next < items.length ? { nextPageToken: String(next) } : {}),
    ...(unreachable.length === 0 ? {} : { unreachable }),
  });
}
