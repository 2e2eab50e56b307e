// Secrets: the secret store of a home, with the files that the settings of its lab name.

import type { Io } from '../app/services.ts';
import type { Settings } from '../app/settings.ts';
import type { SettingFile } from '../files/secret-store.ts';
import { siteOf } from '../lab/site.ts';

export function settingFiles(parts: {
  readonly io: Pick<Io, 'userHome'>;
  readonly home: string;
  readonly settings: Pick<Settings, 'lab'>;
}): SettingFile {
  const { privateKey, wandbKeyFile } = siteOf(parts.settings.lab, { home: parts.home, userHome: parts.io.userHome });
  return (setting) => ({ 'lab.privateKey': privateKey, 'lab.wandbKeyFile': wandbKeyFile })[setting];
}
