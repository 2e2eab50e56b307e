// Logins with an account at a server: the identity provider of the current settings.

import { quote } from '../catalogue/shell.ts';
import { JobmanError, messageOf, usageError } from '../app/errors.ts';
import type { IdentityProvider, OidcSettings } from '../app/oidc.ts';
import { createLogins } from '../app/oidc-logins.ts';
import type { AccessStore } from '../app/ports.ts';
import type { Io } from '../app/services.ts';
import { resolveSettingPath, type Settings } from '../app/settings.ts';
import { isReadableByOthers, readRegularFile } from '../files/files.ts';
import type { ClientSecrets } from '../oidc/provider.ts';
import type { LoginRoutes } from '../server/login.ts';

const maxSecretBytes = 4096;

interface Parts {
  /** With the newest settings. */
  readonly parts: () => Promise<{ readonly access: AccessStore }>;
  readonly settings: () => Promise<Settings>;
  readonly warn: (line: string) => void;
}

type ProviderIo = Pick<Io, 'env' | 'now' | 'userHome'>;

/** The logins at the identity provider of the current settings. Loads it at the first login, because most requests need none. */
export function createLoginRoutes(
  io: ProviderIo,
  home: string,
  { parts, settings, warn }: Parts,
): LoginRoutes & { readonly check: () => Promise<void> } {
  let opened: { readonly key: string; readonly provider: () => Promise<IdentityProvider> } | undefined;
  function providerOf(oidc: OidcSettings): () => Promise<IdentityProvider> {
    const clientSecrets = readClientSecrets(oidc, io, home);
    const key = JSON.stringify([oidc, clientSecrets]);
    if (opened?.key === key) return opened.provider;
    let loaded: Promise<IdentityProvider> | undefined;
    const provider = () =>
      (loaded ??= import('../oidc/provider.ts').then(({ createIdentityProvider }) =>
        createIdentityProvider({ settings: oidc, clientSecrets, env: io.env, now: () => io.now() }),
      ));
    opened = { key, provider };
    return provider;
  }
  return {
    async logins() {
      const { access } = await parts();
      const { oidc } = (await settings()).server;
      if (oidc === null) return null;
      try {
        return createLogins({ access, provider: providerOf(oidc), settings: oidc, now: () => io.now(), warn });
      } catch (error) {
        if (!(error instanceof JobmanError)) throw error;
        warn([error.message, ...error.lines].join(' '));
        // Names no paths, because every visitor can see the message.
        throw new JobmanError('The login is not set up completely. The log of the server has the reason.', error.code);
      }
    },
    async url() {
      return (await settings()).server.oidc?.url ?? null;
    },
    /** Throws JobmanError (2) with every problem of the files. */
    async check() {
      const { oidc } = (await settings()).server;
      if (oidc !== null) readClientSecrets(oidc, io, home);
    },
  };
}

/** Throws JobmanError (2) with every problem. */
function readClientSecrets(oidc: OidcSettings, { userHome }: ProviderIo, home: string): ClientSecrets {
  const problems: string[] = [];
  function read({ client_secret_file: file }: Pick<OidcSettings, 'client_secret_file'>): string | null {
    if (file === undefined) return null;
    const path = resolveSettingPath(file, { home, userHome });
    try {
      const secret = readRegularFile(path, maxSecretBytes).toString('utf8').trim();
      if (secret === '') problems.push(`${path} is empty`);
      if (isReadableByOthers(path))
        problems.push(`every user of this machine can read ${path}: chmod o= ${quote(path)}`);
      return secret;
    } catch (error) {
      problems.push(messageOf(error));
      return null;
    }
  }
  const browser = read(oidc);
  const device = oidc.device === undefined ? browser : read(oidc.device);
  if (problems.length > 0)
    throw usageError('The file client_secret_file in the setting server.oidc cannot be used.', problems);
  return { browser, device };
}
