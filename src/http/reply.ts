// Reply: what an exchange with a server ends with, and why a certificate was not accepted.

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

const notKnown = 'is of an authority that is not known here';

/** Names of OpenSSL's verification as Node tells them (https://nodejs.org/api/tls.html#x509-certificate-error-codes). */
const meanings: Readonly<Record<string, string>> = {
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: notKnown,
  UNABLE_TO_GET_ISSUER_CERT: notKnown,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: notKnown,
  SELF_SIGNED_CERT_IN_CHAIN: notKnown,
  DEPTH_ZERO_SELF_SIGNED_CERT: notKnown,
  CERT_SIGNATURE_FAILURE: notKnown,
  CERT_HAS_EXPIRED: 'has expired',
  CERT_NOT_YET_VALID: 'is not valid yet: is the clock of this machine right?',
  ERR_TLS_CERT_ALTNAME_INVALID: 'is for another address',
};

/** `is of an authority that is not known here`; undefined for an error that is about no certificate. */
export function certificateTrouble(code: string | null | undefined): string | undefined {
  return code === null || code === undefined || !Object.hasOwn(meanings, code) ? undefined : meanings[code];
}
