/**
 * A worker that asks for its own reboot. The programs `reboot`, `systemctl reboot` and `shutdown -r now` (programs.ts) leave a
 * file in the host's folder, for which a shell is enough, and which a later emulator finds when none is there to see it. A boot
 * takes it away.
 */
import { existsSync, type FSWatcher, unwatchFile, watch, watchFile } from 'node:fs';
import { join } from 'node:path';

/** The name of that file. */
export const rebootFile = 'reboot';

/** How often a file is looked for where the system has no more watches to give, in milliseconds. */
const lookEveryMs = 1_000;

/** Calls once, so many milliseconds after the host of that folder has asked, or is found to have asked. Answers what stops it. */
export function onReboot(folder: string, delayMs: number, call: () => void): () => void {
  const path = join(folder, rebootFile);
  let timer: NodeJS.Timeout | undefined;
  const look = (): void => {
    if (timer === undefined && existsSync(path)) timer = setTimeout(call, delayMs);
  };
  let watcher: FSWatcher | undefined;
  try {
    watcher = watch(folder, { persistent: false }, (_event, name) => {
      if (name === rebootFile) look();
    }).on('error', () => undefined);
  } catch {
    watchFile(path, { persistent: false, interval: lookEveryMs }, look);
  }
  look();
  return () => {
    clearTimeout(timer);
    if (watcher === undefined) unwatchFile(path, look);
    else watcher.close();
  };
}
