// Results of an exchange with a server, and the reasons why a certificate is not accepted.

import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';

/** A reply of any status; redirects are not followed. */
export interface Reply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly bytes: Buffer;
}

export interface StreamReply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly stream: IncomingMessage;
}

/** No reply came, or it broke off. */
export class NoReply extends Error {
  /** False if no byte of the request can have arrived. */
  readonly wasSent: boolean;
  /** Node's error code: `ECONNREFUSED`, `CERT_HAS_EXPIRED`; null without one. */
  readonly reason: string | null;

  constructor(message: string, wasSent: boolean, reason: string | null, options?: ErrorOptions) {
    super(message, options);
    this.name = 'NoReply';
    this.wasSent = wasSent;
    this.reason = reason;
  }
}

/** If several addresses were tried, the message has the error of each. */
export function toNoReply(error: unknown, wasSent: boolean): NoReply {
  const all = (error instanceof AggregateError ? error.errors : [error]) as readonly NodeJS.ErrnoException[];
  const { message, code } = error as NodeJS.ErrnoException;
  const text = all.map((one) => one.message).join(', ');
  return new NoReply(text || message, wasSent, code ?? all[0]?.code ?? null, { cause: error });
}

/** One of the results of `certificateProblem`, with a remedy of its own. */
export const unknownAuthority = 'is from an unknown authority';

/** Node's names of OpenSSL's errors (https://nodejs.org/api/tls.html#x509-certificate-error-codes). */
const certificateProblems: Readonly<Record<string, string>> = {
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: unknownAuthority,
  UNABLE_TO_GET_ISSUER_CERT: unknownAuthority,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: unknownAuthority,
  SELF_SIGNED_CERT_IN_CHAIN: unknownAuthority,
  DEPTH_ZERO_SELF_SIGNED_CERT: unknownAuthority,
  CERT_SIGNATURE_FAILURE: unknownAuthority,
  CERT_HAS_EXPIRED: 'has expired',
  CERT_NOT_YET_VALID: 'is not valid yet; check the clock of this machine',
  ERR_TLS_CERT_ALTNAME_INVALID: 'is for another address',
};

/** The predicate for a message, such as `has expired`; undefined for an error that is not about a certificate. */
export function certificateProblem(code: string | null | undefined): string | undefined {
  return code === null || code === undefined || !Object.hasOwn(certificateProblems, code)
    ? undefined
    : certificateProblems[code];
}

/** The title of an HTML page, as proxies and front ends send it, else the start of the text. On one line. */
export function summarizeBody(text: string): string {
  const isHtml = /^\s*<(?:!doctype\s+html|html)\b/i.test(text);
  const title = /<(title|h1)\b[^>]*>([^<]+)<\/\1/i.exec(text)?.[2];
  const content = isHtml ? (title ?? text.replaceAll(/<[^>]*>/g, ' ')) : text;
  return content.replaceAll(/\s+/g, ' ').trim().slice(0, 300);
}
