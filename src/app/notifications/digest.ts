// Digest: when the next message to a recipient is sent, and how many of the waiting notices it contains. Pure.

import type { Instant } from '../../core/model/time.ts';
import type { NotifySettings } from './settings.ts';

/** A longer digest is sent as several messages. */
export const maxNoticesPerMessage = 200;

/**
 * The next message of a recipient with `waiting` notices, of which `sentAt` are the times of the latest messages. At
 * most `digestAfter` messages begin within any `digestWindowMs`: the notices above that wait for the window and go out
 * as one message. More notices than the window has messages left go out together at once.
 */
export function planMessage(
  waiting: number,
  sentAt: readonly Instant[],
  now: Instant,
  { digestAfter, digestWindowMs }: Pick<NotifySettings, 'digestAfter' | 'digestWindowMs'>,
): { readonly at: Instant; readonly notices: number } {
  // Times after now are from a clock that was set back since, and do not count.
  const inWindow = sentAt.filter((at) => at > now - digestWindowMs && at <= now).toSorted((one, other) => one - other);
  const left = digestAfter - inWindow.length;
  const all = Math.min(waiting, maxNoticesPerMessage);
  if (left > 0) return { at: now, notices: waiting > left ? all : 1 };
  return { at: (inWindow[inWindow.length - digestAfter] ?? now) + digestWindowMs, notices: all };
}
