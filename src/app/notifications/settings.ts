// Settings of notifications: channels, recipients and the mail server. A secret is never in the settings: they name the
// file or the environment variable that contains it.

import {
  channelNamePattern,
  isMailAddress,
  notifyEventNames,
  eventOfOtherName,
  readRecipient,
  type NotifyEvent,
} from '../../core/model/notify.ts';
import { hour, minute } from '../../core/model/time.ts';
import { didYouMean } from '../../catalogue/did-you-mean.ts';
import {
  bool,
  enumOf,
  int,
  isNonEmpty,
  listOf,
  milliseconds,
  objectMap,
  objectOf,
  orNull,
  port,
  refined,
  reportProblem,
  textWhere,
  type Kind,
  type Path,
  type ValueOf,
} from '../../schema/kinds.ts';
import { defineSetting, type SettingsOf, type SettingsRule } from '../../schema/settings.ts';
import { toPlainValue, type Tree } from '../../schema/tree.ts';

/** The source of a secret: `env:NAME`, or the path of a file. A message about a wrong value never repeats it. */
const secretSource: Kind<string> = {
  description: 'the path of a file with it (~/slack-url), or env:NAME for an environment variable',
  isText: true,
  read(tree, path, report) {
    const value = toPlainValue(tree);
    if (typeof value === 'string' && (/^env:[A-Za-z_]\w*$/.test(value) || isSecretPath(value))) return value;
    return reportProblem(
      tree,
      path,
      report,
      'must be the path of a file that contains the secret, as in "~/slack-url", or "env:NAME"; never the secret itself',
    );
  },
};

/** With a slash, so that a password is not taken for a path; without `:`, so that an address is not. */
function isSecretPath(text: string): boolean {
  return /^(?:~|\.{1,2})?\/[^:\p{Cc}]+$/u.test(text);
}

/** The recipient in its stored form. */
const recipient: Kind<string> = refined(textWhere('"mail:ADDRESS" or the name of a channel'), (written, fail) => {
  const read = readRecipient(written);
  return 'recipient' in read ? read.recipient : fail(`${JSON.stringify(written)} ${read.problem}`, read.suggestion);
});
const recipients = listOf('a list of recipients like ["mail:alice@example.com", "slack"]', recipient);

const event = enumOf(
  `one of ${notifyEventNames.join(', ')}`,
  notifyEventNames,
  (written) => eventOfOtherName(written) ?? didYouMean(written, notifyEventNames),
);
const events = listOf('a list of events like ["failed", "succeeded"]', event);

const channelKinds = {
  slack: objectOf(
    '{ "type": "slack", "url": "~/slack-url" }',
    { type: enumOf('"slack"', ['slack']), url: secretSource },
    { allowPrivate: bool },
  ),
  webhook: objectOf(
    '{ "type": "webhook", "url": "~/webhook-url", "secret": "~/webhook-secret" }',
    { type: enumOf('"webhook"', ['webhook']), url: secretSource },
    { secret: secretSource, allowPrivate: bool },
  ),
  command: objectOf(
    '{ "type": "command", "command": "~/bin/on-event" }',
    { type: enumOf('"command"', ['command']), command: textWhere('a command for the shell', isNonEmpty) },
    {},
  ),
} as const;

type ChannelKinds = typeof channelKinds;

/** A way to send messages, other than mail. */
export type NotifyChannel = { [Name in keyof ChannelKinds]: ValueOf<ChannelKinds[Name]> }[keyof ChannelKinds];

const channel: Kind<NotifyChannel> = {
  description: 'a channel like { "type": "slack", "url": "~/slack-url" }',
  read(tree, path, report) {
    const types = Object.keys(channelKinds) as readonly (keyof ChannelKinds)[];
    if (tree.kind !== 'map') return reportProblem(tree, path, report, `must be ${this.description}`);
    const type = tree.entries.get('type')?.value;
    const written = type === undefined ? undefined : toPlainValue(type);
    const found = types.find((name) => name === written);
    if (found !== undefined) return (channelKinds[found] as Kind<NotifyChannel>).read(tree, path, report);
    return reportProblem(
      type ?? tree,
      type === undefined ? path : [...path, 'type'],
      report,
      type === undefined
        ? 'requires "type": "slack", "webhook" or "command"'
        : 'must be "slack", "webhook" or "command"',
      typeof written === 'string' ? didYouMean(written, types) : undefined,
    );
  },
};

const isHostName = (text: string): boolean => /^[A-Za-z0-9_.:-]+$/.test(text);

