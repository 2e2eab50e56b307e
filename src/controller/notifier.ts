// Notifier: delivers the notices that the store has written, at least once. It shares nothing with the passes: a server
// that hangs delays only its own channel.
//
// A message is stored before its first try and ended after its delivery. A controller that dies in between sends it
// again under the same key. Failed messages are repeated for a day.

import { createLimiter } from '../app/concurrency.ts';
import { messageOf } from '../app/errors.ts';
import { digestSince, nextMessage } from '../app/notifications/digest.ts';
import type { NotificationStore, PendingMessage, SendMessage, SendResult } from '../app/notifications/outbox.ts';
import { channelOf, recipientsOf } from '../app/notifications/recipients.ts';
import type { NotifySettings } from '../app/notifications/settings.ts';
import type { Clock } from '../app/ports.ts';
import { day, minute, second, type Duration, type Instant } from '../core/model/time.ts';
import { backoff, createCoalescedTask, waitAtMost } from './timers.ts';

/** A message is given up after the first failed try later than this after its creation. */
const giveUpAfter: Duration = day;
const firstRetry: Duration = 5 * second;
const maxRetry: Duration = 15 * minute;
/** Ended messages are kept for `jobman notify`. */
const keptFor: Duration = 14 * day;
/** Tries at once through one channel. A mail server that hangs holds up only mail. */
const maxTriesPerChannel = 4;
/** Running tries get this long to end when the controller exits. They are repeated otherwise. */
const stopTimeout: Duration = 5 * second;

interface NotifierOptions {
  readonly store: NotificationStore;
  readonly settings: NotifySettings;
  readonly send: SendMessage;
  readonly clock: Clock;
  readonly report: (line: string) => void;
}

export type Notifier = ReturnType<typeof createNotifier>;

export function createNotifier(options: NotifierOptions) {
  const { store, settings, clock, report } = options;
  let isStopped = false;
  let hasPending = true;
  /** Numbers of commits with events: all, and those before the last complete round. */
  let commits = 0;
  let commitsRead = 0;
  let cancelTimer = (): void => undefined;
  let prunedAt: Instant = -Infinity;
  let storeFailures = 0;
  let pausedUntil: Instant = -Infinity;

  const rounds = createCoalescedTask(async () => {
    if (isStopped) return;
    try {
      await round(clock.now());
    } catch (error) {
      onStoreFailure(error);
    }
  });

  const tries = createTries(options, {
    onRecorded: () => void (storeFailures = 0),
    onStoreFailure,
    onEnded: rounds.trigger,
  });

  async function round(now: Instant): Promise<void> {
    // The clock may have been set back.
    pausedUntil = Math.min(pausedUntil, now + minute);
    if (now < pausedUntil) return wakeAt(pausedUntil);
    const commitsBefore = commits;
    const fresh = await store.unaddressed(now - settings.waitingAfterMs);
    if (fresh.length > 0)
      await store.address(fresh.map((notice) => ({ id: notice.id, recipients: recipientsOf(notice, settings) })));
    const pending = await store.pending();
    const waiting = await store.waiting(digestSince(now, settings));
    const times: Instant[] = [];
    for (const message of firstOfEach(pending)) {
      // No pause is longer, so a later time is from a clock that was set back since.
      const isAhead = message.nextAt > now + maxRetry;
      if (message.nextAt > now && !isAhead) times.push(message.nextAt);
      else tries.begin(message.recipient, () => Promise.resolve(message));
    }
    // While a message waits for its next try, later notices of its recipient wait too and become a digest.
    const blocked = new Set(pending.map(({ recipient }) => recipient));
    for (const one of waiting) {
      if (blocked.has(one.recipient)) continue;
      const { at, notices } = nextMessage(one, now, settings);
      if (at > now) times.push(at);
      else tries.begin(one.recipient, () => createMessage(one.recipient, notices));
    }
    hasPending = pending.length > 0 || waiting.length > 0;
    commitsRead = commitsBefore;
    if (now - prunedAt >= day || now < prunedAt) {
      prunedAt = now;
      await store.prune(now - keptFor);
    }
    if (times.length > 0) wakeAt(Math.min(...times));
  }

  function wakeAt(at: Instant): void {
    cancelTimer();
    if (!isStopped) cancelTimer = clock.at(at, rounds.trigger);
  }

  function onStoreFailure(error: unknown): void {
    if (storeFailures === 0) report(`cannot read or write notifications; retrying: ${messageOf(error)}`);
    pausedUntil = clock.now() + backoff(storeFailures, second, minute);
    storeFailures += 1;
    wakeAt(pausedUntil);
  }

  async function createMessage(recipient: string, notices: readonly number[]): Promise<PendingMessage | null> {
    const now = clock.now();
    const message = await store.createMessage(recipient, notices, now);
    return message === null ? null : { ...message, tries: 0, nextAt: now };
  }

  return {
    poll: rounds.trigger,
    /** A commit may have written notices. */
    onCommit(): void {
      commits += 1;
      rounds.trigger();
    },
    /**
     * True while a message is neither delivered nor given up, which is about a day at most. A poll alone does not count:
     * it comes with every renewal of the lease, and the controller would never be idle.
     */
    get isBusy(): boolean {
      return hasPending || tries.isBusy || commits > commitsRead;
    },
    /** Resolves within seconds. The next controller repeats a try that has no result by then. */
    async stop(): Promise<void> {
      isStopped = true;
      cancelTimer();
      await tries.stop();
    },
  };
}

