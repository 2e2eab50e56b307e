// Forwarded ports: ports of this machine that lead elsewhere, and the joining of two connections into one.

import { createServer, type Server, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { exitCode, JobmanError, usageError } from '../../app/errors.ts';

export interface Way {
  readonly here: number;
  readonly there: number;
}

/** The default address: a forwarded port is seldom meant for the whole network. */
export const loopback = '127.0.0.1';

/** True if only this machine can reach it (RFC 1122, 3.2.1.3; RFC 4291, 2.5.3). */
function isLoopback(address: string): boolean {
  return address.startsWith('127.') || address === '::1';
}

export function whoReaches(address: string): string {
  const who = isLoopback(address)
    ? 'Only this machine can reach it.'
    : `Everybody who reaches ${address} can reach it.`;
  return `${who} Ctrl-C ends it; the job goes on.`;
}

export function addressText(address: string, port: number): string {
  return `http://${address.includes(':') ? `[${address}]` : address}:${port}`;
}

export function parseWay(word: string): Way {
  const [, here, there = here] = /^(\d{1,5})(?::(\d{1,5}))?$/.exec(word) ?? [];
  const way = { here: Number(here), there: Number(there) };
  if (here === undefined || way.here > 65_535 || way.there > 65_535 || way.there === 0) {
    throw usageError(`\`${word}\` is no port: expected 6006, or 8080:6006 for port 8080 here and 6006 there.`);
  }
  return way;
}

export function joinSockets(socket: Socket, tunnel: Duplex): void {
  tunnel.on('close', () => socket.destroy());
  socket.on('close', () => tunnel.destroy());
  if (socket.destroyed) tunnel.destroy();
  socket.pipe(tunnel).pipe(socket);
}

/** Listens for connections; `port` is the one that was free, where any was wanted. Rejects with JobmanError (conflict). */
export function listen(
  way: Way,
  address: string,
  join: (socket: Socket) => void,
): Promise<{ readonly server: Server; readonly port: number }> {
  // A side that has said all may still be answered.
  const server = createServer({ allowHalfOpen: true }, join);
  return new Promise((resolve, reject) => {
    server.on('error', (error: NodeJS.ErrnoException) => {
      const why = error.code === 'EADDRINUSE' ? 'is taken by another program' : `cannot be opened: ${error.message}`;
      reject(
        new JobmanError(`Port ${way.here} of this machine ${why}.`, exitCode.conflict, [
          `Another one here: jobman port-forward <job> ${way.here + 10_000 > 65_535 ? 0 : way.here + 10_000}:${way.there}`,
        ]),
      );
    });
    server.listen(way.here, address, () => {
      const bound = server.address();
      resolve({ server, port: typeof bound === 'object' && bound !== null ? bound.port : way.here });
    });
  });
}