const smtpFields = objectOf(
  '{ "host": "smtp.example.com", "from": "jobman@example.com" }',
  {
    host: textWhere('the name or address of a server', isHostName),
    from: textWhere('one mail address', isMailAddress),
  },
  {
    port: port,
    security: enumOf('"starttls", "tls" or "none"', ['starttls', 'tls', 'none']),
    user: textWhere('the name for the login', (text) => isNonEmpty(text) && !/\p{Cc}/u.test(text)),
    password: secretSource,
  },
);

/** The mail server. The defaults: STARTTLS is required, port 587 (465 with `tls`, 25 with `none`), no login. */
export type SmtpSettings = ValueOf<typeof smtpFields>;

const smtp: Kind<SmtpSettings> = refined(smtpFields, (value, fail) => {
  const { host, user, password, security } = value;
  if ((user === undefined) !== (password === undefined)) return fail('requires both "user" and "password", or neither');
  const isHere = host === 'localhost' || host === '::1' || /^127(?:\.\d+){3}$/.test(host);
  if (user !== undefined && security === 'none' && !isHere)
    return fail('would send the password without encryption; use "security": "starttls" or "tls"');
  return value;
});

const userChoice = objectOf('{ "to": ["mail:alice@example.com"] }', {}, { on: events, to: recipients });

/** The events that are reported without a choice: those after which a person may want to act. */
const defaultEvents: readonly NotifyEvent[] = [
  'succeeded',
  'failed',
  'waiting',
  'budget_warning',
  'budget_released',
  'orphans',
];

/** The settings below `notify`. */
export const notifyTable = {
  to: defineSetting(recipients, [], 'Recipients of the events of all jobs: `mail:ADDRESS` or the name of a channel.'),
  on: defineSetting(
    events,
    defaultEvents,
    'Events that are reported; [docs/notifications.md](notifications.md#events) explains each.',
  ),
  users: defineSetting(
    objectMap(
      'an object like { "alice": { "to": ["mail:alice@example.com"] } }',
      (name) => (isNonEmpty(name) ? null : 'is not the name of a user'),
      userChoice,
    ),
    {},
    'Recipients (`to`) and events (`on`) of the jobs of one owner, instead of `notify.to` and `notify.on`.',
  ),
  channels: defineSetting(
    objectMap(
      'an object like { "slack": { "type": "slack", "url": "~/slack-url" } }',
      (name) =>
        channelNamePattern.test(name) && name !== 'mail'
          ? null
          : 'is not a name for a channel; use lower-case letters, digits, - and _',
      channel,
    ),
    {},
    'Slack-compatible webhooks, other webhooks, and commands, by name.',
  ),
  smtp: defineSetting(
    orNull('a mail server like { "host": "smtp.example.com", "from": "jobman@example.com" }, or null', smtp, null),
    null,
    'Mail server for `mail:` recipients.',
  ),
  waitingAfterMs: defineSetting(
    milliseconds(1_000),
    hour,
    'The event `waiting` is reported after this wait for capacity.',
  ),
  digestAfter: defineSetting(
    int(1, 1_000),
    5,
    'Messages to one recipient within `notify.digestWindowMs`; further events go out together in one message. `failed` and the events of budgets are sent at once, at most once a minute.',
  ),
  digestWindowMs: defineSetting(milliseconds(1_000), 10 * minute, 'See `notify.digestAfter`.'),
};

/** Each recipient of `notify.to` and `notify.users` is a mail address or a channel of this file or those below it. */
export function recipientsRule(channelsBelow: unknown): SettingsRule {
  return (values, trees, report) => {
    // With a problem in the channels, their names are unknown.
    if (trees.has('notify.channels') && !values.has('notify.channels')) return;
    const names = Object.keys((values.get('notify.channels') ?? channelsBelow ?? {}) as Readonly<object>);
    const checkList = (list: Tree | undefined, path: Path): void => {
      for (const [index, item] of list?.kind === 'list' ? list.items.entries() : []) {
        const name = toPlainValue(item);
        if (typeof name !== 'string' || !channelNamePattern.test(name) || names.includes(name)) continue;
        const known = names.length === 0 ? 'is empty' : `has ${names.join(', ')}`;
        const message = `"${name}" is not a channel: notify.channels ${known}`;
        reportProblem(item, [...path, index], report, message, didYouMean(name, names));
      }
    };
    checkList(trees.get('notify.to'), ['notify', 'to']);
    const users = trees.get('notify.users');
    for (const [user, { value }] of users?.kind === 'map' ? users.entries : [])
      if (value.kind === 'map') checkList(value.entries.get('to')?.value, ['notify', 'users', user, 'to']);
  };
}

export type NotifySettings = SettingsOf<typeof notifyTable>;
