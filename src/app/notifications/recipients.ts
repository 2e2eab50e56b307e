// Recipients: who gets a notice. Pure functions.

import { notifyEventNames, readRecipient, mailAddressOf, type NotifySpec } from '../../core/model/notify.ts';
import type { RecipientInUse, RecipientView } from '../client.ts';
import { formatList, pluralize } from '../format.ts';
import type { Notice } from './notice.ts';
import type { NotifySettings } from './settings.ts';

/**
 * The recipients of a notice, without duplicates. The job's own choice comes first, then that of its owner
 * (`notify.users`), then that for all jobs. Events and recipients are chosen independently.
 */
export function recipientsOf(
  { event, owner, notify = {} }: Pick<Notice, 'event' | 'owner' | 'notify'>,
  settings: Pick<NotifySettings, 'to' | 'on' | 'users'>,
): readonly string[] {
  const own = owner !== null && Object.hasOwn(settings.users, owner) ? settings.users[owner] : undefined;
  const on = notify.on ?? own?.on ?? settings.on;
  return event !== 'test' && on.includes(event) ? [...new Set(notify.to ?? own?.to ?? settings.to)] : [];
}

/** Names that a manifest may use in `notify.to`: the channels, and `mail` with a mail server. */
export function channelsOf({ channels, smtp }: Pick<NotifySettings, 'channels' | 'smtp'>): readonly string[] {
  return [...Object.keys(channels), ...(smtp === null ? [] : ['mail'])];
}

/** All recipients of the settings: each channel, and each mail recipient of `to` and of a user. */
export function configuredRecipients({
  channels,
  to,
  users,
}: Pick<NotifySettings, 'channels' | 'to' | 'users'>): readonly string[] {
  const named = [...to, ...Object.values(users).flatMap((user) => user.to ?? [])];
  return [...new Set([...Object.keys(channels), ...named])];
}

/**
 * The reason for which no message can reach a recipient; null if the settings are complete. `secretProblems` are by
 * channel, with `mail` for the mail server.
 */
export function recipientProblem(
  recipient: string,
  { channels, smtp }: Pick<NotifySettings, 'channels' | 'smtp'>,
  secretProblems: ReadonlyMap<string, string>,
): string | null {
  const isMail = mailAddressOf(recipient) !== undefined;
  if (isMail && smtp === null) return 'no mail server is set (notify.smtp)';
  if (!isMail && !Object.hasOwn(channels, recipient)) return 'no such channel is set (notify.channels)';
  return secretProblems.get(channelOf(recipient)) ?? null;
}

/** All recipients of the settings. `secretProblems` as in `recipientProblem`. Contains no secret. */
export function recipientViews(
  settings: Pick<NotifySettings, 'channels' | 'smtp' | 'to' | 'users'>,
  secretProblems: ReadonlyMap<string, string>,
): readonly RecipientView[] {
  const { channels, to, users } = settings;
  const choosing = Object.entries(users).filter(([, user]) => user.to !== undefined);
  return configuredRecipients(settings).map((recipient) => {
    const channel = Object.hasOwn(channels, recipient) ? channels[recipient] : undefined;
    const owners = choosing.filter(([, user]) => user.to?.includes(recipient) === true).map(([name]) => name);
    return {
      recipient,
      channel: mailAddressOf(recipient) === undefined ? (channel?.type ?? null) : 'mail',
      allJobs: to.includes(recipient),
      owners,
      otherOwners: choosing.map(([name]) => name).filter((name) => !owners.includes(name)),
      problem: recipientProblem(recipient, settings, secretProblems),
    };
  });
}

/** The recipients that these jobs name, and those of these undelivered events. */
export function recipientsInUse(
  jobs: readonly { readonly id: string; readonly spec: { readonly notify?: NotifySpec | undefined } }[],
  undelivered: readonly { readonly recipient: string; readonly notices: readonly unknown[] }[],
): readonly RecipientInUse[] {
  const named = jobs.flatMap(({ spec }) => spec.notify?.to ?? []);
  const waiting = undelivered.filter(({ notices }) => notices.length > 0).map(({ recipient }) => recipient);
  return [...new Set([...named, ...waiting])].map((recipient) => ({
    recipient,
    jobs: jobs.filter(({ spec }) => spec.notify?.to?.includes(recipient) === true).map(({ id }) => id),
    events: undelivered.reduce((sum, one) => sum + (one.recipient === recipient ? one.notices.length : 0), 0),
  }));
}

/** `3 undelivered events and the unfinished job 000012`. */
export function formatUse({ jobs, events }: RecipientInUse): string {
  return formatList([
    ...(events === 0 ? [] : [pluralize(events, 'undelivered event')]),
    ...(jobs.length === 0 ? [] : [`the unfinished ${jobs.length === 1 ? 'job' : 'jobs'} ${formatList(jobs)}`]),
  ]);
}

/** The sources of the secrets of each channel, with `mail` for the mail server. */
export function secretSources({
  channels,
  smtp,
}: Pick<NotifySettings, 'channels' | 'smtp'>): ReadonlyMap<string, readonly string[]> {
  const sources = new Map<string, readonly string[]>([['mail', smtp?.password === undefined ? [] : [smtp.password]]]);
  for (const [name, channel] of Object.entries(channels)) {
    const own = channel.type === 'command' ? [] : [channel.url];
    sources.set(name, channel.type === 'webhook' && channel.secret !== undefined ? [...own, channel.secret] : own);
  }
  return sources;
}

/** The choice in an annotation of a cluster's job. Invalid parts are left out; undefined if it is not an object. */
export function parseNotifySpec(text: unknown): NotifySpec | undefined {
  if (typeof text !== 'string') return undefined;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (typeof value !== 'object' || value === null) return undefined;
  const { on, to } = value as { readonly on?: unknown; readonly to?: unknown };
  const recipients = (one: unknown): readonly string[] => {
    const read = typeof one === 'string' ? readRecipient(one) : { problem: '' };
    return 'recipient' in read ? [read.recipient] : [];
  };
  return {
    ...(Array.isArray(on) && { on: notifyEventNames.filter((name) => on.includes(name)) }),
    ...(Array.isArray(to) && { to: to.flatMap(recipients) }),
  };
}

/** The channel that sends to a recipient: `mail`, or the recipient itself. */
export function channelOf(recipient: string): string {
  return mailAddressOf(recipient) === undefined ? recipient : 'mail';
}
