// Worker stream: one program on a worker, or one connection to a port of a worker, over a WebSocket. Each message is a kind
// and bytes. If the user's side leaves, the program ends; if the worker's side ends, the stream ends. Both directions have
// flow control.

import type { WebSocket } from 'ws';
import type { Session, SessionEnd, SessionRequest, TerminalSize } from '../app/worker-access.ts';
import type { Duration } from '../core/model/time.ts';

/** The user's side sends `open` first, once; then data, `end`, `resize` and `stop`. The others come from the worker's side. */
const kinds = {
  /** The sender waits for `accepted` before it sends more, so that a `stop` never waits behind data. */
  data: 1,
  end: 2,
  stop: 3,
  accepted: 4,
  stdout: 5,
  stderr: 6,
  /** JSON of a `SessionEnd`; the last message of a stream. */
  ended: 7,
  /** JSON that says what to open. */
  open: 8,
  /** The columns and the rows of its terminal. */
  resize: 9,
  /** A port is connected. */
  connected: 10,
  /** The port sends no more. */
  outputEnd: 11,
} as const;

type Kind = keyof typeof kinds;

/** The data of one message. */
export const maxDataBytes = 1 << 20;

/** A user's side that sends more than this without waiting for `accepted` violates the protocol. */
const maxWaitingBytes = 2 * maxDataBytes;
/** A terminal sends each key without waiting. */
const maxWaitingMessages = 10_000;

/** A program, as the user's side requests it. */
export type ProgramRequest = Omit<SessionRequest, 'onBytes'>;

/** Receives what comes from the worker. */
export interface StreamOutput extends Pick<SessionRequest, 'onBytes'> {
  onConnected?(): void;
  onOutputEnd?(): void;
}

/** Resolves when more may be sent, or the socket has closed. */
function send(socket: WebSocket, kind: Kind, body: Uint8Array | string = ''): Promise<void> {
  const message = Buffer.concat([Buffer.from([kinds[kind]]), Buffer.from(body as string)]);
  return new Promise((resolve) => socket.send(message, () => resolve()));
}

function onMessage(socket: WebSocket, take: (kind: number, body: Buffer) => void): void {
  socket.on('error', () => undefined);
  socket.on('message', (message: Buffer) => take(message[0] ?? 0, message.subarray(1)));
}

/** The worker's side. The returned function ends the stream with that reason. */
export function serveStream(
  socket: WebSocket,
  start: (opening: string, output: Required<StreamOutput>) => Session,
): (reason: string) => void {
  let session: Session | undefined;
  let waitingBytes = 0;
  let waitingMessages = 0;
  const finish = (end: SessionEnd): void => {
    void send(socket, 'ended', JSON.stringify(end)).then(() => socket.close());
  };
  const open = (opening: string): Session => {
    const opened = start(opening, {
      onBytes: (chunk, stream) => send(socket, stream, chunk),
      onConnected: () => void send(socket, 'connected'),
      onOutputEnd: () => void send(socket, 'outputEnd'),
    });
    void opened.ended.then(finish);
    return opened;
  };
  async function write(body: Buffer): Promise<void> {
    waitingBytes += body.length;
    waitingMessages += 1;
    if (waitingBytes > maxWaitingBytes || waitingMessages > maxWaitingMessages) return socket.terminate();
    await session?.write(body);
    waitingBytes -= body.length;
    await send(socket, 'accepted');
    waitingMessages -= 1;
  }
  socket.on('close', () => session?.stop());
  onMessage(socket, (kind, body) => {
    if (kind === kinds.open) session ??= open(body.toString());
    else if (kind === kinds.data) void write(body);
    else if (kind === kinds.end) session?.end();
    else if (kind === kinds.resize) session?.resize(decodeSize(body));
    else if (kind === kinds.stop) session?.stop();
  });
  return (reason) => {
    finish({ kind: 'unreachable', reason, mayHaveRun: true });
    session?.stop();
    // The user's side may not read the last message.
    setTimeout(() => socket.terminate(), leaveMs).unref();
  };
}

const leaveMs: Duration = 1_000;
/** Longer than the time between the signal to end a program and its kill. */
const stopMs: Duration = 8_000;

/** Two numbers of 16 bits, which is the limit of a terminal's size. */
function encodeSize({ columns, rows }: TerminalSize): Uint8Array {
  return Buffer.from(Uint16Array.of(columns, rows).buffer);
}

function decodeSize(body: Buffer): TerminalSize {
  return body.length < 4 ? { columns: 80, rows: 24 } : { columns: body.readUInt16LE(0), rows: body.readUInt16LE(2) };
}

/** The user's side, over a socket that may still be connecting. `lost`: the reason if the connection breaks. */
export function openStream(socket: WebSocket, opening: object, output: StreamOutput, lost: string): Session {
  let taking: Promise<void> = Promise.resolve();
  let waiting = 0;
  let onAccepted: (() => void) | undefined;
  let isOver = false;
  let stopTimer: NodeJS.Timeout | undefined;
  const ended = new Promise<SessionEnd>((resolve) => {
    const finish = (end: SessionEnd): void => {
      isOver = true;
      clearTimeout(stopTimer);
      onAccepted?.();
      resolve(taking.then(() => end));
      socket.terminate();
    };
    socket.on('close', () => {
      if (!isOver) finish({ kind: 'unreachable', reason: lost, mayHaveRun: true });
    });
    /** Pauses the socket while a chunk waits for its receiver, so that a slow reader slows down the program. */
    const inOrder = (take: () => void | Promise<void>): void => {
      waiting += 1;
      socket.pause();
      taking = taking.then(take).finally(() => {
        waiting -= 1;
        if (waiting === 0) socket.resume();
      });
    };
    onMessage(socket, (kind, body) => {
      if (kind === kinds.ended) finish(JSON.parse(body.toString()) as SessionEnd);
      else if (kind === kinds.accepted) onAccepted?.();
      else if (kind === kinds.stdout || kind === kinds.stderr)
        inOrder(() => output.onBytes(body, kind === kinds.stdout ? 'stdout' : 'stderr'));
      else if (kind === kinds.connected) inOrder(() => output.onConnected?.());
      else if (kind === kinds.outputEnd) inOrder(() => output.onOutputEnd?.());
    });
  });
  const opened =
    socket.readyState === socket.OPEN ? Promise.resolve() : new Promise((open) => socket.once('open', open));
  const sendLater = (kind: Kind, body?: Uint8Array | string): void =>
    void opened.then(() => (isOver ? undefined : send(socket, kind, body)));
  sendLater('open', JSON.stringify(opening));
  return {
    async write(bytes) {
      for (let from = 0; from < bytes.length && !isOver; from += maxDataBytes) {
        const isAccepted = new Promise<void>((resolve) => (onAccepted = resolve));
        sendLater('data', bytes.subarray(from, from + maxDataBytes));
        await isAccepted;
      }
    },
    end: () => sendLater('end'),
    resize: (size) => sendLater('resize', encodeSize(size)),
    stop() {
      sendLater('stop');
      // The worker's side may hang. Once it notices the end of the connection, it ends the program.
      if (!isOver) stopTimer ??= setTimeout(() => socket.terminate(), stopMs);
    },
    ended,
  };
}
