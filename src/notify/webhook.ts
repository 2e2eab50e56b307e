// Webhooks: one POST for one message, signed as the Standard Webhooks specification says
// (https://github.com/standard-webhooks/standard-webhooks). The address of a webhook is a secret: everyone who has it can
// post. No redirect is followed, and a name that resolves to a private address is refused.
//
// jobman gives up a message at once if the server would refuse another try in the same way. docs/notifications.md lists
// the answers.

import { createHmac } from 'node:crypto';
import { messageOf } from '../app/errors.ts';
import { messageJson, slackBody } from '../app/notifications/message-text.ts';
import type { Message, SendResult } from '../app/notifications/outbox.ts';
import type { NotifyChannel } from '../app/notifications/settings.ts';
import { second, type Duration, type Instant } from '../core/model/time.ts';
import { createHttpClient, readRetryAfter, type RequestLimits } from '../http/client.ts';
import { NoReply, type Reply, type StreamReply } from '../http/reply.ts';
import { errorText, readSecret, type SecretContext } from './secret.ts';

type WebhookChannel = Extract<NotifyChannel, { readonly type: 'slack' | 'webhook' }>;

const defaultLimits: Partial<RequestLimits> = {
  connect: 10 * second,
  answer: 20 * second,
  total: 30 * second,
};

/** Posts the message. Never rejects. `now` is the time of the signature. */
export async function postWebhook(
  channel: WebhookChannel,
  message: Message,
  context: SecretContext & { readonly now: () => Instant },
  signal: AbortSignal,
  limits = defaultLimits,
): Promise<SendResult> {
  const secrets: string[] = [];
  try {
    const url = await readSecret(channel.url, context);
    secrets.push(...partsOf(url));
    if (!/^https?:$/.test(URL.parse(url)?.protocol ?? ''))
      return failed('its address is not an http or https URL', secrets);
    const secret =
      channel.type === 'webhook' && channel.secret !== undefined ? await readSecret(channel.secret, context) : null;
    if (secret !== null) secrets.push(secret);
    const body = channel.type === 'slack' ? slackBody(message) : messageJson(message);
    const client = createHttpClient({ env: context.env, limits, refusePrivate: channel.allowPrivate !== true });
    try {
      const headers = {
        'content-type': 'application/json',
        'user-agent': 'jobman',
        'idempotency-key': message.key,
        ...(secret !== null && signatureHeaders(message.key, context.now(), body, secret)),
      };
      const reply = await client.open({ url, method: 'POST', headers, body, signal });
      // The status alone decides: a long or broken body must not cause a second delivery.
      if ('stream' in reply) reply.stream.destroy();
      return resultOf(reply, url, secrets);
    } finally {
      client.close();
    }
  } catch (error) {
    return failed(messageOf(error), secrets);
  }
}

/** The headers of Standard Webhooks: HMAC-SHA256 over id, time in seconds and body. */
function signatureHeaders(id: string, at: Instant, body: string, secret: string): Readonly<Record<string, string>> {
  const timestamp = String(Math.floor(at / second));
  // The specification encodes secrets in Base64 after this prefix; other text is the key itself.
  const key = secret.startsWith('whsec_') ? Buffer.from(secret.slice(6), 'base64') : Buffer.from(secret);
  const signature = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64');
  return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${signature}` };
}

/** The parts of an address that an error must not show: all except the server. */
function partsOf(url: string): readonly string[] {
  const parsed = URL.parse(url);
  if (parsed === null) return [url];
  const { pathname, search, username, password } = parsed;
  return [url, `${pathname}${search}`, pathname, search, username, password].filter((part) => part.length > 1);
}

function failed(
  error: string,
  secrets: readonly string[],
  more: Partial<Extract<SendResult, { kind: 'failed' }>> = {},
): SendResult {
  return { kind: 'failed', error: errorText(error, secrets), ...more };
}

/** Client errors that concern a proxy or the time of the request, not the message or its address. */
const repeatedStatuses = [407, 408, 409, 421, 423, 425, 429];

function resultOf(reply: StreamReply | Reply | NoReply, url: string, secrets: readonly string[]): SendResult {
  if (reply instanceof NoReply) return failed(reply.message, secrets);
  const { status } = reply;
  if ('stream' in reply) return { kind: 'sent', detail: `HTTP ${status}` };
  if (status >= 300 && status < 400) {
    const error = `HTTP ${status}: it redirects to ${redirectTarget(reply, url)}, and jobman follows no redirect`;
    return failed(error, secrets, { isFinal: true });
  }
  const text = reply.bytes.toString('utf8').trim();
  const isFinal = status < 500 && !repeatedStatuses.includes(status);
  const pause: Duration = readRetryAfter(reply);
  return failed(`HTTP ${status}${text === '' ? '' : `: ${text}`}`, secrets, {
    ...(isFinal && { isFinal: true as const }),
    ...(pause > 0 && { retryAfter: pause }),
  });
}

/** Only the server of the target: its path may be as secret as that of the webhook. */
function redirectTarget({ headers }: Reply, url: string): string {
  const target = URL.parse(headers.location ?? '', url);
  if (headers.location === undefined || target === null) return 'an unreadable address';
  if (target.origin === URL.parse(url)?.origin) return 'another path of the same server';
  return target.host === '' ? `an address of ${target.protocol}` : `${target.protocol}//${target.host}`;
}
