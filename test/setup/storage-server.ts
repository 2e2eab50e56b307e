/**
 * As much of Google's storage API (JSON, v1) as gcsfuse asks for: one bucket in memory, on loopback, without a login.
 * https://cloud.google.com/storage/docs/json_api/v1
 */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { World } from '../support/world.ts';

export interface StorageServer {
  /** `http://127.0.0.1:port`. */
  readonly url: string;
  /** The text of that object; undefined when there is none. */
  read(name: string): string | undefined;
  put(name: string, content: string): void;
}

interface Kept {
  readonly bytes: Buffer;
  readonly generation: number;
}

/** Serves that bucket until the test is over. */
export async function openStorage(world: World, bucket: string): Promise<StorageServer> {
  const kept = new Map<string, Kept>();
  let generation = 1;

  function put(name: string, bytes: Buffer): object {
    generation += 1;
    const one = { bytes, generation };
    kept.set(name, one);
    return resource(name, one);
  }

  function resource(name: string, { bytes, generation: number }: Kept): object {
    const at = new Date(1_700_000_000_000 + number * 1_000).toISOString();
    return {
      kind: 'storage#object',
      name,
      bucket,
      generation: String(number),
      metageneration: '1',
      size: String(bytes.length),
      md5Hash: createHash('md5').update(bytes).digest('base64'),
      timeCreated: at,
      updated: at,
    };
  }

  function list(query: URLSearchParams): object {
    const prefix = query.get('prefix') ?? '';
    const delimiter = query.get('delimiter') ?? '';
    const prefixes = new Set<string>();
    const items: object[] = [];
    for (const [name, one] of [...kept].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
      if (!name.startsWith(prefix)) continue;
      const at = delimiter === '' ? -1 : name.indexOf(delimiter, prefix.length);
      if (at >= 0) prefixes.add(name.slice(0, at + delimiter.length));
      if (at < 0 || (query.get('includeTrailingDelimiter') === 'true' && at === name.length - 1))
        items.push(resource(name, one));
    }
    return { kind: 'storage#objects', items, prefixes: [...prefixes] };
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://storage');
    const body = await bodyOf(request);
    const json = (value: object, status = 200): void => {
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify(value));
    };
    if (pathname === `/upload/storage/v1/b/${bucket}/o`) {
      json(put(searchParams.get('name') ?? '', contentOf(request, body)));
      return;
    }
    if (pathname === `/storage/v1/b/${bucket}/o`) {
      json(list(searchParams));
      return;
    }
    const about = name(pathname, `/storage/v1/b/${bucket}/o/`);
    const bytes = name(pathname, `/${bucket}/`);
    const one = kept.get(about ?? bytes ?? '');
    if (one === undefined) {
      json({ error: { code: 404, message: 'Not Found' } }, 404);
    } else if (about === undefined) {
      sendBytes(request, response, one);
    } else if (request.method === 'DELETE') {
      kept.delete(about);
      response.writeHead(204).end();
    } else json(resource(about, one));
  }

  const server = createServer((request, response) => void answer(request, response));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  world.atEnd(() => {
    server.close();
    server.closeAllConnections();
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    read: (name) => kept.get(name)?.bytes.toString(),
    put: (name, content) => void put(name, Buffer.from(content)),
  };
}

/** The object's name behind that beginning of a path. */
function name(pathname: string, start: string): string | undefined {
  return pathname.startsWith(start) ? decodeURIComponent(pathname.slice(start.length)) : undefined;
}

function sendBytes(request: IncomingMessage, response: ServerResponse, { bytes, generation }: Kept): void {
  const [range, from = '0', to = ''] = /bytes=(\d+)-(\d*)/.exec(request.headers.range ?? '') ?? [];
  const end = to === '' ? bytes.length : Math.min(Number(to) + 1, bytes.length);
  const part = bytes.subarray(Number(from), end);
  response.writeHead(range === undefined ? 200 : 206, {
    'content-length': part.length,
    'content-range': `bytes ${from}-${end - 1}/${bytes.length}`,
    'x-goog-generation': String(generation),
    'x-goog-metageneration': '1',
  });
  response.end(part);
}

async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

/** The second part of a multipart/related upload: the bytes. The first says what they are. */
function contentOf(request: IncomingMessage, body: Buffer): Buffer {
  const boundary = /boundary="?([^";]+)/.exec(request.headers['content-type'] ?? '')?.[1] ?? '';
  const part = body.toString('latin1').split(`--${boundary}`)[2] ?? '';
  return Buffer.from(part.slice(part.indexOf('\r\n\r\n') + 4).replace(/\r\n$/, ''), 'latin1');
}
