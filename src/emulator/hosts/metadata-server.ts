/**
 * The metadata server of one worker. Google's is at 169.254.169.254 of every VM; hosts here share the machine's network,
 * so each has its own at its own address: on port 80 where that is allowed, else on any. /etc/hosts of the host leads
 * `metadata.google.internal` there, and GCE_METADATA_HOST and GCE_METADATA_IP tell Google's libraries and JAX.
 *
 * Conduct: Google's page "Query VM metadata". A header is needed, folders end in a slash, `recursive` gives JSON, and
 * `wait_for_change` answers when something has changed, which is how programs learn of their preemption.
 */
import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { guestBytesMax, type GuestWrite } from '../world/guest-attributes.ts';
import { listen } from './login.ts';
import type { Metadata } from './metadata-tree.ts';

export interface MetadataServer {
  /** `127.x.y.z`, with `:PORT` where it is not 80. */
  readonly host: string;
  /** To be called when something may have changed: whoever waits for that is answered. */
  changed(): void;
  close(): Promise<void>;
}

export interface MetadataServerFacts {
  readonly address: string;
  /** The tree below `/computeMetadata/v1/`, asked for at each request; undefined once the worker is no more. */
  tree(): Metadata | undefined;
  /** Answers what is Storage's; false where it is not. */
  storage(request: IncomingMessage, response: ServerResponse): Promise<boolean>;
  /** Publishes a text at `namespace/key` for whoever asks the API, or takes it back (`null`). */
  writeGuestAttribute(path: string, value: string | null): GuestWrite;
  /** False for somebody who has no business here: another user of the machine. */
  mayAsk(request: IncomingMessage): boolean;
}

interface Waiting {
  readonly path: string;
  readonly etag: string;
  answer(): void;
}

const base = '/computeMetadata/v1';

/** The one folder that a worker may write to. */
const guestFolder = `${base}/instance/guest-attributes/`;

/** The longest that somebody is kept waiting for a change, in seconds; Google's connections end as well. */
const longestWait = 3600;

