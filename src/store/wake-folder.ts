// Wake folder: the wake-ups of a database that is a file. Each is a file in `wake/` of the home; the controller removes it
// before it delivers it, so a change during a pass creates a new one. Next to a database on a server, the files are only
// the requests of commands that may have ended before they could start a controller. Synchronous calls, because loading
// `node:fs/promises` costs a short command three milliseconds.

import { randomUUID } from 'node:crypto';
import { existsSync, readFileSync, readdirSync, renameSync, unlinkSync, watch, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { fileError } from '../app/file-errors.ts';
import { fileModeIn, makeFolder } from '../files/files.ts';
import type { WakeUp, WakeUpListener } from '../app/ports.ts';

/** Controllers of earlier versions read these names too. */
const exitFile = '.leave';
const topicFiles = ['clusters', 'settings'] as const;

/** See `Store.notify`. */
export function notify(home: string, wakeUp: WakeUp): void {
  const folder = folderOf(home);
  try {
    makeFolder(folder);
    if (wakeUp.topic === 'exit') requestExit(home, wakeUp.program ?? '');
    else
      writeFileSync(join(folder, wakeUp.topic === 'job' ? wakeUp.id : wakeUp.topic), '', { mode: fileModeIn(folder) });
  } catch (error) {
    if (wakeUp.topic === 'exit') throw fileError(folder, error);
  }
}

/** Renamed into the folder, because half a request would be read as one to any program. */
function requestExit(home: string, program: string): void {
  const draft = join(home, `${exitFile}-${randomUUID()}`);
  writeFileSync(draft, program, { mode: fileModeIn(home) });
  renameSync(draft, join(folderOf(home), exitFile));
}

/** See `Store.listen`. Without a watch, as where the system has no more of them, `poll` finds what has arrived. */
export function listen(home: string, receive: (wakeUps: readonly WakeUp[]) => void): WakeUpListener {
  const folder = folderOf(home);
  let isClosed = false;
  let isGathering = false;
  function deliver(): void {
    const wakeUps = isClosed ? [] : takeAll(folder);
    if (wakeUps.length > 0) receive(wakeUps);
  }
  // Removing a file triggers the watch too, so that a burst of a thousand jobs is read once.
  async function gather(): Promise<void> {
    if (isGathering) return;
    isGathering = true;
    await setImmediate();
    isGathering = false;
    // Without the folder the home was removed or moved. The controller must know before it writes there again.
    if (!isClosed && !existsSync(folder)) receive([]);
    else deliver();
  }
  makeFolder(folder);
  const unwatch = watchFolder(folder, () => void gather());
  return {
    poll: async () => deliver(),
    async close() {
      isClosed = true;
      unwatch();
    },
  };
}

/** Next to a database on a server: the requests until now, once a controller runs. */
export function forget(home: string): void {
  takeAll(folderOf(home));
}

/** Files that cannot be removed only cause an extra pass. */
function takeAll(folder: string): readonly WakeUp[] {
  let names: readonly string[];
  try {
    names = readdirSync(folder);
  } catch {
    return [];
  }
  return names.flatMap((name) => {
    const path = join(folder, name);
    let wakeUp: WakeUp | undefined;
    try {
      wakeUp = wakeUpOf(name, path);
      unlinkSync(path);
    } catch {
      // Another process took it, or the folder is read-only.
    }
    return wakeUp ?? [];
  });
}

function wakeUpOf(name: string, path: string): WakeUp | undefined {
  if (name === exitFile) return { topic: 'exit', program: readFileSync(path, 'utf8').trim() || null };
  if (/^\d{6,}$/.test(name)) return { topic: 'job', id: name };
  const topic = topicFiles.find((one) => one === name);
  return topic && { topic };
}

function watchFolder(folder: string, call: () => void): () => void {
  try {
    const watcher = watch(folder, { persistent: false }, call);
    watcher.on('error', () => undefined);
    return () => watcher.close();
  } catch {
    return () => undefined;
  }
}

function folderOf(home: string): string {
  return join(home, 'wake');
}
