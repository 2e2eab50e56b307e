// Notifications: the sender of the settings, for the controller and for `jobman notify test`.

import type { SendMessage } from '../app/notifications/outbox.ts';
import type { NotifySettings } from '../app/notifications/settings.ts';
import type { Io, Services } from '../app/services.ts';
import { createSender } from '../notify/sender.ts';
import { runProcess } from '../remote/process.ts';

/** Loads the code of a channel at its first use. */
export function createMessageSender(parts: {
  readonly io: Pick<Io, 'env' | 'userHome' | 'now'>;
  readonly home: string;
  readonly settings: NotifySettings;
}): SendMessage {
  const { io, home, settings } = parts;
  const { env, userHome } = io;
  return createSender({ settings, home, env, userHome, now: () => io.now(), run: runProcess });
}

/** See `Services.messageSender`. */
export async function openSender(services: Services): Promise<SendMessage> {
  const { notify: settings } = await services.settings();
  return createMessageSender({ io: services.io, home: services.home, settings });
}
