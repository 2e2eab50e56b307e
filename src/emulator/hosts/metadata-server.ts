/**
 * The metadata server of one worker. Google's is at 169.254.169.254 of every VM. Hosts share the machine's network, so
 * each worker's server is at the worker's address: on port 80 where permitted, else on any. /etc/hosts of the host
 * resolves `metadata.google.internal`, and GCE_METADATA_HOST and GCE_METADATA_IP configure Google's libraries and JAX.
 * Behaviour: Google's page "Query VM metadata". A header is required, folders end in a slash, `recursive` returns JSON,
 * and `wait_for_change` answers after a change, which is how programs learn of their preemption.
 */
import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { maxGuestBytes, type GuestWriteResult } from '../world/guest-attributes.ts';
import { listen } from './ssh-server.ts';
import type { MetadataEntry } from './metadata-tree.ts';

export interface MetadataServer {
  /** `127.x.y.z`, with `:PORT` where it is not 80. */
  readonly host: string;
  /** Call this when the tree may have changed: it answers the requests that wait for a change. */
  notifyChange(): void;
  close(): Promise<void>;
}

export interface MetadataServerOptions {
  readonly address: string;
  /** The tree below `/computeMetadata/v1/`, read at each request; undefined when the worker no longer exists. */
  tree(): MetadataEntry | undefined;
  /** False when the request is not for Cloud Storage. */
  storage(request: IncomingMessage, response: ServerResponse): Promise<boolean>;
  /** Publishes a text at `namespace/key` for clients of the API; `null` removes it. */
  writeGuestAttribute(path: string, value: string | null): GuestWriteResult;
  isAllowed(request: IncomingMessage): boolean;
}

interface ChangeWaiter {
  readonly path: string;
  readonly etag: string;
  answer(): void;
}

const base = '/computeMetadata/v1';

const guestFolder = `${base}/instance/guest-attributes/`;

/** The longest wait for a change, in seconds; Google's server has a limit too. */
const maxWaitSeconds = 3600;

