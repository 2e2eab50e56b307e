// Reply: what an exchange with a server ends with.

import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';

/** A reply, whatever its status; a redirection is not followed. */
export interface Reply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly bytes: Buffer;
}

/** A reply with a status below 300 whose body is not read yet. */
export interface OpenReply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly stream: IncomingMessage;
}

/** No reply came, or it broke off. */
export class NoReply extends Error {
  /** False if no byte of the request can have arrived. */
  readonly wasSent: boolean;
  /** Node's code of the error: `ECONNREFUSED`, `CERT_HAS_EXPIRED`; null if it has none. */
  readonly reason: string | null;

  constructor(message: string, wasSent: boolean, reason: string | null, options?: ErrorOptions) {
    super(message, options);
    this.name = 'NoReply';
    this.wasSent = wasSent;
    this.reason = reason;
  }
}

/** If several addresses were tried, the message has the error of each. */
export function noReply(error: unknown, wasSent: boolean): NoReply {
  const all = (error instanceof AggregateError ? error.errors : [error]) as readonly NodeJS.ErrnoException[];
  const { message, code } = error as NodeJS.ErrnoException;
  const text = all.map((one) => one.message).join(', ');
  return new NoReply(text || message, wasSent, code ?? all[0]?.code ?? null, { cause: error });
}
