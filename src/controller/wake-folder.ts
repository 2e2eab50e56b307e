// The wake folder: a client commits its change and then drops an empty file named after the job: "observe this job". The controller
// removes it before the pass, so what comes during the pass is a new file. Due times are in the store: a lost file only delays.
// The calls are synchronous because loading `node:fs/promises` takes a short command some three milliseconds.

import { randomUUID } from 'node:crypto';
import { readFileSync, readdirSync, renameSync, unlinkSync, watch, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileModeIn, makeFolder } from '../app/files.ts';

const leaveFile = '.leave';
/** A client has submitted to a cluster. */
const clustersFile = 'clusters';

/** Asks for a pass of that job. Call it after the commit. Safe to repeat. */
export async function dropWake(home: string, id: string): Promise<void> {
  const folder = folderOf(home);
  makeFolder(folder);
  writeFileSync(join(folder, id), '', { mode: fileModeIn(folder) });
}

/** Asks for a check of the clusters. Call it after the place is on record. Safe to repeat. */
export function dropClustersWake(home: string): Promise<void> {
  return dropWake(home, clustersFile);
}

/** Asks a running controller of another version (null: of any) to leave. One that just begins misses it: ask again. */
export async function askToLeave(home: string, version: string | null): Promise<void> {
  const folder = folderOf(home);
  makeFolder(folder);
  // Moved in whole: half a request would be read as one to a controller of any version.
  const draft = join(home, `${leaveFile}-${randomUUID()}`);
  writeFileSync(draft, version ?? '', { mode: fileModeIn(home) });
  renameSync(draft, join(folder, leaveFile));
}

/** The ids to observe, and the text of a request to leave (undefined: there was none). */
export interface Wakes {
  readonly ids: readonly string[];
  readonly clusters: boolean;
  readonly leave: string | undefined;
}

/** Takes everything out of the folder. Files that cannot be removed are reported again next time: a pass too many. */
export async function takeWakes(home: string): Promise<Wakes> {
  const folder = folderOf(home);
  const ids: string[] = [];
  let leave: string | undefined;
  let clusters = false;
  let names: readonly string[];
  try {
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
      // Another process took it, or the folder is read-only: the next pass of the job comes later.
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
