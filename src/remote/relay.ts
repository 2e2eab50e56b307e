// Relay: the controller lends its connections. It is already connected to every worker of every running job, so a command
// typed by a person starts at once; a new connection would cost a handshake per worker.
// A socket below `$JOBMAN_HOME` that only its owner may open; whoever can open it can read the key to the workers too.
// Each session is a connection to that socket. Over it go frames: a length, a kind, and bytes.
// The relay decides nothing: a client that goes away ends its sessions, and a relay that goes away ends them all.

import { chmod, rm } from 'node:fs/promises';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { dirname, join } from 'node:path';
import type { Session, SessionEnd, SessionRequest } from '../app/by-hand.ts';
import { fileModeIn, makeFolder } from '../app/files.ts';
import { dataMost, sessionLater } from './session.ts';

/** The program to be run, and the worker. */
type Opening = Pick<SessionRequest, 'program' | 'inside' | 'receives'> & {
  readonly job: string;
  readonly worker: number;
};

/** The kinds of frames. `open`, `data`, `end` and `stop` go to the relay, the others come from it. */
const kinds = {
  /** JSON of `Opening`. */
  open: 1,
  /** Bytes for the program's input; answered by `taken`, before which no more is sent, so that a `stop` is never stuck behind it. */
  data: 2,
  end: 3,
  stop: 4,
  /** The first frame of a connection: the version of the relay's program. */
  hello: 16,
  taken: 17,
  stdout: 18,
  stderr: 19,
  /** JSON of a `SessionEnd`; the last frame of a session. */
  over: 20,
} as const;

type Kind = (typeof kinds)[keyof typeof kinds];

const headLength = 5;

/** A larger frame comes from no relay: the reader gives up. Chunks of a channel have at most 2 MiB, its window. */
const bodyMost = 8 << 20;

function frame(kind: Kind, body: Uint8Array | string = ''): Buffer {
  const bytes = typeof body === 'string' ? Buffer.from(body) : body;
  const head = Buffer.alloc(headLength);
  head.writeUInt32BE(bytes.length, 0);
  head.writeUInt8(kind, 4);
  return Buffer.concat([head, bytes]);
}

function readFrames(socket: Socket, take: (kind: number, body: Buffer) => void): void {
  let held: Buffer = Buffer.alloc(0);
  socket.on('data', (chunk: Buffer) => {
    held = held.length === 0 ? chunk : Buffer.concat([held, chunk]);
    while (held.length >= headLength) {
      const end = headLength + held.readUInt32BE(0);
      if (end - headLength > bodyMost) {
        socket.destroy();
        return;
      }
      if (held.length < end) return;
      const whole = held;
      held = whole.subarray(end);
      take(whole.readUInt8(4), whole.subarray(headLength, end));
    }
  });
}

/** The socket of a home. */
export function relayFile(home: string): string {
  return join(home, 'ssh', 'relay.sock');
}

/** Longer names of sockets do not fit (unix(7): 108 bytes with their end). */
const nameMost = 107;

export interface RelayOptions {
  readonly file: string;
  /** A client of another version uses its own connections: neither understands the other's frames. */
  readonly version: string;
  /** Begins a session on a worker of a job. Rejects with a sentence when there is no such worker now. */
  readonly start: (job: string, worker: number, request: SessionRequest) => Promise<Session>;
}

/**
 * Serves until the returned function is called. Undefined when the socket's name is too long for one. The controller's lock
 * allows one for a home, so a socket that is there already is a leftover and is removed.
 */
export async function serveRelay(options: RelayOptions): Promise<(() => Promise<void>) | undefined> {
  const { file } = options;
  if (Buffer.byteLength(file) > nameMost) return undefined;
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
    const { job, worker, ...request } = JSON.parse(opening) as Opening;
    return start(job, worker, {
      ...request,
      onBytes: (chunk, stream) => send(socket, frame(kinds[stream], chunk)),
    });
  }

  socket.on('error', () => undefined);
  socket.on('close', () => session?.stop());
  readFrames(socket, (kind, body) => {
    if (kind === kinds.open) {
      session = sessionLater(begin(body.toString('utf8')));
      void session.ended.then((end) => send(socket, frame(kinds.over, JSON.stringify(end))));
    } else if (kind === kinds.data) void session?.write(body).then(() => send(socket, frame(kinds.taken)));
    else if (kind === kinds.end) session?.end();
    else if (kind === kinds.stop) session?.stop();
  });
  void send(socket, frame(kinds.hello, version));
}

/** Resolves when more may be written or nothing ever will be. */
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

/** How long a relay may take to say who it is. A controller that is as busy as that is left alone. */
const helloMost = 1_000;

/** The relay of that socket, or undefined when there is none, when it is of another version, and when it does not answer. */
export async function connectRelay(file: string, version: string) {
  if (Buffer.byteLength(file) > nameMost) return undefined;
  const sockets = new Set<Socket>();
  const open = (): Socket => {
    const socket = connect(file);
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => sockets.delete(socket));
    return socket;
  };
  const probe = open();
  const said = await new Promise<string | undefined>((resolve) => {
    const timer = setTimeout(() => probe.destroy(), helloMost);
    probe.on('close', () => {
      clearTimeout(timer);
      resolve(undefined);
    });
    readFrames(probe, (_kind, body) => resolve(body.toString('utf8')));
  });
  probe.destroy();
  if (said !== version) return undefined;
  return {
    start: (job: string, worker: number, request: SessionRequest): Session =>
      startOver(open(), { job, worker, ...request }),
    close(): void {
      for (const socket of sockets) socket.destroy();
    },
  };
}

function startOver(socket: Socket, { onBytes, ...opening }: Opening & Pick<SessionRequest, 'onBytes'>): Session {
  let taking: Promise<void> = Promise.resolve();
  let waiting = 0;
  let taken: (() => void) | undefined;
  let isOver = false;
  const ended = new Promise<SessionEnd>((resolve) => {
    const finish = (end: SessionEnd): void => {
      isOver = true;
      taken?.();
      resolve(taking.then(() => end));
      socket.destroy();
    };
    socket.on('close', () => {
      const reason = 'the controller, whose connection it went over, has ended';
      if (!isOver) finish({ kind: 'no_answer', reason, sent: true });
    });
    readFrames(socket, (kind, body) => {
      if (kind === kinds.over) finish(JSON.parse(body.toString('utf8')) as SessionEnd);
      else if (kind === kinds.taken) taken?.();
      else if (kind === kinds.stdout || kind === kinds.stderr) {
        // While a chunk waits for its taker nothing is read, so that a slow reader here slows the program there.
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
  const say = (kind: Kind, body?: Uint8Array | string): void => {
    if (!isOver) socket.write(frame(kind, body));
  };
  say(kinds.open, JSON.stringify(opening satisfies Opening));
  return {
    async write(bytes) {
      for (let from = 0; from < bytes.length && !isOver; from += dataMost) {
        const isTaken = new Promise<void>((resolve) => (taken = resolve));
        say(kinds.data, bytes.subarray(from, from + dataMost));
        await isTaken;
      }
    },
    end: () => say(kinds.end),
    stop: () => say(kinds.stop),
    ended,
  };
}
