// The wake folder: how clients tap the controller on the shoulder. A client commits its change first and then drops an
// empty file named after the job; the file carries no information but "look at this job". The controller removes it
// before the look, so what comes during the look is a new file. Due times are in the store: a lost file delays, no more.
//
// All of it is done at once. The files are empty and few, while loading Node's other way (`node:fs/promises`) and its turns through
// other threads take a short command some three milliseconds.

import { randomUUID } from 'node:crypto';
import { readFileSync, readdirSync, renameSync, unlinkSync, watch, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileModeIn, makeFolder } from '../app/files.ts';

const leaveFile = '.leave';
/** Somebody has submitted to a cluster. */
const clustersFile = 'clusters';

/** Asks for a look at that job. Call it after the commit. Safe to repeat. */
export async function dropWake(home: string, id: string): Promise<void> {
  const folder = folderOf(home);
  makeFolder(folder);
  writeFileSync(join(folder, id), '', { mode: fileModeIn(folder) });
}

/** Asks for a look at the clusters that jobs were submitted to. Call it after the place is on record. Safe to repeat. */
export function dropClustersWake(home: string): Promise<void> {
  return dropWake(home, clustersFile);
}

/** Asks a running controller of another version (null: of any) to leave. One that just begins does not hear it: ask again. */
export async function askToLeave(home: string, version: string | null): Promise<void> {
  const folder = folderOf(home);
  makeFolder(folder);
  // Moved in whole: half a request would be read as one to a controller of any version. Written outside of the folder,
  // because what lies in it is taken away.
  const draft = join(home, `${leaveFile}-${randomUUID()}`);
  writeFileSync(draft, version ?? '', { mode: fileModeIn(home) });
  renameSync(draft, join(folder, leaveFile));
}

/** The ids to observe, and the text of a request to leave (undefined: there was none). */
export interface Wakes {
  readonly ids: readonly string[];
  /** Clusters are to be looked at. */
  readonly clusters: boolean;
  readonly leave: string | undefined;
}

/** Takes everything out of the folder. Files that cannot be removed are reported again next time: a look too many. */
export async function takeWakes(home: string): Promise<Wakes> {
  const folder = folderOf(home);
  const ids: string[] = [];
  let leave: string | undefined;
  let clusters = false;
  let names: readonly string[];
  try {
    // It is looked into with every renewal, nearly always in vain, and waiting for the answer would be one more wakeup.
    names = readdirSync(folder);
  } catch {
    return { ids, leave, clusters };
  }
  for (const name of names) {
    const path = join(folder, name);
    try {
      if (name === leaveFile) leave = readFileSync(path, 'utf8').trim();
      else if (name === clustersFile) clusters = true;
      else if (/^\d{6,}$/.test(name)) ids.push(name);
      unlinkSync(path);
    } catch {
      // Somebody else took it, or the folder is read-only: in both cases a later look is all that is lost.
    }
  }
  return { ids, leave, clusters };
}

/** Calls back when something was dropped; the returned function ends it. Where the system cannot watch, nothing is called. */
export async function watchWakes(home: string, call: () => void): Promise<() => void> {
  makeFolder(folderOf(home));
  try {
    const watcher = watch(folderOf(home), { persistent: false }, call);
    watcher.on('error', () => undefined);
    return () => watcher.close();
  } catch {
    return () => undefined;
  }
}

function folderOf(home: string): string {
  return join(home, 'wake');
}