/** Rejects when the address itself cannot be used. */
export async function openMetadataServer(options: MetadataServerOptions): Promise<MetadataServer> {
  const waiting = new Set<ChangeWaiter>();
  const server = createServer((request, response) => {
    if (isStorageRequest(request)) {
      void serveStorage(options, request, response);
      return;
    }
    response.setHeader('Metadata-Flavor', 'Google');
    response.setHeader('Server', 'Metadata Server for VM');
    serve(options, waiting, request, response);
  });
  // Storage clients reuse a connection for the next file. A request fails if the server has just closed it.
  server.keepAliveTimeout = 60_000;
  const port = await listen(server, 80, options.address).then(
    () => 80,
    async () => {
      // Not root, or another process has port 80.
      await listen(server, 0, options.address);
      const address = server.address();
      return address !== null && typeof address === 'object' ? address.port : 0;
    },
  );
  return {
    host: port === 80 ? options.address : `${options.address}:${String(port)}`,
    notifyChange() {
      if (waiting.size === 0) return;
      for (const each of waiting) if (etagOf(find(options.tree(), each.path)) !== each.etag) each.answer();
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** Google's libraries request the root to detect a metadata server. Other paths outside the metadata are Storage's. */
function isStorageRequest({ url = '/' }: IncomingMessage): boolean {
  return !/^\/(\?|$|computeMetadata(\/|\?|$))/.test(url);
}

async function serveStorage(
  options: MetadataServerOptions,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const isDirect = request.headers['x-forwarded-for'] === undefined && request.headers.origin === undefined;
  if (!isDirect || !options.isAllowed(request)) return respond(response, 403, 'Not for you.\n');
  if (!(await options.storage(request, response))) respond(response, 404, 'Not found.\n');
}

function serve(
  options: MetadataServerOptions,
  waiting: Set<ChangeWaiter>,
  request: IncomingMessage,
  response: ServerResponse,
): void {
  const url = new URL(request.url ?? '/', 'http://metadata');
  if (url.pathname === '/' || url.pathname === '/computeMetadata/') {
    return respond(response, 200, url.pathname === '/' ? 'computeMetadata/\n' : 'v1/\n');
  }
  // A web page cannot send the header, and a forwarded request comes from another machine.
  const hasMetadataHeader =
    request.headers['metadata-flavor'] === 'Google' && request.headers['x-forwarded-for'] === undefined;
  if (!hasMetadataHeader || !options.isAllowed(request))
    return respond(response, 403, 'Missing Metadata-Flavor:Google header.\n');
  if (request.method === 'PUT' || request.method === 'DELETE') {
    if (url.pathname.startsWith(guestFolder)) return void writeGuest(options, url.pathname, request, response);
  }
  if (request.method !== 'GET' && request.method !== 'HEAD') return respond(response, 405, 'Method not allowed.\n');
  if (url.pathname !== base && !url.pathname.startsWith(`${base}/`)) return respond(response, 404, 'Not found.\n');
  const path = url.pathname.slice(base.length);
  const found = find(options.tree(), path);
  const isNotice = /^\/instance\/upcoming-maintenance\/?$/.test(path);
  if (found === undefined && isNotice) {
    return respond(response, 503, '{"error":"no notifications have been received yet, try again later"}');
  }
  if (found === undefined) return respond(response, 404, 'Not found.\n');
  // The documented request for the maintenance notice has no slash at the end and follows no redirect.
  const isNoticeAsJson = isNotice && url.searchParams.get('alt') === 'json';
  if (typeof found !== 'string' && !path.endsWith('/') && !isNoticeAsJson) {
    response.setHeader('Location', `${url.pathname}/${url.search}`);
    return respond(response, 301, '');
  }
  const respondNow = (): void => {
    const value = find(options.tree(), path);
    if (value === undefined) return respond(response, 404, 'Not found.\n');
    response.setHeader('ETag', etagOf(value));
    const isRecursive = isNoticeAsJson || url.searchParams.get('recursive')?.toLowerCase() === 'true';
    if (isRecursive && url.searchParams.get('alt') !== 'text') {
      return respond(
        response,
        200,
        JSON.stringify(asJson(value, /\/(guest-)?attributes/.test(path))),
        'application/json',
      );
    }
    if (typeof value === 'string') {
      return respond(response, 200, value, value.startsWith('{') ? 'application/json' : 'application/text');
    }
    return respond(response, 200, isRecursive ? flatList(value, '') : list(value));
  };
  if (url.searchParams.get('wait_for_change')?.toLowerCase() !== 'true') return respondNow();
  const lastSeen = url.searchParams.get('last_etag');
  const etag = etagOf(found);
  if (lastSeen !== null && lastSeen !== etag) return respondNow();
  const seconds = Math.min(
    maxWaitSeconds,
    Number(url.searchParams.get('timeout_sec') ?? maxWaitSeconds) || maxWaitSeconds,
  );
  const wait: ChangeWaiter = {
    path,
    etag,
    answer() {
      clearTimeout(timer);
      waiting.delete(wait);
      if (!response.destroyed) respondNow();
    },
  };
  // The longest time that one Node timer takes; a longer one fires at once.
  const timer = setTimeout(() => wait.answer(), Math.min(seconds * 1_000, 2 ** 31 - 1));
  response.on('close', () => {
    clearTimeout(timer);
    waiting.delete(wait);
  });
  waiting.add(wait);
}

async function writeGuest(
  options: MetadataServerOptions,
  pathname: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const parts: Buffer[] = [];
  let size = 0;
  try {
    for await (const part of request as AsyncIterable<Buffer>) {
      size += part.length;
      // Read a body to its end even when it is too long, so that the sender receives the answer.
      if (size <= maxGuestBytes) parts.push(part);
    }
  } catch {
    // The sender hung up before the end of the value, so store nothing.
    return void response.destroy();
  }
  const value = request.method === 'DELETE' ? null : Buffer.concat(parts).toString('utf8');
  const path = pathname.slice(guestFolder.length);
  switch (size > maxGuestBytes ? 'too-large' : options.writeGuestAttribute(path, value)) {
    case 'done':
      return respond(response, 200, '');
    case 'absent':
      return respond(response, 404, 'Not found.\n');
    case 'invalid-name':
      return respond(response, 400, 'A guest attribute is namespace/key, each of letters, digits, _ and -.\n');
    case 'too-large':
      return respond(response, 413, `The guest attributes of a VM are at most ${String(maxGuestBytes)} bytes.\n`);
  }
}

function find(tree: MetadataEntry | undefined, path: string): MetadataEntry | undefined {
  let at = tree;
  for (const name of path.split('/').filter((part) => part !== '')) {
    if (at === undefined || typeof at === 'string' || !Object.hasOwn(at, name)) return undefined;
    at = at[name];
  }
  return at;
}

function list(folder: Exclude<MetadataEntry, string>): string {
  const names = Object.entries(folder).map(([name, value]) => (typeof value === 'string' ? name : `${name}/`));
  return names
    .toSorted()
    .map((name) => `${name}\n`)
    .join('');
}

/** One `path value` line per text below the folder: the format of `recursive=true&alt=text`. */
function flatList(folder: MetadataEntry, prefix: string): string {
  if (typeof folder === 'string') return `${prefix} ${folder}\n`;
  return Object.entries(folder)
    .map(([name, value]) => flatList(value, prefix === '' ? name : `${prefix}/${name}`))
    .join('');
}

/** JSON in Google's form: the service's own names in camel case, numbered folders as lists, users' keys unchanged. */
function asJson(value: MetadataEntry, isUserKeys: boolean): unknown {
  if (typeof value === 'string') return value;
  const names = Object.keys(value);
  if (!isUserKeys && names.length > 0 && names.every((name) => /^\d+$/.test(name))) {
    return Object.values(value).map((each) => asJson(each, isUserKeys));
  }
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => [
      isUserKeys ? name : name.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase()),
      asJson(each, isUserKeys || name === 'attributes' || name === 'guest-attributes'),
    ]),
  );
}

function etagOf(value: MetadataEntry | undefined): string {
  return createHash('sha256')
    .update(JSON.stringify(value ?? null))
    .digest('hex')
    .slice(0, 16);
}

function respond(response: ServerResponse, status: number, text: string, type = 'application/text'): void {
  response.writeHead(status, { 'content-type': type, 'content-length': Buffer.byteLength(text) });
  response.end(text);
}
