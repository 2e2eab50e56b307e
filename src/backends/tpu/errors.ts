// The meaning of a refusal of the Cloud TPU API. Each class leads to another action; the raw words are always kept.
// Facts: messages in public reports of projects that run TPUs, and the codes of google.rpc.Code.

import type { CloudError, CloudErrorKind } from '../../core/job.ts';

/** The error body of the API (`code` is an HTTP status), or of an operation (`code` is a gRPC number). */
export interface StatusBody {
  readonly code?: number;
  readonly message?: string;
  readonly status?: string;
}

/** Both sorts of numbers, by the name that they stand for; the two ranges do not overlap. */
const names: Readonly<Record<number, string>> = {
  1: 'CANCELLED',
  2: 'UNKNOWN',
  3: 'INVALID_ARGUMENT',
  4: 'DEADLINE_EXCEEDED',
  5: 'NOT_FOUND',
  6: 'ALREADY_EXISTS',
  7: 'PERMISSION_DENIED',
  8: 'RESOURCE_EXHAUSTED',
  9: 'FAILED_PRECONDITION',
  10: 'ABORTED',
  11: 'OUT_OF_RANGE',
  12: 'UNIMPLEMENTED',
  13: 'INTERNAL',
  14: 'UNAVAILABLE',
  16: 'UNAUTHENTICATED',
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  409: 'ALREADY_EXISTS',
  429: 'RESOURCE_EXHAUSTED',
  500: 'INTERNAL',
  501: 'UNIMPLEMENTED',
  502: 'UNAVAILABLE',
  503: 'UNAVAILABLE',
  504: 'DEADLINE_EXCEEDED',
};

/** The canonical name of an error: its own `status`, else by its code. */
export function statusName(body: StatusBody): string {
  if (body.status !== undefined && body.status !== '') return body.status;
  const code = body.code ?? 0;
  return names[code] ?? `code ${code}`;
}

interface Row {
  readonly kind: CloudErrorKind;
  readonly names?: readonly string[];
  readonly words?: RegExp;
}

const exhausted = ['RESOURCE_EXHAUSTED', 'FAILED_PRECONDITION'];

/** In order, first match wins: the words first, because one code (8, 429) stands for three different troubles. */
const table: readonly Row[] = [
  // "There is no more capacity in the zone", "Insufficient reserved capacity": theirs, here, now.
  { kind: 'stockout', words: /no more capacity|insufficient .*capacity|stockout|enough (resources|capacity)/i },
  // Too many calls in a minute, which also says "quota" in its name.
  { kind: 'rate_limited', names: exhausted, words: /requests? per (minute|second)|rate limit/i },
  // Our own limit; waiting helps only when something of ours goes.
  { kind: 'quota', names: exhausted, words: /quota|IN_USE_ADDRESSES|\blimit\b/i },
  { kind: 'stockout', names: ['RESOURCE_EXHAUSTED'] },
  // A 403 about the "quota project" of a login is no quota.
  { kind: 'permission', names: ['PERMISSION_DENIED'] },
  // A stale or missing login tells nothing about the cloud: it is as if nobody had answered.
  { kind: 'unreachable', names: ['UNAUTHENTICATED', 'UNAVAILABLE', 'DEADLINE_EXCEEDED'] },
  { kind: 'not_found', names: ['NOT_FOUND'] },
  // A node preempted while it was being made ends its create with code 3; the request was right and may be repeated.
  { kind: 'internal', names: ['INVALID_ARGUMENT'], words: /while in state/i },
  { kind: 'invalid', names: ['INVALID_ARGUMENT', 'OUT_OF_RANGE', 'UNIMPLEMENTED', 'ALREADY_EXISTS'] },
  // FAILED_PRECONDITION among them: what state something is in may change, so asking again is right.
  { kind: 'internal' },
];

const sentences: Readonly<Record<CloudErrorKind, string>> = {
  stockout: 'no capacity there now',
  quota: 'your quota is used up; preempted nodes and suspended queued resources count too',
  rate_limited: 'too many requests to the API in a minute',
  permission: 'the right is missing, or the zone is not open to your project',
  invalid: 'the cloud refuses the request as it stands',
  not_found: 'the cloud knows no such thing',
  internal: 'the cloud failed inside',
  unreachable: 'the cloud did not answer',
};

/** Classifies an error body. `raw` is the message word for word. */
export function classify(body: StatusBody): CloudError {
  const name = statusName(body);
  const message = body.message ?? '';
  const row = table.find(
    (one) =>
      (one.names === undefined || one.names.includes(name)) && (one.words === undefined || one.words.test(message)),
  );
  const kind = row?.kind ?? 'internal';
  return { kind, message: sentences[kind], raw: message === '' ? name : `${name}: ${message}` };
}

/** No answer at all: a refused connection, a time-out, a broken reply. The sentence says which. */
export function unanswered(sentence: string): CloudError {
  return { kind: 'unreachable', message: sentence, raw: sentence };
}

/** No login, or one that the cloud does not accept. The sentence says how to log in. */
export function withoutLogin(sentence: string): CloudError {
  return { ...unanswered(sentence), noLogin: true };
}

/** True when the cloud says that it has no TPUs in that zone at all: then nothing of anybody's is there. */
function isNoSuchZone({ kind, raw }: CloudError): boolean {
  return kind === 'invalid' && /requested zone .* is not supported/i.test(raw);
}

/** True where the cloud itself says that there is no such thing. */
export function isNotThere({ status, error }: { readonly status: string; readonly error: CloudError }): boolean {
  return status === 'NOT_FOUND' || isNoSuchZone(error);
}
