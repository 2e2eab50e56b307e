import { createServer, type Server, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { exitCode, JobmanError, usageError } from '../../app/errors.ts';

export interface PortMapping {
  readonly localPort: number;
  readonly remotePort: number;
}

/** The default address: a forwarded port is seldom meant for the whole network. */
export const loopbackAddress = '127.0.0.1';

/** RFC 1122, 3.2.1.3; RFC 4291, 2.5.3. */
function isLoopback(address: string): boolean {
  return address.startsWith('127.') || address === '::1';
}

export function formatReachability(address: string): string {
  const who = isLoopback(address) ? 'Only this machine can connect.' : `Everyone who can reach ${address} can connect.`;
  return `${who} Ctrl-C stops forwarding; the job keeps running.`;
}

export function formatUrl(address: string, port: number): string {
  return `http://${address.includes(':') ? `[${address}]` : address}:${port}`;
}

export function parsePortMapping(text: string): PortMapping {
  const [, here, there = here] = /^(\d{1,5})(?::(\d{1,5}))?$/.exec(text) ?? [];
  const mapping = { localPort: Number(here), remotePort: Number(there) };
  if (here === undefined || mapping.localPort > 65_535 || mapping.remotePort > 65_535 || mapping.remotePort === 0) {
    throw usageError(`\`${text}\` is no port: expected 6006, or 8080:6006 for port 8080 here and 6006 there.`);
  }
  return mapping;
}

export function joinSockets(socket: Socket, tunnel: Duplex): void {
  tunnel.on('close', () => socket.destroy());
  socket.on('close', () => tunnel.destroy());
  if (socket.destroyed) tunnel.destroy();
  socket.pipe(tunnel).pipe(socket);
}

/** `port` is the assigned port if the mapping's is 0. Rejects with JobmanError (conflict). */
export function listen(
  mapping: PortMapping,
  address: string,
  join: (socket: Socket) => void,
): Promise<{ readonly server: Server; readonly port: number }> {
  // A side that has closed its output may still receive.
  const server = createServer({ allowHalfOpen: true }, join);
  return new Promise((resolve, reject) => {
    server.on('error', (error: NodeJS.ErrnoException) => {
      const why = error.code === 'EADDRINUSE' ? 'is taken by another program' : `cannot be opened: ${error.message}`;
      reject(
        new JobmanError(`Port ${mapping.localPort} of this machine ${why}.`, exitCode.conflict, [
          `Another one here: jobman port-forward <job> ${mapping.localPort + 10_000 > 65_535 ? 0 : mapping.localPort + 10_000}:${mapping.remotePort}`,
        ]),
      );
    });
    server.listen(mapping.localPort, address, () => {
      const bound = server.address();
      resolve({ server, port: typeof bound === 'object' && bound !== null ? bound.port : mapping.localPort });
    });
  });
}
