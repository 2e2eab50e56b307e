// Message text: a message as a mail, as a text for Slack, and as JSON for webhooks and commands. Pure functions.
//
// Names, log lines and answers of clouds are foreign text. In a mail they are plain text without control characters;
// for Slack they are escaped, so that they can neither mention people nor make links.

import { escapeLine, formatList, formatTimestamp, pluralize } from '../format.ts';
import { timesAsText } from '../json.ts';
import type { Notice } from './notice.ts';
import type { Message } from './outbox.ts';

const phrases: Readonly<Record<Notice['event'], string>> = {
  started: 'started',
  recovered: 'runs again',
  succeeded: 'succeeded',
  failed: 'failed',
  stopped: 'was stopped',
  preempted: 'was preempted',
  unreachable: 'does not answer',
  setup_failed: 'setup failed',
  hung: 'hung',
  waiting: 'waits for capacity',
  budget_warning: 'has used most of its budget',
  budget_used: 'has used up its budget',
  budget_released: 'has released its TPU',
  orphans: 'orphan found',
  test: 'test message',
};

/** `000042 llama`; for an event without a job, empty. */
function subjectOf({ job, name }: Notice): string {
  return [...new Set([job, name])].filter((part) => part !== null).join(' ');
}

/** `000042 llama failed`. One line. */
function headline(notice: Notice): string {
  return clean([subjectOf(notice), phrases[notice.event]].filter((part) => part !== '').join(' '));
}

/** One line without control characters, of bounded length: a program's last line may be long. */
function clean(text: string, maxLength = maxTextLength): string {
  return shorten(escapeLine(text.replaceAll(/\s+/g, ' ')), maxLength);
}

function shorten(text: string, maxLength: number): string {
  return text.length <= maxLength ? text : `${text.slice(0, maxLength - 1)}…`;
}

const maxTextLength = 1_000;
/** A longer digest counts the rest. Slack takes at most 40,000 characters. */
const maxLines = 50;
const maxDigestLine = 300;

/** `[jobman] 000042 llama failed`, or `[jobman] 7 events: 4 preempted, 3 failed`. One line. */
export function mailSubject({ notices }: Pick<Message, 'notices'>): string {
  const [first] = notices;
  const text = notices.length === 1 && first !== undefined ? headline(first) : countEvents(notices);
  return `[jobman] ${text}`;
}

function countEvents(notices: readonly Notice[]): string {
  const counts = new Map<Notice['event'], number>();
  for (const { event } of notices) counts.set(event, (counts.get(event) ?? 0) + 1);
  const parts = [...counts].toSorted(([, one], [, other]) => other - one).map(([event, count]) => `${count} ${event}`);
  return `${pluralize(notices.length, 'event')}: ${formatList(parts)}`;
}

/** The body of a mail, in plain text. */
export function mailText({ notices, key }: Pick<Message, 'notices' | 'key'>): string {
  const [first] = notices;
  const lines = notices.length === 1 && first !== undefined ? singleLines(first) : digestLines(notices);
  return `${[...lines, '', `Message ${key} of jobman. docs/notifications.md explains the settings.`].join('\n')}\n`;
}

function singleLines(notice: Notice): readonly string[] {
  const { owner, accelerator, location, attempt, at, job, backend, event } = notice;
  const facts: readonly (readonly [string, string | null])[] = [
    ['event', event],
    ['owner', owner],
    ['attempt', attempt === null ? null : String(attempt)],
    ['capacity', [accelerator, location].filter((part) => part !== null).join(' in ') || null],
    ['time', formatTimestamp(at)],
  ];
  const shown = job !== null && backend !== 'kubernetes' ? ['', `jobman show ${job}`, `jobman logs ${job}`] : [];
  return [
    `${headline(notice)}: ${clean(notice.message)}`,
    '',
    ...facts.flatMap(([label, text]) => (text === null ? [] : [`${label.padEnd(10)}${clean(text)}`])),
    ...shown,
  ];
}

function digestLines(notices: readonly Notice[]): readonly string[] {
  const line = (one: Notice): string =>
    `${formatTimestamp(one.at)}  ${headline(one)}: ${clean(one.message, maxDigestLine)}`;
  return [countEvents(notices), '', ...firstLines(notices, line)];
}

/** A line for each notice, as many as a digest has, and the number of the others. */
function firstLines(notices: readonly Notice[], line: (notice: Notice) => string): readonly string[] {
  const more = notices.length - maxLines;
  return [...notices.slice(0, maxLines).map(line), ...(more > 0 ? [`and ${more} more`] : [])];
}

/** The body of a request to a Slack-compatible webhook. */
export function slackBody({ notices }: Pick<Message, 'notices'>): string {
  const maxLength = notices.length === 1 ? maxTextLength : maxDigestLine;
  const line = (one: Notice): string =>
    `*${escapeSlack(headline(one))}*: ${escapeSlack(clean(one.message, maxLength))}`;
  const [first] = notices;
  if (notices.length === 1 && first !== undefined) return JSON.stringify({ text: line(first) });
  const text = [escapeSlack(countEvents(notices)), ...firstLines(notices, (one) => `• ${line(one)}`)].join('\n');
  return JSON.stringify({ text });
}

/**
 * Slack's control characters as entities, so that `<!channel>` and `<url|text>` are plain text. Compatible servers also
 * read `@channel` and Markdown links: a zero-width space breaks both. Source: Slack, "Formatting text for app surfaces".
 */
function escapeSlack(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('@', '@\u200b')
    .replaceAll('](', ']\u200b(');
}

/** The JSON object that webhooks and commands get. Times are RFC 3339. */
export function messageJson({ key, createdAt, notices }: Message): string {
  const events = notices.map(({ notify: _choice, ...notice }) => notice);
  const subject = mailSubject({ notices });
  return JSON.stringify({ version: 1, id: key, createdAt, subject, events }, timesAsText);
}

/** A longer digest is cut in the environment, which has a limit for each variable (128 KiB on Linux). */
const maxDigestText = 8_000;

/**
 * The environment variables of a command. For a digest, those of one job are empty, and the message has a line for each
 * event. NUL bytes cannot occur.
 */
export function commandEnvironment(message: Message): Readonly<Record<string, string>> {
  const [first] = message.notices;
  const single = message.notices.length === 1 ? first : undefined;
  return {
    JOBMAN_NOTIFY_ID: message.key,
    JOBMAN_NOTIFY_COUNT: String(message.notices.length),
    JOBMAN_NOTIFY_SUBJECT: mailSubject(message),
    JOBMAN_NOTIFY_EVENT: single?.event ?? 'digest',
    JOBMAN_NOTIFY_JOB: clean(single?.job ?? ''),
    JOBMAN_NOTIFY_NAME: clean(single?.name ?? ''),
    JOBMAN_NOTIFY_OWNER: clean(single?.owner ?? ''),
    JOBMAN_NOTIFY_MESSAGE: single === undefined ? digestText(message) : clean(single.message),
  };
}

function digestText({ notices }: Message): string {
  return shorten(digestLines(notices).slice(2).join('\n'), maxDigestText);
}

/** A message that tests a recipient. `key` differs between tests. */
export function testMessage(recipient: string, key: string, at: number, owner: string): Message {
  const notice: Notice = {
    event: 'test',
    at,
    job: null,
    name: null,
    owner,
    backend: 'hosts',
    attempt: null,
    accelerator: null,
    location: null,
    message: 'this message tests the notifications of jobman',
  };
  return { id: 0, key, recipient, createdAt: at, notices: [notice] };
}
