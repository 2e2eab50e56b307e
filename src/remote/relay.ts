// Relay: the controller shares its connections. It is already connected to every worker of every running job, so a
// user's command starts at once; a new connection would cost a handshake per worker. The socket below `$JOBMAN_HOME`
// has the permissions of the home, because a process that can open it can also read the key to the workers. Each
// session is a stream of api/worker-stream.ts.

import { once } from 'node:events';
import { chmod, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { dirname, join } from 'node:path';
import type { WebSocket } from 'ws';
import { openStream, serveStream, type ProgramRequest } from '../api/worker-stream.ts';
import { deferSession, type Session, type SessionRequest } from '../app/worker-access.ts';
import { fileModeIn, makeFolder } from '../files/files.ts';
import { second, type Duration } from '../core/model/time.ts';

interface OpenRequest extends ProgramRequest {
  readonly job: string;
  readonly worker: number;
}

export function relaySocket(home: string): string {
  return join(home, 'ssh', 'relay.sock');
}

/** Limit of a socket's path (unix(7): 108 bytes including the terminator). */
const maxSocketName = 107;

export interface RelayOptions {
  readonly file: string;
  /** A client of another version uses its own connections, because messages may differ. */
  readonly version: string;
  /** Rejects with a message when there is no such worker now. */
  readonly start: (job: string, worker: number, request: SessionRequest) => Promise<Session>;
}

/**
 * Undefined when the socket's path is too long. The controller's lock allows one relay, so an old socket is a leftover.
 */
export async function serveRelay({ file, version, start }: RelayOptions): Promise<(() => Promise<void>) | undefined> {
  if (Buffer.byteLength(file) > maxSocketName) return undefined;
  makeFolder(dirname(file));
  await rm(file, { force: true });
  const { WebSocketServer } = await import('ws');
  const server = createServer();
  const relay = new WebSocketServer({ server, handleProtocols: (names) => names.has(version) && version });
  relay.on('connection', (socket) => {
    serveStream(socket, (opening, { onBytes }) => {
      const { job, worker, ...request } = JSON.parse(opening) as OpenRequest;
      return deferSession(start(job, worker, { ...request, onBytes }));
    });
  });
  await once(server.listen(file), 'listening');
  relay.on('error', () => undefined);
  await chmod(file, fileModeIn(dirname(file)));
  return async () => {
    server.close();
    for (const socket of relay.clients) socket.terminate();
    await rm(file, { force: true });
  };
}

/** A controller that is too busy to answer the first connection in this time is not used. */
const probeTimeout: Duration = 1 * second;
/** A session has no other way any more, so it waits for a controller that is busy for a while. */
const sessionTimeout: Duration = 30 * second;

/** Undefined when no relay answers, or when it has another version. */
export async function connectRelay(file: string, version: string) {
  if (Buffer.byteLength(file) > maxSocketName) return undefined;
  const { WebSocket } = await import('ws');
  const sockets = new Set<WebSocket>();
  const open = (handshakeTimeout: Duration): WebSocket => {
    // Node applies the timeout of a request only to connections that it makes itself.
    const createConnection = () => connect({ path: file, timeout: handshakeTimeout });
    const options = { createConnection, handshakeTimeout, perMessageDeflate: false };
    const socket = new WebSocket('ws://relay/', version, options);
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => sockets.delete(socket));
    return socket;
  };
  const probe = open(probeTimeout);
  const isThere = await new Promise<boolean>((resolve) => {
    probe.on('open', () => resolve(true));
    probe.on('close', () => resolve(false));
  });
  probe.terminate();
  if (!isThere) return undefined;
  return {
    start: (job: string, worker: number, { onBytes, ...request }: SessionRequest): Session =>
      openStream(
        open(sessionTimeout),
        { job, worker, ...request } satisfies OpenRequest,
        { onBytes },
        'the controller, which held the connection, has ended',
      ),
    close(): void {
      for (const socket of sockets) socket.terminate();
    },
  };
}
