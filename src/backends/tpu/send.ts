// Send: one HTTP request and its whole reply. Node's own client and not fetch, which loads a second HTTP stack: that alone
// takes as long as all else that a short command does. Connections are kept for the next request.

import { request as httpRequest } from 'node:http';
import type { IncomingMessage, RequestOptions } from 'node:http';
import { wholeBody } from '../../app/whole-body.ts';
import { second } from '../../core/time.ts';
import type { Duration } from '../../core/time.ts';

export interface Reply {
  readonly status: number;
  readonly text: string;
}

/** No reply came. `wasSent` is false when not a byte of the request can have arrived. */
export class SendError extends Error {
  readonly wasSent: boolean;

  constructor(message: string, wasSent: boolean, options?: ErrorOptions) {
    super(message, options);
    this.name = 'SendError';
    this.wasSent = wasSent;
  }
}

export interface SendRequest {
  readonly url: string;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  /** For all of it, from the first byte to the last. */
  readonly timeoutMs: Duration;
  /** The longest reply, in bytes. */
  readonly most?: number;
}

/** A page of a zone's list has some hundred kilobytes. */
const usualMost = 32 * 1024 * 1024;

/**
 * Resolves with the reply, whatever its status; a redirection is a reply like any other, and is not followed. Rejects with
 * SendError. Nothing is sent twice: who asked looks again in a moment.
 */
export async function send({ url, method, headers, body, timeoutMs, most = usualMost }: SendRequest): Promise<Reply> {
  const start = url.startsWith('https:') ? (await import('node:https')).request : httpRequest;
  return new Promise<Reply>((resolve, reject) => {
    const options: RequestOptions = { method, headers };
    const outgoing = start(url, options, (incoming) => void read(incoming));
    let isConnected = false;
    let late: Error | undefined;
    const timer = setTimeout(() => {
      late = new Error(`no answer within ${timeoutMs / second} s`);
      outgoing.destroy(late);
    }, timeoutMs);

    const fail = (error: Error): void => {
      clearTimeout(timer);
      // Half a reply that is broken off says only that it was broken off.
      reject(new SendError(messageOf(late ?? error), isConnected, { cause: error }));
    };
    async function read(incoming: IncomingMessage): Promise<void> {
      let bytes: Buffer;
      try {
        bytes = await wholeBody(incoming, most);
      } catch (error) {
        fail(error instanceof Error ? error : new Error(String(error)));
        return;
      }
      clearTimeout(timer);
      resolve({ status: incoming.statusCode ?? 0, text: bytes.toString('utf8') });
    }

    // Before TLS has been agreed upon nothing of the request has left.
    const connected = url.startsWith('https:') ? 'secureConnect' : 'connect';
    outgoing.on('socket', (socket) => {
      if (outgoing.reusedSocket) isConnected = true;
      else socket.once(connected, () => (isConnected = true));
    });
    outgoing.on('error', fail);
    outgoing.end(body);
  });
}

/** Of several addresses that were tried in vain, what each said. */
function messageOf(error: Error): string {
  if (!(error instanceof AggregateError)) return error.message;
  return error.errors.map((one) => (one instanceof Error ? one.message : String(one))).join(', ') || error.message;
}
