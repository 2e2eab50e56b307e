// Headers of every answer. Answers are data for programs: no browser may show, keep, frame or reuse one.

import type { OutgoingHttpHeaders } from 'node:http';

/** `isSecure`: users reach the server over TLS only. Without headers of CORS, no page of another origin reads an answer. */
export function securityHeaders(isSecure: boolean): OutgoingHttpHeaders {
  return {
    'cache-control': 'no-store',
    'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
    'cross-origin-resource-policy': 'same-origin',
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
    ...(isSecure ? { 'strict-transport-security': 'max-age=31536000' } : {}),
  };
}
