// Digest: when the next message to a recipient is sent, and which of the waiting notices it contains. Pure.

import { minute, type Duration, type Instant } from '../../core/model/time.ts';
import type { HeldEvents } from '../client.ts';
import { formatDuration, pluralize } from '../format.ts';
import type { UserName } from '../../core/model/user.ts';
import type { Notice } from './notice.ts';
import { noticesAbout, type PendingMessage, type StoredNotice, type Waiting } from './outbox.ts';
import type { NotifySettings } from './settings.ts';

/** A longer digest is sent as several messages. */
export const maxNoticesPerMessage = 200;

/** Events that do not wait for the window. */
const urgentEvents: ReadonlySet<Notice['event']> = new Set([
  'failed',
  'budget_warning',
  'budget_used',
  'budget_released',
]);

/** The least time between two messages that urgent events send before the window allows one. */
const urgentPause: Duration = minute;

type Limits = Pick<NotifySettings, 'digestAfter' | 'digestWindowMs'>;

/** `planMessage` needs the messages since this time. */
export function digestSince(now: Instant, { digestWindowMs }: Limits): Instant {
  return now - digestWindowMs - urgentPause;
}

/**
 * The time of the recipient's next message, and how many of its `waiting` notices it contains. `sentAt` are the times of
 * the messages since `digestSince`. At most `digestAfter` messages begin within any `digestWindowMs`. As long as the
 * window allows enough messages, each notice is a message of its own; if more notices wait, they go out together at
 * once. When the window allows none, the notices wait for it and go out as one message. An urgent notice does not wait for
 * the window, but is sent at least `urgentPause` after the last message that was early for the same reason.
 */
export function planMessage(
  waiting: number,
  sentAt: readonly Instant[],
  now: Instant,
  { digestAfter, digestWindowMs }: Limits,
  hasUrgent = false,
): { readonly at: Instant; readonly notices: number } {
  // Times after now are from a clock that was set back since, and do not count.
  const sent = sentAt.filter((at) => at <= now).toSorted((one, other) => one - other);
  const inWindow = sent.filter((at) => at > now - digestWindowMs);
  const left = digestAfter - inWindow.length;
  const all = Math.min(waiting, maxNoticesPerMessage);
  if (left > 0) return { at: now, notices: waiting > left ? all : 1 };
  const windowAt = (inWindow[inWindow.length - digestAfter] ?? now) + digestWindowMs;
  if (!hasUrgent) return { at: windowAt, notices: all };
  const lastEarly = sent.findLast((at, index) => (sent[index - digestAfter] ?? -Infinity) > at - digestWindowMs);
  const earlyAt = lastEarly === undefined ? now : Math.max(now, lastEarly + urgentPause);
  return { at: Math.min(windowAt, earlyAt), notices: all };
}

/**
 * The next message of a recipient: its time, and the ids of its notices. A digest begins with the urgent ones, so that none
 * of them waits for the next message.
 */
export function nextMessage(
  { notices, sentAt }: Waiting,
  now: Instant,
  limits: Limits,
): { readonly at: Instant; readonly notices: readonly number[] } {
  const isUrgent = ({ event }: StoredNotice): boolean => urgentEvents.has(event);
  const plan = planMessage(notices.length, sentAt, now, limits, notices.some(isUrgent));
  const ordered =
    plan.notices < 2 ? notices : [...notices.filter(isUrgent), ...notices.filter((one) => !isUrgent(one))];
  return { at: plan.at, notices: ordered.slice(0, plan.notices).map(({ id }) => id) };
}

/**
 * The events about jobs of `owners` (null: all) that are in no message yet, by recipient. `pending` are the messages that
 * are not delivered.
 */
export function heldEvents(
  waiting: readonly Waiting[],
  pending: readonly PendingMessage[],
  now: Instant,
  limits: Limits,
  owners: readonly UserName[] | null,
): readonly HeldEvents[] {
  const blocked = new Set(pending.map(({ recipient }) => recipient));
  return waiting.flatMap((one) => {
    const shown = noticesAbout(one.notices, owners);
    if (shown.length === 0) return [];
    return {
      recipient: one.recipient,
      events: shown.length,
      oldestAt: Math.min(...shown.map(({ at }) => at)),
      nextAt: blocked.has(one.recipient) ? null : nextMessage(one, now, limits).at,
    };
  });
}

/** `3 events for slack are held by the digest window for another 4m10s (notify.digestWindowMs)`. */
export function heldPhrase({ recipient, events, nextAt }: HeldEvents, now: Instant): string {
  const are = `${pluralize(events, 'event')} for ${recipient} ${events === 1 ? 'is' : 'are'}`;
  if (nextAt === null) return `${are} held until the previous message is delivered or given up`;
  if (nextAt <= now) return `${are} in the next message`;
  return `${are} held by the digest window for another ${formatDuration(nextAt - now)} (notify.digestWindowMs)`;
}