/** Opens it. Rejects when the address itself cannot be used. */
export async function openMetadataServer(facts: MetadataServerFacts): Promise<MetadataServer> {
  const waiting = new Set<Waiting>();
  const server = createServer((request, response) => {
    if (isStorages(request)) {
      void serveStorage(facts, request, response);
      return;
    }
    response.setHeader('Metadata-Flavor', 'Google');
    response.setHeader('Server', 'Metadata Server for VM');
    serve(facts, waiting, request, response);
  });
  // A client of Storage keeps its connection between two files; one that is ended while it is used again fails.
  server.keepAliveTimeout = 60_000;
  const port = await listen(server, 80, facts.address).then(
    () => 80,
    async () => {
      // Not root, or somebody has the port already.
      await listen(server, 0, facts.address);
      const address = server.address();
      return address !== null && typeof address === 'object' ? address.port : 0;
    },
  );
  return {
    host: port === 80 ? facts.address : `${facts.address}:${String(port)}`,
    changed() {
      if (waiting.size === 0) return;
      for (const each of waiting) if (etagOf(find(facts.tree(), each.path)) !== each.etag) each.answer();
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** The root is for those who look whether somebody is at home; all else outside of the metadata is Storage's. */
function isStorages({ url = '/' }: IncomingMessage): boolean {
  return !/^\/(\?|$|computeMetadata(\/|\?|$))/.test(url);
}

async function serveStorage(
  facts: MetadataServerFacts,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const mayAsk = request.headers['x-forwarded-for'] === undefined && request.headers.origin === undefined;
  if (!mayAsk || !facts.mayAsk(request)) return say(response, 403, 'Not for you.\n');
  if (!(await facts.storage(request, response))) say(response, 404, 'Not found.\n');
}

function serve(
  facts: MetadataServerFacts,
  waiting: Set<Waiting>,
  request: IncomingMessage,
  response: ServerResponse,
): void {
  const url = new URL(request.url ?? '/', 'http://metadata');
  if (url.pathname === '/' || url.pathname === '/computeMetadata/') {
    return say(response, 200, url.pathname === '/' ? 'computeMetadata/\n' : 'v1/\n');
  }
  // A page in a browser cannot send the header, and a forwarded request comes from somewhere else.
  const isGoogles = request.headers['metadata-flavor'] === 'Google' && request.headers['x-forwarded-for'] === undefined;
  if (!isGoogles || !facts.mayAsk(request)) return say(response, 403, 'Missing Metadata-Flavor:Google header.\n');
  if (request.method === 'PUT' || request.method === 'DELETE') {
    if (url.pathname.startsWith(guestFolder)) return void writeGuest(facts, url.pathname, request, response);
  }
  if (request.method !== 'GET' && request.method !== 'HEAD') return say(response, 405, 'Method not allowed.\n');
  if (url.pathname !== base && !url.pathname.startsWith(`${base}/`)) return say(response, 404, 'Not found.\n');
  const path = url.pathname.slice(base.length);
  const found = find(facts.tree(), path);
  const isNotice = /^\/instance\/upcoming-maintenance\/?$/.test(path);
  if (found === undefined && isNotice) {
    return say(response, 503, '{"error":"no notifications have been received yet, try again later"}');
  }
  if (found === undefined) return say(response, 404, 'Not found.\n');
  // The notice is given whole to the plain request that Google's page has for it, which follows no redirection.
  const isNoticeAsJson = isNotice && url.searchParams.get('alt') === 'json';
  if (typeof found !== 'string' && !path.endsWith('/') && !isNoticeAsJson) {
    response.setHeader('Location', `${url.pathname}/${url.search}`);
    return say(response, 301, '');
  }
  const now = (): void => {
    const value = find(facts.tree(), path);
    if (value === undefined) return say(response, 404, 'Not found.\n');
    response.setHeader('ETag', etagOf(value));
    const isRecursive = isNoticeAsJson || url.searchParams.get('recursive')?.toLowerCase() === 'true';
    if (isRecursive && url.searchParams.get('alt') !== 'text') {
      return say(response, 200, JSON.stringify(asJson(value, /\/(guest-)?attributes/.test(path))), 'application/json');
    }
    if (typeof value === 'string') {
      return say(response, 200, value, value.startsWith('{') ? 'application/json' : 'application/text');
    }
    return say(response, 200, isRecursive ? flatList(value, '') : list(value));
  };
  if (url.searchParams.get('wait_for_change')?.toLowerCase() !== 'true') return now();
  const lastSeen = url.searchParams.get('last_etag');
  const etag = etagOf(found);
  if (lastSeen !== null && lastSeen !== etag) return now();
  const seconds = Math.min(longestWait, Number(url.searchParams.get('timeout_sec') ?? longestWait) || longestWait);
  const wait: Waiting = {
    path,
    etag,
    answer() {
      clearTimeout(timer);
      waiting.delete(wait);
      if (!response.destroyed) now();
    },
  };
  // One timer of Node's takes no longer time, and would end it at once.
  const timer = setTimeout(() => wait.answer(), Math.min(seconds * 1_000, 2 ** 31 - 1));
  response.on('close', () => {
    clearTimeout(timer);
    waiting.delete(wait);
  });
  waiting.add(wait);
}

async function writeGuest(
  facts: MetadataServerFacts,
  pathname: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const parts: Buffer[] = [];
  let size = 0;
  try {
    for await (const part of request as AsyncIterable<Buffer>) {
      size += part.length;
      // A body that is too long is read to its end all the same, so that its sender hears the answer.
      if (size <= guestBytesMax) parts.push(part);
    }
  } catch {
    // A sender that hung up in the middle of a value has not said it.
    return void response.destroy();
  }
  const value = request.method === 'DELETE' ? null : Buffer.concat(parts).toString('utf8');
  const path = pathname.slice(guestFolder.length);
  switch (size > guestBytesMax ? 'too-large' : facts.writeGuestAttribute(path, value)) {
    case 'done':
      return say(response, 200, '');
    case 'absent':
      return say(response, 404, 'Not found.\n');
    case 'misnamed':
      return say(response, 400, 'A guest attribute is namespace/key, each of letters, digits, _ and -.\n');
    case 'too-large':
      return say(response, 413, `The guest attributes of a VM are at most ${String(guestBytesMax)} bytes.\n`);
  }
}

function find(tree: Metadata | undefined, path: string): Metadata | undefined {
  let at = tree;
  for (const name of path.split('/').filter((part) => part !== '')) {
    if (at === undefined || typeof at === 'string' || !Object.hasOwn(at, name)) return undefined;
    at = at[name];
  }
  return at;
}

function list(folder: Exclude<Metadata, string>): string {
  const names = Object.entries(folder).map(([name, value]) => (typeof value === 'string' ? name : `${name}/`));
  return names
    .toSorted()
    .map((name) => `${name}\n`)
    .join('');
}

/** `path value` of every text below, which is what `recursive=true&alt=text` gives. */
function flatList(folder: Metadata, prefix: string): string {
  if (typeof folder === 'string') return `${prefix} ${folder}\n`;
  return Object.entries(folder)
    .map(([name, value]) => flatList(value, prefix === '' ? name : `${prefix}/${name}`))
    .join('');
}

/** JSON as Google writes it: the service's own names in camel case, numbered folders as lists, people's keys as they are. */
function asJson(value: Metadata, isPeoples: boolean): unknown {
  if (typeof value === 'string') return value;
  const names = Object.keys(value);
  if (!isPeoples && names.length > 0 && names.every((name) => /^\d+$/.test(name))) {
    return Object.values(value).map((each) => asJson(each, isPeoples));
  }
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => [
      isPeoples ? name : name.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase()),
      asJson(each, isPeoples || name === 'attributes' || name === 'guest-attributes'),
    ]),
  );
}

function etagOf(value: Metadata | undefined): string {
  return createHash('sha256')
    .update(JSON.stringify(value ?? null))
    .digest('hex')
    .slice(0, 16);
}

function say(response: ServerResponse, status: number, text: string, type = 'application/text'): void {
  response.writeHead(status, { 'content-type': type, 'content-length': Buffer.byteLength(text) });
  response.end(text);
}
