// The facts of the site from the section `lab` of the settings: paths made whole, what was left out filled in.

import { isAbsolute, join, resolve } from 'node:path';
import type { LabSettings } from '../app/lab-settings.ts';
import type { Site } from './site.ts';

/** Relative paths of this machine are meant from `home`, which is `$JOBMAN_HOME`. */
export function siteOf(
  settings: LabSettings,
  { home, userHome }: { readonly home: string; readonly userHome: string },
): Site {
  const { zones, shares, wandbKeyFile, privateKey, spreadsheet } = settings;
  const whole = (path: string): string => {
    if (path === '~' || path.startsWith('~/')) return join(userHome, path.slice(1));
    return isAbsolute(path) ? path : resolve(home, path);
  };
  return {
    zones: [...new Set(zones)],
    shares: shares.map((share) => ({
      source: share.source,
      target: share.target.replace(/\/+$/, ''),
      zones: share.zones ?? [],
      options: share.options ?? 'vers=3',
    })),
    condaEnvironment: settings.condaEnvironment,
    python: settings.python,
    wandbKeyFile: wandbKeyFile === null ? null : whole(wandbKeyFile),
    remoteUser: settings.remoteUser,
    privateKey: privateKey === null ? null : whole(privateKey),
    namePrefix: settings.namePrefix,
    stageLimit: settings.stageLimit,
    hangGrace: settings.hangGraceMs,
    spreadsheet:
      spreadsheet === null
        ? null
        : {
            id: spreadsheet.id,
            tab: spreadsheet.tab ?? null,
            credentials: whole(spreadsheet.credentials),
            endpoint: spreadsheet.endpoint ?? null,
          },
  };
}
