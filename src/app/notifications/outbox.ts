// Outbox: the ports of notifications. The store keeps notices and messages until they are delivered; a sender sends one
// message to one recipient.

import type { Duration, Instant } from '../../core/model/time.ts';
import type { UserName } from '../../core/model/user.ts';
import type { Key, Rows } from '../pages.ts';
import type { HostPath, MessageView } from '../client.ts';
import type { AuditEntry } from '../audit.ts';
import type { Notice } from './notice.ts';
import type { NotifySettings } from './settings.ts';

/** A notice in the store. */
export interface StoredNotice extends Notice {
  readonly id: number;
}

/** A message to one recipient. Its notices never change, so that a repeated message equals the first. */
export interface Message {
  readonly id: number;
  /** The same at every try and in no other message: the idempotency key of webhooks, and the Message-ID of mail. */
  readonly key: string;
  /** `mail:ADDRESS` or the name of a channel. */
  readonly recipient: string;
  readonly createdAt: Instant;
  readonly notices: readonly Notice[];
}

export interface PendingMessage extends Message {
  /** Failed tries so far. */
  readonly tries: number;
  readonly nextAt: Instant;
}

export interface Waiting {
  readonly recipient: string;
  /** Notices in no message yet, oldest first. */
  readonly notices: readonly StoredNotice[];
  /** The creation times of the recipient's messages since `since`. */
  readonly sentAt: readonly Instant[];
}

/** Those about jobs of `owners`; null: all, also those without a job. */
export function noticesAbout<One extends Pick<Notice, 'owner'>>(
  notices: readonly One[],
  owners: readonly UserName[] | null,
): readonly One[] {
  return owners === null ? notices : notices.filter(({ owner }) => owner !== null && owners.includes(owner));
}

/** Every method is one transaction and may throw StoreError. `Store.commit` writes the notices of jobs. */
export interface NotificationStore {
  /** Oldest first, at most 1000: notices that have no recipients yet. `waiting` notices only from before that time. */
  unaddressed(waitingBefore: Instant): Promise<readonly StoredNotice[]>;
  /** Gives each notice its recipients; a notice without any is deleted. Safe to repeat. */
  address(notices: readonly { readonly id: number; readonly recipients: readonly string[] }[]): Promise<void>;
  /** Messages that are neither sent nor given up, oldest first. */
  pending(): Promise<readonly PendingMessage[]>;
  /** At most 500 notices for each recipient. `since` limits `sentAt`. */
  waiting(since: Instant): Promise<readonly Waiting[]>;
  /** Puts those of these notices that are in no message yet into one message; null if there are none. */
  createMessage(recipient: string, notices: readonly number[], at: Instant): Promise<Message | null>;
  recordFailure(id: number, failure: { readonly error: string; readonly nextAt: Instant }): Promise<void>;
  recordEnd(
    id: number,
    end: { readonly state: 'sent' | 'given_up'; readonly at: Instant; readonly error?: string },
  ): Promise<void>;
  /**
   * Gives up what waits for a recipient and is not delivered yet, and returns the number of its events. Changes nothing
   * if one is not about a job of `owners`; null: of any owner.
   */
  drop(
    recipient: string,
    end: { readonly at: Instant; readonly error: string; readonly audit?: AuditEntry },
    owners: readonly UserName[] | null,
  ): Promise<number | 'forbidden'>;
  /** Newest first, with the events about jobs of `owners`; null: all. `before`: only older ones than that number. */
  messages(limit: number, owners: readonly UserName[] | null, before?: number): Promise<Rows<MessageView, Key>>;
  /** Deletes messages that ended before that time, with their notices. */
  prune(before: Instant): Promise<void>;
}

/** The result of one try. `isFinal`: another try would fail in the same way. */
export type SendResult =
  | { readonly kind: 'sent'; readonly detail: string }
  | {
      readonly kind: 'failed';
      readonly error: string;
      readonly isFinal?: true;
      /** The pause that the server asks for. */
      readonly retryAfter?: Duration;
    };

/** Sends one message. Ends in bounded time and never rejects; an aborted signal ends it early as failed. */
export type SendMessage = (message: Message, signal: AbortSignal) => Promise<SendResult>;

/** The channels of the settings. */
export interface Channels {
  readonly settings: NotifySettings;
  readonly send: SendMessage;
  /**
   * By channel, with `mail` for the mail server: a secret file that cannot be read. Variables are not checked, because they
   * count in the process of the controller.
   */
  readonly secretProblems: () => Promise<ReadonlyMap<string, string>>;
  /** The secret files that other users may read. */
  readonly openSecrets: () => Promise<readonly HostPath[]>;
}
