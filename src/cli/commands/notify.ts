import { exitCode, JobmanError, usageError } from '../../app/errors.ts';
import { escapeLine, formatAge, formatDuration, formatList, pluralize } from '../../app/format.ts';
import { heldPhrase } from '../../app/notifications/digest.ts';
import type { MessageView, RecipientView } from '../../app/client.ts';
import { quote } from '../../catalogue/shell.ts';
import { mailAddressOf, readRecipient } from '../../core/model/notify.ts';
import type { Instant } from '../../core/model/time.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { isControllerRunning, restartIfKilled } from '../controller.ts';
import { fittedTable, type Column } from '../render/aligned.ts';
import { columnsOf } from '../screen.ts';

/** Number of messages that `notify list` shows. */
const shownMessages = 20;

export async function notify(cli: Cli, _flags: GlobalFlags, ...args: readonly string[]): Promise<number> {
  const [action = 'list', ...rest] = args;
  if (action === 'list' && rest.length === 0) return list(cli);
  if (action === 'test') return test(cli, rest);
  const [recipient] = rest;
  if (action === 'drop' && recipient !== undefined && rest.length === 1) return drop(cli, recipient);
  throw usageError(`Unexpected arguments: jobman notify ${args.join(' ')}`, [
    'jobman notify [list]              shows recipients and the newest messages',
    'jobman notify test [channel]...   sends a test message',
    'jobman notify drop <recipient>    gives up the events that wait for it',
  ]);
}

async function list(cli: Cli): Promise<number> {
  const { io, services } = cli;
  const client = await services.client();
  const recipients = await client.recipients();
  const held = await client.heldEvents();
  const messages = await client.messages(shownMessages);
  await restartIfKilled(cli, client);
  if (held.length > 0 || messages.some(({ state }) => state === 'pending')) await noteNothingIsSent(cli);
  if (cli.json) {
    cli.printJsonLines([
      ...recipients.map((one) => ({ kind: 'recipient' as const, ...one })),
      ...held.map((one) => ({ kind: 'held' as const, ...one })),
      ...messages.map((message) => ({ kind: 'message' as const, ...message })),
    ]);
    return exitCode.ok;
  }
  const terminal = columnsOf(io.stdout);
  if (recipients.length === 0) {
    cli.note(
      'No recipient is set, so jobs are reported only if their manifest names recipients: docs/notifications.md',
    );
  } else cli.printAll(fittedTable(recipientColumns, recipients, ['CHANNEL'], terminal));
  for (const one of held) cli.print(escapeLine(`${heldPhrase(one, io.now())}.`));
  if (messages.length === 0) {
    cli.note('No message was sent yet.');
    return exitCode.ok;
  }
  if (recipients.length > 0) cli.print('');
  cli.printAll(fittedTable(messageColumns(io.now()), messages, ['TRIES'], terminal));
  return exitCode.ok;
}

async function noteNothingIsSent(cli: Cli): Promise<void> {
  if (await isControllerRunning(cli)) return;
  cli.note('No controller runs, so nothing is sent until you start one: jobman controller start');
}

async function test(cli: Cli, named: readonly string[]): Promise<number> {
  const client = await cli.services.client();
  const known = await client.recipients();
  const recipients =
    named.length > 0 ? named.map((name) => recipientNamed(name, known)) : known.map(({ recipient }) => recipient);
  if (recipients.length === 0)
    throw usageError('No recipient is set. Name one, as in: jobman notify test mail:alice@example.com', [
      'Or set notify.to and notify.channels: docs/notifications.md',
    ]);
  const results = await Promise.all(
    recipients.map(async (recipient) => {
      const { isSent, message } = await client.testRecipient(recipient);
      // At once, because another recipient may hang.
      if (cli.json) cli.printJson({ kind: 'test', recipient, ok: isSent, message });
      else cli.print(`${recipient}: ${isSent ? 'sent' : 'failed'} (${message})`);
      return isSent;
    }),
  );
  for (const { path } of await client.openSecrets())
    cli.note(`warning: other users may read the secret in ${path}: chmod 600 ${quote(path)}`);
  return results.every(Boolean) ? exitCode.ok : exitCode.failed;
}

async function drop(cli: Cli, name: string): Promise<number> {
  const { services } = cli;
  const read = readRecipient(name);
  const recipient = 'recipient' in read ? read.recipient : name;
  const client = await services.client();
  const events = await client.dropEvents(recipient);
  if (events === 0) {
    const waiting = (await client.recipientsInUse()).filter((one) => one.events > 0).map((one) => one.recipient);
    const others = waiting.length === 0 ? '' : ` Events wait for ${formatList(waiting)}.`;
    throw new JobmanError(`No event waits for ${JSON.stringify(name)}.${others}`, exitCode.notFound);
  }
  const sentence = `Dropped ${pluralize(events, 'event')} for ${recipient}.`;
  cli.printResult({ kind: 'dropped', recipient, events, message: sentence }, sentence);
  return exitCode.ok;
}

/** Throws JobmanError (usage) for a name that the settings do not have. */
function recipientNamed(name: string, configured: readonly RecipientView[]): string {
  const read = readRecipient(name);
  if (!('recipient' in read)) throw usageError(`"${name}" ${read.problem}.`);
  const { recipient } = read;
  const known = configured.flatMap((one) => (one.channel === null || one.channel === 'mail' ? [] : [one.recipient]));
  if (mailAddressOf(recipient) !== undefined || known.includes(recipient)) return recipient;
  const names = known.length === 0 ? 'There is none yet.' : `There are: ${known.join(', ')}.`;
  throw usageError(`The settings have no channel "${recipient}" (notify.channels). ${names}`);
}

const recipientColumns: readonly Column<RecipientView>[] = [
  { title: 'RECIPIENT', text: ({ recipient }) => recipient },
  { title: 'CHANNEL', text: ({ channel }) => channel ?? '-' },
  { title: 'JOBS', text: formatReportedJobs },
  { title: 'PROBLEM', text: ({ problem }) => problem ?? '-' },
];

function formatReportedJobs({ allJobs, owners, otherOwners }: RecipientView): string {
  // The recipients of an owner replace those of `notify.to`.
  if (allJobs) return otherOwners.length === 0 ? 'all' : `all except those of ${formatList(otherOwners)}`;
  return owners.length === 0 ? 'those that name it' : `of ${formatList(owners)}`;
}

function messageColumns(now: Instant): readonly Column<MessageView>[] {
  return [
    { title: 'AGE', text: ({ createdAt }) => formatAge(now - createdAt) },
    { title: 'TO', text: ({ recipient }) => recipient },
    { title: 'STATE', text: (message) => formatState(message, now) },
    { title: 'TRIES', side: 'right', text: ({ tries }) => String(tries) },
    { title: 'MESSAGE', text: formatMessage },
  ];
}

function formatState({ state, nextAt, tries }: MessageView, now: Instant): string {
  if (state === 'sent') return 'sent';
  if (state === 'given_up') return 'given up';
  return tries === 0 ? 'pending' : `retry in ${formatDuration(Math.max(0, (nextAt ?? now) - now))}`;
}

function formatMessage({ notices, error }: MessageView): string {
  const [first] = notices;
  const what =
    notices.length === 1 && first !== undefined
      ? [first.job, first.event].filter((part) => part !== null).join(' ')
      : pluralize(notices.length, 'event');
  return error === null ? what : `${what}: ${error}`;
}
