// Logins of people at a server: the identity provider of the settings in force.

import { JobmanError, exitCode, messageOf } from '../app/errors.ts';
import type { IdentityProvider, OidcSettings } from '../app/oidc.ts';
import { createLogins } from '../app/oidc-logins.ts';
import type { AccessStore } from '../app/ports.ts';
import type { Io } from '../app/services.ts';
import { resolveSettingPath, type Settings } from '../app/settings.ts';
import { readRegularFile } from '../files/files.ts';
import type { LoginRoutes } from '../server/login.ts';

const maxSecretBytes = 4096;

interface Parts {
  /** With the newest settings. */
  readonly parts: () => Promise<{ readonly access: AccessStore }>;
  readonly settings: () => Promise<Settings>;
  readonly warn: (line: string) => void;
}

type ProviderIo = Pick<Io, 'env' | 'now' | 'userHome'>;

/** For the identity provider of the settings in force. It is loaded at the first login, because most requests need none. */
export function createLoginRoutes(io: ProviderIo, home: string, { parts, settings, warn }: Parts): LoginRoutes {
  let opened: { readonly key: string; readonly provider: () => Promise<IdentityProvider> } | undefined;
  function providerOf(oidc: OidcSettings): () => Promise<IdentityProvider> {
    const secretOf = ({ client_secret_file: file }: Pick<OidcSettings, 'client_secret_file'>): string | null =>
      file === undefined ? null : readClientSecret(file, io, home, warn);
    const clientSecrets = { browser: secretOf(oidc), device: secretOf(oidc.device ?? oidc) };
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
      return createLogins({ access, provider: providerOf(oidc), settings: oidc, now: () => io.now() });
    },
    async url() {
      return (await settings()).server.oidc?.url ?? null;
    },
  };
}

/** Throws JobmanError. */
function readClientSecret(file: string, { userHome }: ProviderIo, home: string, warn: Parts['warn']): string {
  const path = resolveSettingPath(file, { home, userHome });
  try {
    const secret = readRegularFile(path, maxSecretBytes).toString('utf8').trim();
    if (secret !== '') return secret;
    throw new Error(`${path} is empty`);
  } catch (error) {
    warn(`the secret of the client at the identity provider cannot be used: ${messageOf(error)}`);
    // Without the path, because every visitor may see it.
    throw new JobmanError(
      'The file client_secret_file in the setting server.oidc cannot be used. The log of the server has the reason.',
      exitCode.unreachable,
    );
  }
}
