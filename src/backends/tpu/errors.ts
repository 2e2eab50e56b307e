// What a refusal of the Cloud TPU API means. Classes lead to different acts; the raw words are always kept.
// Facts: the error table of Google's public reports, and gRPC codes of google.rpc.Code.

import type { CloudError, CloudErrorKind } from '../../core/job.ts';

/** The error body of the API, or of an operation (whose `code` is a gRPC number, not an HTTP status). */
export interface StatusBody {
  readonly code?: number;
  readonly message?: string;
  readonly status?: string;
  readonly details?: readonly { readonly reason?: string }[];
}

/** gRPC numbers that an operation's error carries, by the name that a synchronous error carries. */
const grpcNames: Readonly<Record<number, string>> = {
  3: 'INVALID_ARGUMENT',
  5: 'NOT_FOUND',
  6: 'ALREADY_EXISTS',
  7: 'PERMISSION_DENIED',
  8: 'RESOURCE_EXHAUSTED',
  9: 'FAILED_PRECONDITION',
  10: 'ABORTED',
  13: 'INTERNAL',
  14: 'UNAVAILABLE',
  16: 'UNAUTHENTICATED',
};

const httpNames: Readonly<Record<number, string>> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  409: 'ALREADY_EXISTS',
  429: 'RESOURCE_EXHAUSTED',
  500: 'INTERNAL',
  503: 'UNAVAILABLE',
};

/** The canonical name of an error: its own `status`, else by its code. */
export function statusName(body: StatusBody): string {
  if (body.status !== undefined && body.status !== '') return body.status;
  const code = body.code ?? 0;
  return grpcNames[code] ?? httpNames[code] ?? `code ${code}`;
}

/** In order, first match wins: the words first, because one code (8, 429) stands for three different troubles. */
const table: readonly { readonly when: (name: string, message: string) => boolean; readonly kind: CloudErrorKind }[] = [
  // "No more capacity in the zone" and "insufficient reserved capacity": theirs, here, now.
  {
    when: (_, message) =>
      /no more capacity|insufficient (reserved )?capacity|stockout|not enough (resources|capacity)/i.test(message),
    kind: 'stockout',
  },
  // Too many calls in a minute, which also says "quota" in its name.
  {
    when: (name, message) => name === 'RESOURCE_EXHAUSTED' && /requests? per (minute|second)|rate limit/i.test(message),
    kind: 'rate_limited',
  },
  // Our own limit; waiting helps only when something of ours goes.
  { when: (_, message) => /quota|IN_USE_ADDRESSES|limit .* exceeded/i.test(message), kind: 'quota' },
  { when: (name) => name === 'RESOURCE_EXHAUSTED', kind: 'stockout' },
  { when: (name) => name === 'PERMISSION_DENIED', kind: 'permission' },
  // A stale or missing login tells nothing about the cloud: it is as if nobody had answered.
  { when: (name) => name === 'UNAUTHENTICATED' || name === 'UNAVAILABLE', kind: 'unreachable' },
  { when: (name) => name === 'NOT_FOUND', kind: 'not_found' },
  // A node preempted while it was being made ends its create operation with code 3; asking again is right.
  { when: (name, message) => name === 'INVALID_ARGUMENT' && /while in state/i.test(message), kind: 'internal' },
  { when: (name) => name === 'INVALID_ARGUMENT', kind: 'invalid' },
  { when: () => true, kind: 'internal' },
];

const sentences: Readonly<Record<CloudErrorKind, string>> = {
  stockout: 'no capacity there now',
  quota: 'your quota is used up; look for preempted nodes and suspended queued resources that still count (jobman gc)',
  rate_limited: 'too many requests to the API in a minute',
  permission: 'the right is missing, or the zone is not open to your project',
  invalid: 'the cloud refuses the request as it stands',
  not_found: 'the cloud knows no such thing',
  internal: 'the cloud failed inside',
  unreachable: 'the cloud did not answer, or the login has expired',
};

/** Classifies an error body. `raw` is the message word for word. */
export function classify(body: StatusBody): CloudError {
  const name = statusName(body);
  const message = body.message ?? '';
  const row = table.find((candidate) => candidate.when(name, message));
  const kind = row?.kind ?? 'internal';
  return { kind, message: sentences[kind], raw: message === '' ? name : `${name}: ${message}` };
}

/** No answer at all: a refused connection, a time-out, a broken reply. */
export function unanswered(raw: string): CloudError {
  return { kind: 'unreachable', message: sentences.unreachable, raw };
}

/** True for classes that asking again cannot change. */
export function isPermanent(kind: CloudErrorKind): boolean {
  return kind === 'permission' || kind === 'invalid' || kind === 'not_found';
}
