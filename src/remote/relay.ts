// Relay: the controller shares its connections. It is already connected to every worker of every running job, so a
// user's command starts at once; a new connection would cost a handshake per worker. The socket below `$JOBMAN_HOME`
// has the permissions of the home, because a process that can open it can also read the key to the workers. Each
// session is a WebSocket, whose messages are a kind and bytes. The relay decides nothing: a client that leaves ends its
// sessions, and a relay that ends terminates all of them.

import { once } from 'node:events';
import { chmod, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { dirname, join } from 'node:path';
import type { WebSocket } from 'ws';
import type { Session, SessionEnd, SessionRequest } from '../app/worker-access.ts';
import { fileModeIn, makeFolder } from '../files/files.ts';
import { second, type Duration } from '../core/model/time.ts';
import { maxDataBytes, deferSession } from './session.ts';

type OpenRequest = Pick<SessionRequest, 'program' | 'environment' | 'hasInput'> & {
  readonly job: string;
  readonly worker: number;
};

/** `data`, `end` and `stop` go to the relay, the others come from it. */
const kinds = {
  /** Answered by `accepted`, before which no more is sent, so that a `stop` is never stuck behind data. */
  data: 1,
  end: 2,
  stop: 3,
  accepted: 4,
  stdout: 5,
  stderr: 6,
  /** JSON of a `SessionEnd`; the last message of a session. */
  ended: 7,
} as const;

type Kind = keyof typeof kinds;

/** Resolves when more may be sent, or the socket has closed. */
function send(socket: WebSocket, kind: Kind, body: Uint8Array | string = ''): Promise<void> {
  const message = Buffer.concat([Buffer.from([kinds[kind]]), Buffer.from(body as string)]);
  return new Promise((resolve) => socket.send(message, () => resolve()));
}

function onMessage(socket: WebSocket, take: (kind: number, body: Buffer) => void): void {
  socket.on('error', () => undefined);
  socket.on('message', (message: Buffer) => take(message[0] ?? 0, message.subarray(1)));
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
  // The URL holds the whole command, which may be a script.
  const server = createServer({ maxHeaderSize: 8 << 20 });
  const relay = new WebSocketServer({ server, handleProtocols: (names) => names.has(version) && version });
  relay.on('connection', (socket, { url = '' }) => serveClient(socket, url, start));
  await once(server.listen(file), 'listening');
  relay.on('error', () => undefined);
  await chmod(file, fileModeIn(dirname(file)));
  return async () => {
    server.close();
    for (const socket of relay.clients) socket.terminate();
    await rm(file, { force: true });
  };
}

function serveClient(socket: WebSocket, url: string, start: RelayOptions['start']): void {
  async function begin(): Promise<Session> {
    const { job, worker, ...request } = JSON.parse(decodeURIComponent(url.slice(1))) as OpenRequest;
    return start(job, worker, { ...request, onBytes: (chunk, stream) => send(socket, stream, chunk) });
  }

  if (url === '/') return void socket.on('error', () => undefined);
  const session = deferSession(begin());
  socket.on('close', () => session.stop());
  onMessage(socket, (kind, body) => {
    if (kind === kinds.data) void session.write(body).then(() => send(socket, 'accepted'));
    else if (kind === kinds.end) session.end();
    else if (kind === kinds.stop) session.stop();
  });
  void session.ended.then((end) => send(socket, 'ended', JSON.stringify(end)));
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
  const open = (request: string, handshakeTimeout: Duration): WebSocket => {
    // Node applies the timeout of a request only to connections that it makes itself.
    const createConnection = () => connect({ path: file, timeout: handshakeTimeout });
    const options = { createConnection, handshakeTimeout, perMessageDeflate: false };
    const socket = new WebSocket(`ws://relay/${encodeURIComponent(request)}`, version, options);
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => sockets.delete(socket));
    return socket;
  };
  const probe = open('', probeTimeout);
  const isThere = await new Promise<boolean>((resolve) => {
    probe.on('open', () => resolve(true));
    probe.on('close', () => resolve(false));
  });
  probe.terminate();
  if (!isThere) return undefined;
  return {
    start: (job: string, worker: number, { onBytes, ...request }: SessionRequest): Session =>
      startOverRelay(open(JSON.stringify({ job, worker, ...request } satisfies OpenRequest), sessionTimeout), onBytes),
    close(): void {
      for (const socket of sockets) socket.terminate();
    },
  };
}

function startOverRelay(socket: WebSocket, onBytes: SessionRequest['onBytes']): Session {
  let taking: Promise<void> = Promise.resolve();
  let waiting = 0;
  let onAccepted: (() => void) | undefined;
  let isOver = false;
  const ended = new Promise<SessionEnd>((resolve) => {
    const finish = (end: SessionEnd): void => {
      isOver = true;
      onAccepted?.();
      resolve(taking.then(() => end));
      socket.terminate();
    };
    socket.on('close', () => {
      const reason = 'the controller, which held the connection, has ended';
      if (!isOver) finish({ kind: 'unreachable', reason, mayHaveRun: true });
    });
    onMessage(socket, (kind, body) => {
      if (kind === kinds.ended) finish(JSON.parse(body.toString('utf8')) as SessionEnd);
      else if (kind === kinds.accepted) onAccepted?.();
      else {
        // Nothing is read while a chunk waits for its receiver, so that a slow reader here slows the program there.
        waiting += 1;
        socket.pause();
        taking = taking
          .then(() => onBytes(body, kind === kinds.stdout ? 'stdout' : 'stderr'))
          .finally(() => {
            waiting -= 1;
            if (waiting === 0) socket.resume();
          });
      }
    });
  });
  const opened = new Promise((resolve) => socket.once('open', resolve));
  const sendLater = (kind: Kind, body?: Uint8Array): void =>
    void opened.then(() => (isOver ? undefined : send(socket, kind, body)));
  return {
    async write(bytes) {
      for (let from = 0; from < bytes.length && !isOver; from += maxDataBytes) {
        const isAccepted = new Promise<void>((resolve) => (onAccepted = resolve));
        sendLater('data', bytes.subarray(from, from + maxDataBytes));
        await isAccepted;
      }
    },
    end: () => sendLater('end'),
    stop: () => sendLater('stop'),
    ended,
  };
}
