/** A worker requests a reboot by a file: it needs only a shell, and a later emulator finds it. A boot removes it. */
import { existsSync, type FSWatcher, unwatchFile, watch, watchFile } from 'node:fs';
import { join } from 'node:path';

export const rebootFile = 'reboot';

/** Time between two checks when the system has no inotify watches left, in milliseconds. */
const pollIntervalMs = 1_000;

/** Calls once, `delayMs` after the file appears or is found. The returned function stops the watch. */
export function onReboot(folder: string, delayMs: number, call: () => void): () => void {
  const path = join(folder, rebootFile);
  let timer: NodeJS.Timeout | undefined;
  const check = (): void => {
    if (timer === undefined && existsSync(path)) timer = setTimeout(call, delayMs);
  };
  let watcher: FSWatcher | undefined;
  try {
    watcher = watch(folder, { persistent: false }, (_event, name) => {
      if (name === rebootFile) check();
    }).on('error', () => undefined);
  } catch {
    watchFile(path, { persistent: false, interval: pollIntervalMs }, check);
  }
  check();
  return () => {
    clearTimeout(timer);
    if (watcher === undefined) unwatchFile(path, check);
    else watcher.close();
  };
}
