// Notifications: the sender of the settings, for the controller and for `jobman notify test`.

import { withoutDatabasePassword } from '../app/database-url.ts';
import type { Channels, SendMessage } from '../app/notifications/outbox.ts';
import { messageOf } from '../app/errors.ts';
import { secretSources } from '../app/notifications/recipients.ts';
import type { NotifySettings } from '../app/notifications/settings.ts';
import type { Io, Services } from '../app/services.ts';
import { createSender } from '../notify/sender.ts';
import { readSecret, secretPath } from '../notify/secret.ts';
import { runProcess } from '../remote/process.ts';

/** Loads the code of a channel at its first use. */
export function createMessageSender(parts: {
  readonly io: Pick<Io, 'env' | 'userHome' | 'now'>;
  readonly home: string;
  readonly settings: NotifySettings;
}): SendMessage {
  const { io, home, settings } = parts;
  const { env, userHome } = io;
  return createSender({
    settings,
    home,
    env: withoutDatabasePassword(env),
    userHome,
    now: () => io.now(),
    run: runProcess,
  });
}

export async function openChannels(services: Services, openSecrets: Channels['openSecrets']): Promise<Channels> {
  const { io, home } = services;
  const { notify: settings } = await services.settings();
  return {
    settings,
    send: createMessageSender({ io, home, settings }),
    secretProblems: () => secretProblems(services, settings),
    openSecrets,
  };
}

/** See `Channels`. */
export async function secretProblems(
  { home, io }: Pick<Services, 'home' | 'io'>,
  notify: NotifySettings,
): Promise<ReadonlyMap<string, string>> {
  const problems = new Map<string, string>();
  for (const [channel, sources] of secretSources(notify)) {
    for (const source of sources.filter(isFile)) {
      await readSecret(source, { home, userHome: io.userHome, env: io.env }).catch((error: unknown) =>
        problems.set(channel, messageOf(error)),
      );
    }
  }
  return problems;
}

/** The paths of the secret files of the settings. */
export function secretFiles({ home, io }: Pick<Services, 'home' | 'io'>, notify: NotifySettings): readonly string[] {
  const sources = [...secretSources(notify).values()].flat().filter(isFile);
  return [...new Set(sources.map((source) => secretPath(source, { home, userHome: io.userHome })))];
}

function isFile(source: string): boolean {
  return !source.startsWith('env:');
}
