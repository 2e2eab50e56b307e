// Short line: one request at a time to an API server, over TLS and without Node's HTTP client, which costs a command that
// asks once a tenth of its time. It reads what an API server answers a plain request with: a length, chunks, or a body that
// ends with the connection (https://www.rfc-editor.org/rfc/rfc9112). Everything else is asked by connection.ts.

import type { TLSSocket } from 'node:tls';
import { second, type Duration } from '../../core/time.ts';

/** What is asked. */
export interface ShortRequest {
  readonly method: string;
  readonly path: string;
  /** All of them but `host` and `content-length`. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | undefined;
  readonly signal: AbortSignal | undefined;
}

/** A whole answer. The names of its headers are in small letters. */
export interface ShortReply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly bytes: Buffer;
}

/** What a request came to where nothing whole was answered. `wasSent` is false when not a byte of it can have arrived. */
export interface ShortFailure {
  readonly error: NodeJS.ErrnoException;
  readonly wasSent: boolean;
}

/** A line to one server. It is made when it is first needed, and kept for the next request. */
export interface ShortLine {
  /** Never rejects. A server that says nothing for `within` counts as one that did not answer. */
  send(request: ShortRequest, within: Duration): Promise<ShortReply | ShortFailure>;
  /** Begins to connect, so that it is done when something is asked. What goes wrong is told there. */
  begin(): void;
  close(): void;
}

/** Whether those words can stand in the head of a request as they are; a header with several values cannot. */
export function isPlain(path: string, headers: Readonly<Record<string, unknown>>): headers is Record<string, string> {
  const isVisible = (value: unknown): boolean => typeof value === 'string' && /^[\x20-\x7e]*$/.test(value);
  return /^[\x21-\x7e]+$/.test(path) && Object.values(headers).every(isVisible);
}

/** Over sockets that `connect` makes; `host` is the header. */
export function createShortLine(connect: () => TLSSocket, host: string): ShortLine {
  let kept: TLSSocket | undefined;
  /** Those over which something may have been sent. */
  const connected = new WeakSet<TLSSocket>();

  return {
    send({ method, path, headers, body, signal }, within) {
      return new Promise((resolve) => {
        const socket = taken() ?? open();
        let hasBegun = false;
        const read = replyReader();

        const fail = (error: NodeJS.ErrnoException): void => {
          settle();
          // What it says afterwards is nobody's matter.
          socket.on('error', () => undefined);
          socket.destroy();
          resolve({ error, wasSent: connected.has(socket) });
        };
        const take = (part: Buffer | null): void => {
          hasBegun = true;
          let reply: ShortReply | undefined;
          try {
            reply = read(part);
          } catch (error) {
            fail(error as NodeJS.ErrnoException);
            return;
          }
          if (reply === undefined) return;
          settle();
          if (part === null || reply.headers['connection']?.toLowerCase() === 'close') socket.destroy();
          else keep(socket);
          resolve(reply);
        };
        const listeners = {
          data: take,
          end: () => take(null),
          close: () => take(null),
          error: fail,
          timeout: () => fail(new Error(`${hasBegun ? 'nothing more for' : 'no answer within'} ${within / second} s`)),
        };
        const leave = (): void => fail(new Error('left'));
        const settle = (): void => {
          for (const [event, call] of Object.entries(listeners)) socket.off(event, call);
          socket.setTimeout(0);
          signal?.removeEventListener('abort', leave);
        };

        for (const [event, call] of Object.entries(listeners)) socket.on(event, call);
        socket.setTimeout(within);
        signal?.addEventListener('abort', leave);
        const head = [
          `${method} ${path} HTTP/1.1`,
          `host: ${host}`,
          ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
          ...(body === undefined ? [] : [`content-length: ${Buffer.byteLength(body)}`]),
        ];
        // Until it is connected, this waits in the socket.
        socket.write(`${head.join('\r\n')}\r\n\r\n${body ?? ''}`);
      });
    },
    begin() {
      if (kept === undefined) keep(open());
    },
    close: drop,
  };

  function open(): TLSSocket {
    const socket = connect();
    socket.once('secureConnect', () => connected.add(socket));
    return socket;
  }

  /** Until the other end lets it go, or says what nobody has asked. */
  function keep(socket: TLSSocket): void {
    drop();
    kept = socket;
    for (const event of partings) socket.on(event, drop);
  }

  /** The one that was kept, to be asked over. */
  function taken(): TLSSocket | undefined {
    const socket = kept;
    kept = undefined;
    for (const event of partings) socket?.off(event, drop);
    return socket;
  }

  function drop(): void {
    const socket = taken();
    // What it says afterwards is nobody's matter.
    socket?.on('error', () => undefined);
    socket?.destroy();
  }
}

