// Relay: the controller shares its connections. It is already connected to every worker of every running job, so a
// user's command starts at once; a new connection would cost a handshake per worker. The socket below `$JOBMAN_HOME`
// has the permissions of the home, because a process that can open it can also read the key to the workers. Each
// session is a connection to that socket. It carries frames: a length, a kind, and bytes. The relay decides nothing: a
// client that leaves ends its sessions, and a relay that ends terminates all of them.

import { chmod, rm } from 'node:fs/promises';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { dirname, join } from 'node:path';
import type { Session, SessionEnd, SessionRequest } from '../app/worker-access.ts';
import { fileModeIn, makeFolder } from '../app/files.ts';
import { maxDataBytes, deferSession } from './session.ts';

type OpenRequest = Pick<SessionRequest, 'program' | 'environment' | 'hasInput'> & {
  readonly job: string;
  readonly worker: number;
};

/** `open`, `data`, `end` and `stop` go to the relay, the others come from it. */
const frameKinds = {
  open: 1,
  /** Answered by `accepted`, before which no more is sent, so that a `stop` is never stuck behind data. */
  data: 2,
  end: 3,
  stop: 4,
  /** The first frame of a connection: the version of the relay's program. */
  hello: 16,
  accepted: 17,
  stdout: 18,
  stderr: 19,
  /** JSON of a `SessionEnd`; the last frame of a session. */
  ended: 20,
} as const;

type FrameKind = (typeof frameKinds)[keyof typeof frameKinds];

const headerLength = 5;

/**
 * No relay sends a larger frame: the reader closes the connection. Chunks of a channel have at most 2 MiB, its window.
 */
const maxBodyBytes = 8 << 20;

function frame(kind: FrameKind, body: Uint8Array | string = ''): Buffer {
  const bytes = typeof body === 'string' ? Buffer.from(body) : body;
  const head = Buffer.alloc(headerLength);
  head.writeUInt32BE(bytes.length, 0);
  head.writeUInt8(kind, 4);
  return Buffer.concat([head, bytes]);
}

function readFrames(socket: Socket, take: (kind: number, body: Buffer) => void): void {
  let held: Buffer = Buffer.alloc(0);
  socket.on('data', (chunk: Buffer) => {
    held = held.length === 0 ? chunk : Buffer.concat([held, chunk]);
    while (held.length >= headerLength) {
      const end = headerLength + held.readUInt32BE(0);
      if (end - headerLength > maxBodyBytes) {
        socket.destroy();
        return;
      }
      if (held.length < end) return;
      const whole = held;
      held = whole.subarray(end);
      take(whole.readUInt8(4), whole.subarray(headerLength, end));
    }
  });
}

export function relaySocket(home: string): string {
  return join(home, 'ssh', 'relay.sock');
}

/** Limit of a socket's path (unix(7): 108 bytes including the terminator). */
const maxSocketName = 107;

export interface RelayOptions {
  readonly file: string;
  /** A client of another version uses its own connections, because frames may differ. */
  readonly version: string;
  /** Rejects with a message when there is no such worker now. */
  readonly start: (job: string, worker: number, request: SessionRequest) => Promise<Session>;
}

/**
 * Serves until the returned function is called. Undefined when the socket's path is too long. The controller's lock
 * allows one relay per home, so an existing socket is a leftover and is removed.
 */
export async function serveRelay(options: RelayOptions): Promise<(() => Promise<void>) | undefined> {
  const { file } = options;
  if (Buffer.byteLength(file) > maxSocketName) return undefined;
  makeFolder(dirname(file));
  await rm(file, { force: true });
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    serveClient(socket, options);
  });
  await listen(server, file);
  await chmod(file, fileModeIn(dirname(file)));
  return async () => {
    server.close();
    for (const socket of sockets) socket.destroy();
    await rm(file, { force: true });
  };
}

function listen(server: Server, file: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(file, () => {
      server.off('error', reject);
      server.on('error', () => undefined);
      resolve();
    });
  });
}

