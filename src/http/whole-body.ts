// Whole body: an answer of a server is read up to a limit. A server that never ends its answer would otherwise take all memory of a
// command, or of the controller, which supervises the jobs.

import type { IncomingMessage } from 'node:http';

const mebibyte = 1024 * 1024;

/** An answer is longer than the API of the server ever sends. */
class BodyTooLong extends Error {
  constructor(most: number) {
    super(`its answer is longer than ${Math.max(1, Math.round(most / mebibyte))} MiB`);
    this.name = 'BodyTooLong';
  }
}

/**
 * The body of an answer, of at most `most` bytes. Rejects with BodyTooLong, and ends the connection, when it is longer; with an Error when
 * it breaks off. The request that it belongs to has the deadline. Compressed bodies are not unpacked, so none can grow.
 */
export function wholeBody(incoming: IncomingMessage, most: number): Promise<Buffer> {
  // By its events: a page of a list comes in a hundred pieces, and an iterator would wait a turn for each.
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = [];
    let size = 0;
    const fail = (error: Error): void => {
      parts.length = 0;
      reject(error);
    };
    incoming.on('data', (part: Buffer) => {
      size += part.length;
      if (size <= most) parts.push(part);
      else incoming.destroy(new BodyTooLong(most));
    });
    incoming.on('error', fail);
    incoming.on('end', () => resolve(Buffer.concat(parts)));
    // An answer that breaks off does not always report an error.
    incoming.on('close', () => fail(new Error('the reply was broken off')));
  });
}