/** What a socket says that nobody asks over, when it is of no more use. */
const partings = ['error', 'end', 'close', 'data'] as const;

interface Head {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
}

const lineEnd = '\r\n';
/** The head of an answer that is longer is none. */
const headMost = 64 * 1024;

/** Takes an answer as it comes, null at its end, and gives it as soon as it is whole. Throws for one that is none, or broken off. */
function replyReader(): (part: Buffer | null) => ShortReply | undefined {
  let head: Head | undefined;
  /** What has come and is not yet read. */
  let rest: Buffer = Buffer.alloc(0);
  const parts: Buffer[] = [];
  let size = 0;
  /** What of a chunk, and of the line end behind it, is still to come. */
  let left = 0;

  const push = (part: Buffer): void => {
    parts.push(part);
    size += part.length;
  };
  const whole = ({ status, headers }: Head): ShortReply => ({ status, headers, bytes: Buffer.concat(parts) });

  /** Takes chunk after chunk; true with the last. What has come of one is taken at once: a page of a list is one long chunk. */
  function readChunks(): boolean {
    for (;;) {
      const come = Math.min(left, rest.length);
      if (left > lineEnd.length) push(rest.subarray(0, Math.min(come, left - lineEnd.length)));
      rest = rest.subarray(come);
      left -= come;
      const end = rest.indexOf(lineEnd);
      if (left > 0 || end < 0) return false;
      const [digits] = /^[\da-f]{1,8}/i.exec(rest.toString('latin1', 0, end)) ?? [];
      if (digits === undefined) throw new Error('its answer is no HTTP');
      const length = Number.parseInt(digits, 16);
      // Headers may follow the last one; an empty line ends them.
      if (length === 0) return rest.includes('\r\n\r\n', end);
      rest = rest.subarray(end + lineEnd.length);
      left = length + lineEnd.length;
    }
  }

  return (part) => {
    if (part !== null) rest = rest.length === 0 ? part : Buffer.concat([rest, part]);
    while (head === undefined) {
      const end = rest.indexOf('\r\n\r\n');
      if (end < 0 && part === null) throw brokenOff('socket hang up');
      if (end < 0 && rest.length > headMost) throw new Error('its answer is no HTTP');
      if (end < 0) return undefined;
      const found = headIn(rest.toString('latin1', 0, end));
      rest = rest.subarray(end + 4);
      // Before the answer there may be word that it comes.
      if (found.status >= 200) head = found;
    }
    const { 'transfer-encoding': coding, 'content-length': length } = head.headers;
    if (head.status === 204 || head.status === 304) return whole(head);
    if (coding !== undefined) {
      if (coding.toLowerCase() !== 'chunked') throw new Error(`its answer is coded as ${coding}`);
      if (readChunks()) return whole(head);
    } else {
      push(rest);
      rest = Buffer.alloc(0);
      if (length === undefined ? part === null : size >= Number(length)) return whole(head);
    }
    if (part === null) throw brokenOff('the reply was broken off');
    return undefined;
  };
}

function headIn(text: string): Head {
  const [first = '', ...lines] = text.split('\r\n');
  const [, status] = /^HTTP\/1\.[01] (\d{3})/.exec(first) ?? [];
  if (status === undefined) throw new Error('its answer is no HTTP');
  const headers = lines.map((line) => {
    const colon = line.indexOf(':');
    return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()] as const;
  });
  return { status: Number(status), headers: Object.fromEntries(headers) };
}

/** As Node's own client calls it, so that what a lost reply means is decided in one place. */
function brokenOff(message: string): NodeJS.ErrnoException {
  return Object.assign(new Error(message), { code: 'ECONNRESET' });
}