function serveClient(socket: Socket, { version, start }: RelayOptions): void {
  let session: Session | undefined;

  async function begin(opening: string): Promise<Session> {
    const { job, worker, ...request } = JSON.parse(opening) as OpenRequest;
    return start(job, worker, {
      ...request,
      onBytes: (chunk, stream) => send(socket, frame(frameKinds[stream], chunk)),
    });
  }

  socket.on('error', () => undefined);
  socket.on('close', () => session?.stop());
  readFrames(socket, (kind, body) => {
    if (kind === frameKinds.open) {
      session = deferSession(begin(body.toString('utf8')));
      void session.ended.then((end) => send(socket, frame(frameKinds.ended, JSON.stringify(end))));
    } else if (kind === frameKinds.data) void session?.write(body).then(() => send(socket, frame(frameKinds.accepted)));
    else if (kind === frameKinds.end) session?.end();
    else if (kind === frameKinds.stop) session?.stop();
  });
  void send(socket, frame(frameKinds.hello, version));
}

/** Resolves when more may be written, or the socket has closed. */
function send(socket: Socket, bytes: Uint8Array): Promise<void> {
  if (socket.destroyed || socket.write(bytes)) return Promise.resolve();
  return new Promise((resolve) => {
    const done = (): void => {
      socket.off('drain', done);
      socket.off('close', done);
      resolve();
    };
    socket.on('drain', done);
    socket.on('close', done);
  });
}

/** A controller that is too busy to send `hello` in this time is not used. */
const helloTimeoutMs = 1_000;

/** Undefined when no relay answers, or when it has another version. */
export async function connectRelay(file: string, version: string) {
  if (Buffer.byteLength(file) > maxSocketName) return undefined;
  const sockets = new Set<Socket>();
  const open = (): Socket => {
    const socket = connect(file);
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => sockets.delete(socket));
    return socket;
  };
  const probe = open();
  const relayVersion = await new Promise<string | undefined>((resolve) => {
    const timer = setTimeout(() => probe.destroy(), helloTimeoutMs);
    probe.on('close', () => {
      clearTimeout(timer);
      resolve(undefined);
    });
    readFrames(probe, (_kind, body) => resolve(body.toString('utf8')));
  });
  probe.destroy();
  if (relayVersion !== version) return undefined;
  return {
    start: (job: string, worker: number, request: SessionRequest): Session =>
      startOverRelay(open(), { job, worker, ...request }),
    close(): void {
      for (const socket of sockets) socket.destroy();
    },
  };
}

function startOverRelay(
  socket: Socket,
  { onBytes, ...opening }: OpenRequest & Pick<SessionRequest, 'onBytes'>,
): Session {
  let taking: Promise<void> = Promise.resolve();
  let waiting = 0;
  let onAccepted: (() => void) | undefined;
  let isOver = false;
  const ended = new Promise<SessionEnd>((resolve) => {
    const finish = (end: SessionEnd): void => {
      isOver = true;
      onAccepted?.();
      resolve(taking.then(() => end));
      socket.destroy();
    };
    socket.on('close', () => {
      const reason = 'the controller, which held the connection, has ended';
      if (!isOver) finish({ kind: 'unreachable', reason, mayHaveRun: true });
    });
    readFrames(socket, (kind, body) => {
      if (kind === frameKinds.ended) finish(JSON.parse(body.toString('utf8')) as SessionEnd);
      else if (kind === frameKinds.accepted) onAccepted?.();
      else if (kind === frameKinds.stdout || kind === frameKinds.stderr) {
        // Nothing is read while a chunk waits for its receiver, so that a slow reader here slows the program there.
        waiting += 1;
        socket.pause();
        taking = taking
          .then(() => onBytes(body, kind === frameKinds.stdout ? 'stdout' : 'stderr'))
          .finally(() => {
            waiting -= 1;
            if (waiting === 0) socket.resume();
          });
      }
    });
  });
  const sendFrame = (kind: FrameKind, body?: Uint8Array | string): void => {
    if (!isOver) socket.write(frame(kind, body));
  };
  sendFrame(frameKinds.open, JSON.stringify(opening satisfies OpenRequest));
  return {
    async write(bytes) {
      for (let from = 0; from < bytes.length && !isOver; from += maxDataBytes) {
        const isAccepted = new Promise<void>((resolve) => (onAccepted = resolve));
        sendFrame(frameKinds.data, bytes.subarray(from, from + maxDataBytes));
        await isAccepted;
      }
    },
    end: () => sendFrame(frameKinds.end),
    stop: () => sendFrame(frameKinds.stop),
    ended,
  };
}
