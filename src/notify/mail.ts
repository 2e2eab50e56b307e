// Mail: one message over SMTP, with nodemailer. The library is loaded with the first mail.

import { messageOf } from '../app/errors.ts';
import { mailSubject, mailText } from '../app/notifications/message-text.ts';
import type { Message, SendResult } from '../app/notifications/outbox.ts';
import type { SmtpSettings } from '../app/notifications/settings.ts';
import { second, type Duration } from '../core/model/time.ts';
import { errorText, readSecret, type SecretContext } from './secret.ts';

/** Time limits of one try. */
export interface MailLimits {
  readonly connect: Duration;
  readonly greeting: Duration;
  /** Longest silence of the server after a command. */
  readonly command: Duration;
  readonly total: Duration;
}

const defaultLimits: MailLimits = {
  connect: 10 * second,
  greeting: 10 * second,
  command: 20 * second,
  total: 60 * second,
};

const defaultPorts = { starttls: 587, tls: 465, none: 25 } as const;

/** Sends the message to one address. Never rejects. The Message-ID is derived from the key, so it is the same at every try. */
export async function sendMail(
  smtp: SmtpSettings,
  address: string,
  message: Message,
  context: SecretContext,
  signal: AbortSignal,
  limits: MailLimits = defaultLimits,
): Promise<SendResult> {
  const { host, security = 'starttls', port = defaultPorts[security], user, from } = smtp;
  const secrets: string[] = [];
  try {
    const password = smtp.password === undefined ? undefined : await readSecret(smtp.password, context);
    // A server may repeat the login command, in which the password is encoded.
    if (password !== undefined) secrets.push(password, btoaUtf8(password), btoaUtf8(`\0${user}\0${password}`));
    const { createTransport } = await import('nodemailer');
    const transport = createTransport({
      host,
      port,
      secure: security === 'tls',
      requireTLS: security === 'starttls',
      ignoreTLS: security === 'none',
      connectionTimeout: limits.connect,
      dnsTimeout: limits.connect,
      greetingTimeout: limits.greeting,
      socketTimeout: limits.command,
      socketCloseTimeout: second,
      disableFileAccess: true,
      disableUrlAccess: true,
      ...(user !== undefined && password !== undefined && { auth: { user, pass: password } }),
    });
    const { response } = await transport.sendMail({
      envelope: { from, to: [address] },
      from: { name: 'jobman', address: from },
      to: { name: '', address },
      subject: mailSubject(message),
      text: mailText(message),
      messageId: `<${message.key}@${from.slice(from.lastIndexOf('@') + 1)}>`,
      // RFC 3834: no automatic replies.
      headers: { 'Auto-Submitted': 'auto-generated' },
      signal: AbortSignal.any([signal, AbortSignal.timeout(limits.total)]),
    });
    return { kind: 'sent', detail: errorText(response, secrets) };
  } catch (error) {
    return {
      kind: 'failed',
      error: errorText(describeFailure(error, `${host}:${port}`, limits), secrets),
      ...finality(error),
    };
  }
}

function btoaUtf8(text: string): string {
  return Buffer.from(text).toString('base64');
}

/** The server and the kind of the failure, then the message of the server or of the network. */
function describeFailure(error: unknown, server: string, { total }: MailLimits): string {
  const { name, code, response, library, reason } = error as Readonly<Record<string, unknown>>;
  const reply = typeof response === 'string' && response !== '' ? response : messageOf(error);
  // The message of OpenSSL is a line of its source.
  if (library === 'SSL routines')
    return `the mail server ${server}: TLS failed: ${String(reason)}; check notify.smtp.port and notify.smtp.security`;
  switch (code) {
    case 'EAUTH':
      return `the mail server ${server} refused the login: ${reply}`;
    case 'ETLS':
      return `the mail server ${server} refused TLS: ${reply}`;
    case 'EENVELOPE':
      return `the mail server ${server} refused the address: ${reply}`;
    case 'ENOAUTH':
      return `the mail server ${server} accepts no login: ${reply}`;
    default:
      return name === 'TimeoutError' || code === 'EABORT'
        ? `the mail server ${server} did not take the message within ${total / second} s`
        : `the mail server ${server}: ${reply}`;
  }
}

/** RFC 5321: a reply 5xx to the recipient or the message is permanent. A login or TLS may be corrected in the settings. */
function finality(error: unknown): { readonly isFinal?: true } {
  const { code, responseCode } = error as { code?: unknown; responseCode?: unknown };
  const isOfMessage = code === 'EENVELOPE' || code === 'EMESSAGE';
  return isOfMessage && typeof responseCode === 'number' && responseCode >= 500 ? { isFinal: true } : {};
}
