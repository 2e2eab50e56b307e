// The emulator behind a proxy that records the requests, and that answers wrongly if a test says so. A test may put
// a node, a queued resource or an operation into the emulator's world in any state. Its time stands still.

import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  createGoogleApiClient,
  createTpuApi,
  type Operation,
  type QueuedResource,
  type TpuApi,
  type TpuNode,
} from '../../../../src/backends/tpu/api.ts';
import { createFrontEnd } from '../../../../src/emulator/http/front-end.ts';
import type { NodeRecord, OperationRecord, QueuedResourceRecord } from '../../../../src/emulator/world/records.ts';
import type { World } from '../../../../src/emulator/world/world.ts';
import { openBareWorld } from '../../../emulator/bare-world.ts';

export interface RecordedRequest {
  readonly method: string;
  /** `/v2/projects/p/locations/us-central2-b/nodes`, without what follows the question mark. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: unknown;
}

/**
 * The fault of a request. `drop`: the connection closes before anything happens. `lose`: it happens, and the reply is lost.
 * Otherwise this reply instead of the emulator's.
 */
export type Fault = 'drop' | 'lose' | { readonly status: number; readonly body: unknown };

export interface TpuServer {
  readonly url: string;
  readonly api: TpuApi;
  readonly world: World;
  readonly requests: RecordedRequest[];
  /** Zones that a list says it could not ask. */
  unreachable: string[];
  /** The number of items on a page of a list. */
  pageLength: number;
  /** The full names of what the lists leave out although it is there. */
  readonly unlisted: Set<string>;
  fault: (asked: RecordedRequest) => Fault | undefined;
  /** The address to which every request is redirected, as by a login page of the network. */
  redirect: string | undefined;
  addNode(node: TpuNode): void;
  addQueued(queued: QueuedResource): void;
  addOperation(operation: Operation): void;
  /** Nothing exists any more. */
  empty(): void;
  /** The questions so far as `GET nodes/x`, `DELETE queuedResources/y?force=true`. */
  requestLines(): string[];
}

export const location = { project: 'p', zone: 'us-central2-b' };
export const parent = `projects/${location.project}/locations/${location.zone}`;

/** An error as Google's front end writes it. */
export function failure(code: number, status: string, message: string): Fault {
  return { status: code, body: { error: { code, status, message } } };
}

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
  const folder = mkdtempSync(join(tmpdir(), 'tpu-server-'));
  const { world, close: closeWorld } = openBareWorld(folder);
  const { http, port, close } = await listen();
  scope.after(async () => {
    await close();
    closeWorld();
    rmSync(folder, { recursive: true });
  });
  const front = createFrontEnd({
    world,
    storage: () => Promise.resolve(false),
    uid: process.getuid?.() ?? 0,
    info: () => ({}),
    waitForHosts: () => Promise.resolve(),
    onActivity: () => undefined,
  });
  const url = `http://127.0.0.1:${port}`;

  const server: TpuServer = {
    url,
    api: createTpuApi(
      createGoogleApiClient({
        env: {},
        endpoint: () => Promise.resolve(url),
        credentials: { headers: () => Promise.resolve({}), invalidate: () => 'log in again' },
      }),
    ),
    world,
    requests: [],
    unreachable: [],
    pageLength: 500,
    unlisted: new Set(),
    fault: () => undefined,
    redirect: undefined,
    addNode: (node) => world.nodes.put(node.name, nodeRecord(node)),
    addQueued: (queued) => world.queued.put(queued.name, queuedRecord(queued)),
    addOperation: (operation) => world.operations.put(operation.name, operationRecord(operation)),
    empty() {
      for (const table of [world.nodes, world.queued]) for (const { name } of table.values()) table.remove(name);
    },
    requestLines: () =>
      server.requests.map(({ method, path, query }) => {
        const shown = [...query].filter(([name]) => name !== 'prettyPrint');
        const queryText = shown.length === 0 ? '' : `?${new URLSearchParams(shown).toString()}`;
        return `${method} ${path.replace(new RegExp(`^/v2(alpha1)?/${parent}/`), '')}${queryText}`;
      }),
  };

