// Sender: chooses the way to a recipient.

import { mailAddressOf } from '../core/model/notify.ts';
import type { Instant } from '../core/model/time.ts';
import type { Message, SendMessage, SendResult } from '../app/notifications/outbox.ts';
import type { NotifySettings } from '../app/notifications/settings.ts';
import type { RunCommand } from './command.ts';
import type { SecretContext } from './secret.ts';

export interface SenderParts extends SecretContext {
  readonly settings: NotifySettings;
  readonly now: () => Instant;
  readonly run: RunCommand;
}

/** Sends through the channels of the settings. Each way is loaded at its first use. */
export function createSender({ settings, ...context }: SenderParts): SendMessage {
  const failed = (error: string): SendResult => ({ kind: 'failed', error });

  async function send(message: Message, signal: AbortSignal): Promise<SendResult> {
    const { recipient } = message;
    const address = mailAddressOf(recipient);
    if (address !== undefined) {
      if (settings.smtp === null) return failed('no mail server is set (notify.smtp)');
      const { sendMail } = await import('./mail.ts');
      return sendMail(settings.smtp, address, message, context, signal);
    }
    const channel = Object.hasOwn(settings.channels, recipient) ? settings.channels[recipient] : undefined;
    if (channel === undefined) return failed(`the settings have no channel "${recipient}" (notify.channels)`);
    if (channel.type === 'command') {
      const { sendToCommand } = await import('./command.ts');
      return sendToCommand(channel.command, message, context);
    }
    const { postWebhook } = await import('./webhook.ts');
    return postWebhook(channel, message, context, signal);
  }

  return send;
}
