// Wake folder: after its commit a client drops an empty file with the job's id, to request a pass. The controller
// removes the file before the pass, so a change during the pass creates a new one. Due times are in the store, so a
// lost file only delays a pass. Synchronous calls, because loading `node:fs/promises` costs a short command three
// milliseconds.

import { randomUUID } from 'node:crypto';
import { readFileSync, readdirSync, renameSync, unlinkSync, watch, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileModeIn, makeFolder } from '../app/files.ts';
import { formatProgram, type ControllerProgram } from './lock.ts';

const exitFile = '.leave';
const clustersFile = 'clusters';

/** Requests a pass of that job. Call it after the commit. Safe to repeat. */
export async function sendWake(home: string, id: string): Promise<void> {
  const folder = folderOf(home);
  makeFolder(folder);
  writeFileSync(join(folder, id), '', { mode: fileModeIn(folder) });
}

/** Requests a check of the clusters. Call it after the context is in the store. Safe to repeat. */
export function sendClustersWake(home: string): Promise<void> {
  return sendWake(home, clustersFile);
}

/**
 * Asks a controller of another program (null: of any) to exit. A controller that just starts misses it: repeat it.
 * Controllers of earlier versions compare the text with their version, and exit if it differs.
 */
export async function requestExit(home: string, program: ControllerProgram | null): Promise<void> {
  const folder = folderOf(home);
  makeFolder(folder);
  // Renamed into the folder, because half a request would be read as one to any program.
  const draft = join(home, `${exitFile}-${randomUUID()}`);
  writeFileSync(draft, program === null ? '' : formatProgram(program), { mode: fileModeIn(home) });
  renameSync(draft, join(folder, exitFile));
}

export interface Wakes {
  readonly ids: readonly string[];
  readonly clusters: boolean;
  readonly exitRequest: string | undefined;
}

/** Takes everything out of the folder. Files that cannot be removed only cause an extra pass. */
export async function takeWakes(home: string): Promise<Wakes> {
  const folder = folderOf(home);
  const ids: string[] = [];
  let exitRequest: string | undefined;
  let clusters = false;
  let names: readonly string[];
  try {
    names = readdirSync(folder);
  } catch {
    return { ids, exitRequest, clusters };
  }
  for (const name of names) {
    const path = join(folder, name);
    try {
      if (name === exitFile) exitRequest = readFileSync(path, 'utf8').trim();
      else if (name === clustersFile) clusters = true;
      else if (/^\d{6,}$/.test(name)) ids.push(name);
      unlinkSync(path);
    } catch {
      // Another process took it, or the folder is read-only.
    }
  }
  return { ids, exitRequest, clusters };
}

/** The returned function ends the watch. Never calls back if the system cannot watch folders. */
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