  async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { recorded, text } = await read(request, url);
    server.requests.push(recorded);
    const fault = server.fault(recorded);
    if (fault === 'drop') {
      request.socket.destroy();
      return;
    }
    let reply = fault;
    if (typeof reply !== 'object') {
      const sent = new URL(request.url ?? '', url);
      if (recorded.method === 'GET' && /\/(nodes|queuedResources|operations)$/.test(recorded.path))
        sent.searchParams.set('pageSize', String(server.pageLength));
      const body = text === '' ? {} : { body: text };
      const headers = { host: `127.0.0.1:${port}` };
      const emulatorReply = await front.fetch(new Request(sent, { method: recorded.method, headers, ...body }), {
        incoming: request,
        outgoing: response,
      });
      reply = { status: emulatorReply.status, body: withListFaults(server, await emulatorReply.json()) };
    }
    if (fault === 'lose') {
      request.socket.destroy();
    } else if (server.redirect !== undefined) {
      response.writeHead(302, { location: server.redirect }).end();
    } else {
      const { status, body } = reply;
      response.writeHead(status, { 'content-type': 'application/json; charset=UTF-8' });
      response.end(typeof body === 'string' ? body : JSON.stringify(body));
    }
  }

  http.on('request', (request, response) => void respond(request, response));
  return server;
}

async function read(
  request: IncomingMessage,
  url: string,
): Promise<{ readonly recorded: RecordedRequest; readonly text: string }> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  const text = Buffer.concat(parts).toString();
  const { pathname, searchParams } = new URL(request.url ?? '', url);
  const recorded = {
    method: request.method ?? '',
    path: decodeURIComponent(pathname),
    query: searchParams,
    headers: request.headers,
    body: text === '' ? undefined : (JSON.parse(text) as unknown),
  };
  return { recorded, text };
}

/** A list as the test wants it to be incomplete. */
function withListFaults({ unlisted, unreachable }: TpuServer, body: unknown): unknown {
  const lists = Object.entries(body as object).map(([field, items]: [string, unknown]) => [
    field,
    Array.isArray(items) ? items.filter((item: { name?: string }) => !unlisted.has(item.name ?? '')) : items,
  ]);
  const isAnswer = !lists.some(([field]) => field === 'error' || field === 'name');
  return { ...Object.fromEntries(lists), ...(isAnswer && unreachable.length > 0 ? { unreachable } : {}) };
}

/** The parts of a resource's name, and the fields that all records have. */
function recordedOf(name: string, createTime = '2026-05-01T11:59:00Z') {
  const [, project = '', , zone = '', , id = ''] = name.split('/');
  return { name, project, zone, version: 'v2alpha1', createTime: Date.parse(createTime), id } as const;
}

function nodeRecord({
  name,
  state,
  networkEndpoints,
  queuedResource,
  createTime,
  health,
  ...asked
}: TpuNode): NodeRecord {
  const recorded = recordedOf(name, createTime);
  return {
    ...recorded,
    nodeId: recorded.id,
    id: '1',
    spec: { networkConfig: { enableExternalIps: true }, ...asked },
    type: asked.acceleratorType ?? 'v4-16',
    // Also states that the emulator never comes to.
    state: state as NodeRecord['state'],
    health: (health ?? null) as NodeRecord['health'],
    queuedResource: queuedResource ?? null,
    multislice: false,
    hostHash: '0a1b2c3d',
    workers: (networkEndpoints ?? []).map(({ ipAddress = '' }, index) => ({
      index,
      address: ipAddress,
      hostKey: '',
      hostKeyPublic: '',
      boot: 1,
      power: true,
      hung: false,
    })),
    operation: null,
  };
}

function queuedRecord({ name, createTime, tpu, state, ...asked }: QueuedResource): QueuedResourceRecord {
  const recorded = recordedOf(name, createTime);
  return {
    ...recorded,
    queuedId: recorded.id,
    uid: '1',
    spec: asked,
    nodes: (tpu?.nodeSpec ?? []).map(({ nodeId = '', node = {} }) => ({ nodeId, node: { ...node } })),
    multislice: false,
    state: state?.state as QueuedResourceRecord['state'],
    initiator: 'SERVICE',
    error: null,
    validAfter: null,
    validUntil: null,
  };
}

function operationRecord({ name, metadata = {}, done = false, error }: Operation): OperationRecord {
  const { target = '', verb = '', createTime } = metadata;
  const recorded = recordedOf(name, createTime);
  const isDone = { endTime: done ? recorded.createTime : null, error: (error ?? null) as OperationRecord['error'] };
  return { ...recorded, target, verb, ...isDone, response: null, cancelRequested: false };
}