interface TryHooks {
  readonly onRecorded: () => void;
  readonly onStoreFailure: (error: unknown) => void;
  readonly onEnded: () => void;
}

/** The tries that are running: one for each recipient, and a few for each channel. */
function createTries({ store, send, clock, report }: NotifierOptions, hooks: TryHooks) {
  const end = new AbortController();
  const limiters = new Map<string, ReturnType<typeof createLimiter>>();
  const running = new Map<string, Promise<void>>();
  /** Results that the store could not take yet, by message: a delivered message must not be sent again. */
  const unrecorded = new Map<number, SendResult>();
  let isStopped = false;

  /** One try. Rejects with StoreError. */
  async function deliver(create: () => Promise<PendingMessage | null>): Promise<void> {
    if (isStopped) return;
    const message = await create();
    // `jobman notify drop` has dropped the notices in between.
    if (message === null) return;
    const result = unrecorded.get(message.id) ?? (await send(message, end.signal));
    // An interrupted try counts as none: the next controller repeats it.
    if (end.signal.aborted && result.kind === 'failed') return;
    unrecorded.set(message.id, result);
    await record(message, result);
    unrecorded.delete(message.id);
  }

  async function record({ id, recipient, key, tries, createdAt }: PendingMessage, result: SendResult): Promise<void> {
    const now = clock.now();
    if (result.kind === 'sent') return store.recordEnd(id, { state: 'sent', at: now });
    const { error, isFinal, retryAfter = 0 } = result;
    if (isFinal === true || now - createdAt >= giveUpAfter) {
      await store.recordEnd(id, { state: 'given_up', at: now, error });
      report(`gave up the message ${key} to ${recipient} after try ${tries + 1}: ${error}`);
      return;
    }
    const pause = Math.min(Math.max(backoff(tries, firstRetry, maxRetry), retryAfter), maxRetry);
    await store.recordFailure(id, { error, nextAt: now + pause });
    if (tries === 0) report(`the message ${key} to ${recipient} failed and is repeated for a day: ${error}`);
  }

  return {
    get isBusy(): boolean {
      return running.size > 0;
    },
    /** Does nothing while the recipient has a try. */
    begin(recipient: string, message: () => Promise<PendingMessage | null>): void {
      if (running.has(recipient)) return;
      const channel = channelOf(recipient);
      const withSlot = limiters.get(channel) ?? createLimiter(maxTriesPerChannel);
      limiters.set(channel, withSlot);
      const work = withSlot(() => deliver(message))
        .then(hooks.onRecorded, hooks.onStoreFailure)
        .finally(() => {
          running.delete(recipient);
          hooks.onEnded();
        });
      running.set(recipient, work);
    },
    async stop(): Promise<void> {
      isStopped = true;
      const rest = (): Promise<unknown> => Promise.all(running.values());
      if (await waitAtMost(clock, rest(), stopTimeout)) return;
      end.abort(new Error('the controller exits'));
      await waitAtMost(clock, rest(), second);
    },
  };
}

function firstOfEach(messages: readonly PendingMessage[]): readonly PendingMessage[] {
  const seen = new Set<string>();
  return messages.filter(({ recipient }) => {
    const isFirst = !seen.has(recipient);
    seen.add(recipient);
    return isFirst;
  });
}
