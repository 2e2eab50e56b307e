// Secrets: where the values are, by the settings of a home: files, or rows of its database with the keys in a file.

import type { SecretRows } from '../app/ports.ts';
import type { Io } from '../app/services.ts';
import { resolveSettingPath, type Settings } from '../app/settings.ts';
import { readSecretKeys } from '../files/secret-keys.ts';
import type { SecretSources, SettingFile } from '../files/secret-store.ts';
import { siteOf } from '../lab/site.ts';
import { withReadOnlyStore } from '../store/store.ts';
import { databaseOf, hasDatabase } from './paths.ts';

interface SecretParts {
  readonly io: Pick<Io, 'userHome' | 'env'>;
  readonly home: string;
  readonly settings: Pick<Settings, 'lab' | 'server'>;
}

/** For readers that have no open database. */
export function secretSources(parts: SecretParts): SecretSources & { readonly settingFile: SettingFile } {
  const address = databaseOf(parts);
  const find: SecretRows['find'] = async (secret) =>
    hasDatabase(address) ? withReadOnlyStore(address, ({ secrets }) => secrets.find(secret)) : null;
  return { settingFile: settingFiles(parts), find, keys: secretKeys(parts) };
}

/** Reads the key file at each call, because another process may give it a new key. */
export function secretKeys(parts: SecretParts): NonNullable<SecretSources['keys']> {
  const path = secretsKeyFile(parts);
  return () => (path === null ? null : readSecretKeys(path));
}

/** The path of the key file; null if the settings name none. */
export function secretsKeyFile({ io, home, settings }: SecretParts): string | null {
  const { secrets_key: path } = settings.server;
  return path === null ? null : resolveSettingPath(path, { home, userHome: io.userHome });
}

function settingFiles({ io, home, settings }: SecretParts): SettingFile {
  const { privateKey, wandbKeyFile } = siteOf(settings.lab, { home, userHome: io.userHome });
  return (setting) => ({ 'lab.privateKey': privateKey, 'lab.wandbKeyFile': wandbKeyFile })[setting];
}
