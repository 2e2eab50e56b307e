// Security headers of every response. Responses are data for programs: no browser may show, cache or frame one.

import type { OutgoingHttpHeaders } from 'node:http';

/** `isSecure`: clients reach the server only over TLS. Without CORS headers, no page of another origin can read a response. */
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
