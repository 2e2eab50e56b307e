// Settings file: where it is. By itself, so that who only asks whether it is there does not load what reads it.

import { join } from 'node:path';

/** The path of the file. */
export function settingsFile(home: string): string {
  return join(home, 'settings.json');
}
