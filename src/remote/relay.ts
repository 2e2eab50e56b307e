// Relay: the controller lends its connections. It has one to every worker of every job that runs, so a command of a
// person begins at once through it, where a connection of its own would cost a handshake for each worker.
// A socket below `$JOBMAN_HOME` that only its owner may open; whoever can open it can read the key to the workers too.
// The relay decides nothing: a client that goes away ends its sessions, and a relay that goes away ends them all.

import { chmod, rm } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import type { Server, Socket } from 'node:net';
import { dirname, join } from 'node:path';
import { fileModeIn, makeFolder } from '../app/make-folder.ts';
import type { Session, SessionEnd, SessionRequest } from '../app/by-hand.ts';
import { gatherWrites } from './gather-writes.ts';
import { dataMost } from './session.ts';
import { textOf } from './text-of.ts';
import { frame, kinds, readFrames } from './relay-frames.ts';
import type { Frame } from './relay-frames.ts';

/** The program to be run, and the worker. */
type Opening = Pick<SessionRequest, 'program' | 'inside' | 'receives'> & {
  readonly job: string;
  readonly worker: number;
};

/** The socket of a home. */
export function relayFile(home: string): string {
  return join(home, 'ssh', 'relay.sock');
}

/** Longer names of sockets do not fit (unix(7): 108 bytes with their end). */
const nameMost = 107;

export interface RelayOptions {
  readonly file: string;
  /** A client of another version helps itself: neither knows the other's words. */
  readonly version: string;
  /** Begins a session on a worker of a job. Rejects with a sentence when there is no such worker now. */
  readonly start: (job: string, worker: number, request: SessionRequest) => Promise<Session>;
}

/**
 * Serves until the returned function is called. Undefined when the socket's name is too long for one. One at a time for
 * a home, which the controller's lock sees to: what lies there from before is removed.
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
    gatherWrites(socket);
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
  const sessions = new Map<number, Session>();
  const wishes = new Map<number, Frame[]>();
  const send = sender(socket);

  async function open({ session: number, body }: Frame): Promise<void> {
    wishes.set(number, []);
    let end: SessionEnd;
    try {
      const opening = JSON.parse(body.toString('utf8')) as Opening;
      const session = await start(opening.job, opening.worker, {
        ...opening,
        onBytes: (chunk, stream) => send(frame(kinds[stream], number, chunk)),
      });
      sessions.set(number, session);
      if (socket.destroyed) session.stop();
      // Frames that came while the way was looked for.
      for (const wish of wishes.get(number) ?? []) heed(session, wish);
      end = await session.ended;
    } catch (error) {
      end = { kind: 'no_answer', reason: textOf(error), sent: false };
    }
    sessions.delete(number);
    wishes.delete(number);
    await send(frame(kinds.over, number, JSON.stringify(end)));
  }

  function heed(session: Session, { kind, session: number, body }: Frame): void {
    if (kind === kinds.stop) session.stop();
    else if (kind === kinds.end) session.end();
    else if (kind === kinds.data) {
      // A copy, because the buffer that it is a part of belongs to the reader.
      void session.write(Buffer.from(body)).then(() => send(frame(kinds.taken, number)));
    }
  }

  socket.on('error', () => undefined);
  socket.on('close', () => {
    for (const session of sessions.values()) session.stop();
  });
  readFrames(socket, (wish) => {
    if (wish.kind === kinds.open) {
      void open(wish);
      return;
    }
    const session = sessions.get(wish.session);
    if (session !== undefined) heed(session, wish);
    else wishes.get(wish.session)?.push({ ...wish, body: Buffer.from(wish.body) });
  });
  void send(frame(kinds.hello, 0, version));
}

/** Writes, and resolves when more may be written or nothing ever will be. */
function sender(socket: Socket): (bytes: Uint8Array) => Promise<void> {
  return (bytes) => {
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
  };
}

/** A relay as its client sees it. */
export interface RelayLine {
  start(job: string, worker: number, request: SessionRequest): Session;
  close(): void;
}

/** How long a relay may take to say who it is. A controller that is as busy as that is left alone. */
const helloMost = 1_000;

/** The relay of that socket, or undefined when there is none, when it is of another version, and when it does not answer. */
export function connectRelay(file: string, version: string): Promise<RelayLine | undefined> {
  if (Buffer.byteLength(file) > nameMost) return Promise.resolve(undefined);
  return new Promise((resolve) => {
    const socket = connect(file);
    gatherWrites(socket);
    const calls = new Map<number, { readonly take: (frame: Frame) => void; readonly lost: () => void }>();
    let made = 0;
    const timer = setTimeout(() => socket.destroy(), helloMost);
    socket.on('error', () => undefined);
    socket.on('close', () => {
      clearTimeout(timer);
      resolve(undefined);
      for (const { lost } of calls.values()) lost();
    });
    readFrames(socket, (answer) => {
      if (answer.kind !== kinds.hello) calls.get(answer.session)?.take(answer);
      else if (answer.body.toString('utf8') !== version) socket.destroy();
      else {
        clearTimeout(timer);
        resolve({
          start(job, worker, request) {
            made += 1;
            return call(socket, calls, made, { job, worker, ...request });
          },
          close: () => socket.destroy(),
        });
      }
    });
  });
}

function call(
  socket: Socket,
  calls: Map<number, { readonly take: (frame: Frame) => void; readonly lost: () => void }>,
  number: number,
  { onBytes, ...opening }: Opening & Pick<SessionRequest, 'onBytes'>,
): Session {
  let taking: Promise<void> = Promise.resolve();
  let waiting = 0;
  let taken: (() => void) | undefined;
  const ended = new Promise<SessionEnd>((resolve) => {
    const finish = (end: SessionEnd): void => {
      calls.delete(number);
      taken?.();
      void taking.then(() => {
        resolve(end);
      });
    };
    calls.set(number, {
      lost: () => {
        finish({ kind: 'no_answer', reason: 'the controller, whose connection it went over, has ended', sent: true });
      },
      take({ kind, body }) {
        if (kind === kinds.over) finish(JSON.parse(body.toString('utf8')) as SessionEnd);
        else if (kind === kinds.taken) taken?.();
        else {
          // While a chunk waits for its taker nothing is read, so that a slow reader here slows the program there.
          const bytes = Buffer.from(body);
          waiting += 1;
          socket.pause();
          taking = taking
            .then(() => onBytes(bytes, kind === kinds.stdout ? 'stdout' : 'stderr'))
            .finally(() => {
              waiting -= 1;
              if (waiting === 0) socket.resume();
            });
        }
      },
    });
  });
  const say = (kind: 1 | 2 | 3 | 4, body?: Uint8Array | string): void => {
    if (!socket.destroyed && calls.has(number)) socket.write(frame(kind, number, body));
  };
  say(kinds.open, JSON.stringify(opening satisfies Opening));
  return {
    async write(bytes) {
      for (let from = 0; from < bytes.length && calls.has(number); from += dataMost) {
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
