// The words between a relay and its clients: frames of a length, a kind, the number of a session, and bytes.

import type { Socket } from 'node:net';

/** The kinds of frames. `open`, `data`, `end` and `stop` go to the relay, the others come from it. */
export const kinds = {
  /** JSON of `Opening`. */
  open: 1,
  /** Bytes for the program's input; answered by `taken`, before which no more is sent. */
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

export type Kind = (typeof kinds)[keyof typeof kinds];

export interface Frame {
  readonly kind: number;
  readonly session: number;
  readonly body: Buffer;
}

const headLength = 9;

/** Larger frames are nobody's: the reader gives up. Chunks of a channel have at most 2 MiB, its window. */
const bodyMost = 8 << 20;

export function frame(kind: Kind, session: number, body: Uint8Array | string = ''): Buffer {
  const bytes = typeof body === 'string' ? Buffer.from(body) : body;
  const head = Buffer.alloc(headLength);
  head.writeUInt32BE(bytes.length, 0);
  head.writeUInt8(kind, 4);
  head.writeUInt32BE(session, 5);
  return Buffer.concat([head, bytes]);
}

/** Puts frames together from what comes over a socket, and ends the socket at a length that no frame has. */
export function readFrames(socket: Socket, take: (frame: Frame) => void): void {
  let held: Buffer = Buffer.alloc(0);
  socket.on('data', (chunk: Buffer) => {
    held = held.length === 0 ? chunk : Buffer.concat([held, chunk]);
    let from = 0;
    while (held.length - from >= headLength) {
      const end = from + headLength + held.readUInt32BE(from);
      if (end - from - headLength > bodyMost) {
        socket.destroy();
        return;
      }
      if (held.length < end) break;
      const body = held.subarray(from + headLength, end);
      take({ kind: held.readUInt8(from + 4), session: held.readUInt32BE(from + 5), body });
      from = end;
    }
    held = held.subarray(from);
  });
}
