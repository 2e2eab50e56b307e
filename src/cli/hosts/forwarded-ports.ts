import { createServer, type Server, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { exitCode, JobmanError, usageError } from '../../app/errors.ts';
import { escapeLine } from '../../app/format.ts';
import type { Cli } from '../context.ts';
import { abortOnSignal } from '../interrupt.ts';

export interface PortMapping {
  readonly localPort: number;
  readonly remotePort: number;
}

/** The default address: a forwarded port is seldom meant for the whole network. */
const loopbackAddress = '127.0.0.1';

/** RFC 1122, 3.2.1.3; RFC 4291, 2.5.3. */
function isLoopback(address: string): boolean {
  return address.startsWith('127.') || address === '::1';
}

function formatReachability(address: string): string {
  const who = isLoopback(address) ? 'Only this machine can connect.' : `Everyone who can reach ${address} can connect.`;
  return `${who} Ctrl-C stops forwarding; the job keeps running.`;
}

function formatUrl(address: string, port: number): string {
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

function joinSockets(socket: Socket, tunnel: Duplex): void {
  tunnel.on('close', () => socket.destroy());
  socket.on('close', () => tunnel.destroy());
  if (socket.destroyed) tunnel.destroy();
  socket.pipe(tunnel).pipe(socket);
}

/** `port` is the assigned port if the mapping's is 0. Rejects with JobmanError (conflict). */
function listen(
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

/** A worker or a pod, which another one may replace meanwhile. */
interface ForwardTarget {
  readonly name: string;
  readonly facts: { readonly job: string; readonly worker: number | null; readonly pod: string | null };
  /** Resolves with the problem, as a sentence, if the target is not reached. */
  readonly connect: (port: number) => Promise<Duplex | string>;
  /** Calls `moved` after each change of the target. Resolves with the exit code, also after `signal`. */
  readonly waitUntilEnd: (signal: AbortSignal, moved: () => void) => Promise<number>;
}

/** A broken tunnel costs one connection; the next one goes to the current target. */
export async function forwardPorts(
  cli: Cli,
  mappings: readonly PortMapping[],
  address = loopbackAddress,
  { name, facts, connect, waitUntilEnd }: ForwardTarget,
): Promise<number> {
  const sockets = new Set<Socket>();
  const servers: Server[] = [];
  const reported = new Set<string>();
  const { signal, release } = abortOnSignal(cli);

  /** A browser retries, so print each sentence once. */
  const reportOnce = (sentence: string): void => {
    if (!reported.has(sentence) && !signal.aborted) cli.printStderr(escapeLine(sentence));
    reported.add(sentence);
  };

  const closeConnections = (): void => {
    for (const socket of sockets) socket.destroy();
    reported.clear();
  };

  async function join(socket: Socket, remotePort: number): Promise<void> {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => sockets.delete(socket));
    const tunnel = await connect(remotePort);
    if (typeof tunnel === 'string') {
      socket.destroy();
      reportOnce(tunnel);
      return;
    }
    tunnel.on('error', (error) => {
      socket.destroy();
      reportOnce(`Port ${remotePort} of ${facts.job}: ${error.message}`);
    });
    tunnel.once('data', () => reported.clear());
    joinSockets(socket, tunnel);
  }

  try {
    for (const mapping of mappings) {
      const { remotePort } = mapping;
      const { server, port } = await listen(mapping, address, (socket) => void join(socket, remotePort));
      servers.push(server);
      if (cli.json) cli.printJson({ ...facts, localPort: port, remotePort });
      else cli.print(`${formatUrl(address, port)} forwards to port ${remotePort} of ${name}`);
    }
    cli.note(formatReachability(address));
    return await waitUntilEnd(signal, closeConnections);
  } finally {
    release();
    for (const server of servers) server.close();
    closeConnections();
  }
}
