// A server with hostile responses: too long, too slow, too many pages, compressed, or redirected.

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';
import { gzipSync } from 'node:zlib';

/** The kind of every response. A function returns the body of the n-th response, counted from 1. */
export type ResponseMode = 'endless' | 'slow' | 'compressed' | 'redirect' | ((count: number, path: string) => object);

export interface HostileServer {
  readonly url: string;
  /** Requested paths with their queries, in order. */
  readonly requests: readonly string[];
}

const chunk = Buffer.alloc(64 * 1024, ' ');

/** Listens on loopback until the end of the test. */
export async function openHostileServer(t: TestContext, mode: ResponseMode): Promise<HostileServer> {
  const requests: string[] = [];
  const server = createServer((request, response) => answer(request, response));
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });

  function answer(request: IncomingMessage, response: ServerResponse): void {
    const path = request.url ?? '';
    requests.push(path);
    request.resume();
    response.on('error', () => undefined);
    // Google's metadata server has this header.
    const headers = { 'content-type': 'application/json', 'metadata-flavor': 'Google' };
    if (typeof mode === 'function') {
      response.writeHead(200, headers).end(JSON.stringify(mode(requests.length, path)));
      return;
    }
    switch (mode) {
      case 'redirect':
        response.writeHead(302, { location: `${url}/elsewhere` }).end();
        return;
      case 'compressed':
        // A hundred MiB in a hundred kB.
        response.writeHead(200, { ...headers, 'content-encoding': 'gzip' }).end(gzipBomb());
        return;
      case 'slow': {
        response.writeHead(200, headers);
        const timer = setInterval(() => response.write(' '), 20);
        response.on('close', () => clearInterval(timer));
        return;
      }
      case 'endless': {
        response.writeHead(200, headers);
        const write = (): void => {
          while (!response.destroyed && response.write(chunk));
        };
        response.on('drain', write);
        write();
      }
    }
  }

  return { url, requests };
}

let compressedBomb: Buffer | undefined;

function gzipBomb(): Buffer {
  compressedBomb ??= gzipSync(Buffer.alloc(100 * 1024 * 1024, ' '));
  return compressedBomb;
}
