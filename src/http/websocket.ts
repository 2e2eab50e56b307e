import type { WebSocket } from 'ws';
import { readBody } from './client.ts';
import { toNoReply, type NoReply, type Reply } from './reply.ts';

const maxRefusalBytes = 1 << 20;

/** Null once the connection is open, else the answer that refuses it. */
export function awaitHandshake(socket: WebSocket): Promise<Reply | NoReply | null> {
  return new Promise((resolve) => {
    socket.once('open', () => resolve(null));
    socket.on('error', (error) => resolve(toNoReply(error, false)));
    socket.once('unexpected-response', (outgoing, incoming) => {
      const { statusCode: status = 0, headers } = incoming;
      readBody(incoming, maxRefusalBytes)
        .then(
          (bytes) => resolve({ status, headers, bytes }),
          (error: unknown) => resolve(toNoReply(error, true)),
        )
        .finally(() => outgoing.destroy());
    });
  });
}
