// Retry: which requests are sent again, and when. A policy is data; which replies may be repeated at all is the same for every server.

import { setTimeout as sleep } from 'node:timers/promises';
import { second, type Duration } from '../core/time.ts';
import { NoReply, type OpenReply, type Reply } from './reply.ts';

/** How often and how long a request is sent again. */
export interface RetryPolicy {
  /** Requests in all, the first included. */
  readonly tries: number;
  /** The same if the connection broke. */
  readonly triesBroken: number;
  /** Before the second request; doubled for each further one. */
  readonly first: Duration;
  /** The longest single pause, even if the server asks for more. */
  readonly most: Duration;
}

/** Overloaded: nothing was done. */
const refusedForNow = [429];
/** Broken or restarting: a change may have been made, so only a GET is repeated. */
const failing = [500, 502, 503, 504];
/** The connection broke, or the name server was busy. An unknown name or certificate stays unknown. */
const broken = ['ECONNRESET', 'EPIPE', 'EAI_AGAIN'];

/** True if that reply of the attempt (from 1) is the last one. */
export function isOver(
  policy: RetryPolicy,
  method: string,
  reply: OpenReply | Reply | NoReply,
  attempt: number,
): boolean {
  const isRead = method === 'GET';
  if (reply instanceof NoReply) {
    return attempt >= policy.triesBroken || !isRead || !broken.includes(reply.reason ?? '');
  }
  const mayDiffer = refusedForNow.includes(reply.status) || (isRead && failing.includes(reply.status));
  return attempt >= policy.tries || !mayDiffer;
}

/** Waits before the next attempt. Rejects with the reason of an aborted signal. */
export async function pauseBefore(
  { first, most }: RetryPolicy,
  reply: OpenReply | Reply | NoReply,
  attempt: number,
  signal: AbortSignal | undefined,
): Promise<void> {
  // A kept connection that the server closed in the meantime says nothing about the server.
  if (reply instanceof NoReply && attempt === 1) return;
  const asked = reply instanceof NoReply ? 0 : askedPause(reply);
  const length = Math.min(Math.max(first * 2 ** (attempt - 1), asked), most);
  await sleep(length, undefined, signal === undefined ? {} : { signal }).catch(() => signal?.throwIfAborted());
}

/** The header Retry-After: seconds, or a date. */
function askedPause({ headers }: OpenReply | Reply): Duration {
  const said = headers['retry-after'];
  if (said === undefined) return 0;
  const asked = /^\d+$/.test(said) ? Number(said) * second : Date.parse(said) - Date.parse(headers.date ?? '');
  return Number.isFinite(asked) ? asked : 0;
}
