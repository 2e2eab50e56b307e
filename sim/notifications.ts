// Notifications: the recipients of the simulated world. Servers fail, hang, and take a message although their reply is
// lost. The notifier is the real one.

import { noticesOf } from '../src/app/notifications/notice.ts';
import type { Notice } from '../src/app/notifications/notice.ts';
import type { Message, NotificationStore, SendMessage, SendResult } from '../src/app/notifications/outbox.ts';
import { defaultSettings } from '../src/app/settings.ts';
import type { Clock } from '../src/app/ports.ts';
import { createNotifier } from '../src/controller/notifier.ts';
import type { Notifier } from '../src/controller/notifier.ts';
import { notifyEventNames } from '../src/core/model/notify.ts';
import type { Event } from '../src/core/model/event.ts';
import type { Job } from '../src/core/model/job.ts';
import { minute } from '../src/core/model/time.ts';
import type { Chance } from './chance.ts';
import { diskFullError } from './outputs.ts';
import type { Disk } from './outputs.ts';
import type { SimulatedProcess } from './process.ts';
import type { World } from './world.ts';

export interface Recipients {
  /** A commit has these events. Its notices must be delivered. */
  committed(job: Job, events: readonly Event[]): void;
  notifierOf(process: SimulatedProcess): Notifier;
  /** A notice that is neither delivered nor given up; undefined if there is none. */
  readonly missing: string | undefined;
  /** True if no message waits for its next try. */
  readonly isQuiet: boolean;
}

interface RecipientsOptions {
  readonly world: World;
  readonly store: NotificationStore;
  readonly disk: Disk;
  readonly clock: Clock;
  readonly chance: Chance;
  readonly hasFaults: () => boolean;
  /** A notice was delivered in two messages that no recipient can recognise as one. */
  readonly onDuplicate: (message: string) => void;
}

const settings = {
  ...defaultSettings(1).notify,
  to: ['slack', 'mail:owner@example.com'],
  // A wait or an orphan is reported only if it lasts.
  on: notifyEventNames.filter((name): boolean => name !== 'waiting' && name !== 'orphans'),
};

export function createRecipients(options: RecipientsOptions): Recipients {
  const { world, clock, chance, disk } = options;
  const missing = new Set<string>();
  /** The key of the message that delivered it. */
  const delivered = new Map<string, string>();
  const messages = new Map<number, Message>();
  const open = new Set<number>();

  function take({ key, recipient, notices }: Message): void {
    for (const notice of notices) {
      const id = idOf(recipient, notice);
      const before = delivered.get(id);
      if (before !== undefined && before !== key) options.onDuplicate(`${id} was delivered as ${before} and ${key}`);
      delivered.set(id, key);
      missing.delete(id);
    }
    world.log(`notification: ${recipient} got ${key} with ${notices.map(({ event }) => event).join(', ')}`);
  }

  const send: SendMessage = async (message): Promise<SendResult> => {
    messages.set(message.id, message);
    await world.timeline.pause(chance.between(10, 2_000));
    if (!options.hasFaults() || chance.yes(0.6)) {
      take(message);
      return { kind: 'sent', detail: '' };
    }
    if (chance.yes(0.3)) take(message);
    if (chance.yes(0.3)) await world.timeline.pause(chance.between(1_000, minute));
    return { kind: 'failed', error: 'HTTP 500' };
  };

  /** The effects count even if the controller dies before it gets the answer. */
  const store: NotificationStore = withDisk(options.store, disk, {
    async createMessage(...given) {
      const message = await options.store.createMessage(...given);
      if (message !== null) open.add(message.id);
      return message;
    },
    async recordEnd(id, end) {
      await options.store.recordEnd(id, end);
      open.delete(id);
      const message = messages.get(id);
      if (end.state === 'given_up' && message !== undefined)
        for (const notice of message.notices) missing.delete(idOf(message.recipient, notice));
    },
  });

  return {
    committed(job, events) {
      for (const notice of noticesOf(job, events).notices) {
        if (notice.event === 'test' || !settings.on.includes(notice.event)) continue;
        for (const recipient of settings.to) missing.add(idOf(recipient, notice));
      }
    },
    notifierOf: (process) =>
      createNotifier({
        // The calls do not count, so that the faults of a seed do not depend on them.
        store: process.wrap(store, false),
        send: process.wrap({ send }, false).send,
        settings,
        clock: process.clock(clock),
        report: (line) => process.isDead || world.log(`${process.name}: ${line}`),
      }),
    get missing() {
      return [...missing.values().take(1)][0];
    },
    get isQuiet() {
      return open.size === 0;
    },
  };
}

/** One pass may warn of two budgets. */
function idOf(recipient: string, { job, event, attempt, at, message }: Notice): string {
  return `${event} of job ${job}, attempt ${attempt}, at ${at} for ${recipient}: ${message}`;
}

/** A full disk takes no writes. */
function withDisk(store: NotificationStore, disk: Disk, own: Partial<NotificationStore>): NotificationStore {
  const reads: readonly (keyof NotificationStore)[] = ['unaddressed', 'pending', 'waiting', 'messages'];
  const whole: NotificationStore = { ...store, ...own };
  return new Proxy(whole, {
    get(target, key: keyof NotificationStore) {
      const member = target[key] as (...given: unknown[]) => Promise<unknown>;
      if (reads.includes(key)) return member;
      return async (...given: unknown[]) => {
        if (disk.isFull) throw diskFullError();
        return member(...given);
      };
    },
  });
}
