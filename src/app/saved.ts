// Saved: the newest checkpoint, where its folder is on this machine. What lies on a TPU or in a bucket is seen by the
// program alone; nobody is asked for it to draw a screen.

import { readdir, stat } from 'node:fs/promises';
import { isAbsolute, join } from 'node:path';
import { checkpointFolder, checkpointOwner, checkpointRecord } from '../core/checkpoints.ts';
import type { Attempt, Job } from '../core/job.ts';
import type { Instant } from '../core/time.ts';
import type { SavedView } from './client.ts';
import { readRegularFile } from './regular-file.ts';

/**
 * The checkpoint that JOBMAN_RESUME_FROM would name now: the newest whole entry of the job's checkpoint folder that counts. Null
 * when the folder is not on this machine, has none, or cannot be read: then nothing is known.
 */
export async function newestSaved(job: Job): Promise<SavedView | null> {
  const { command, capacity } = job.spec;
  const attempt = job.attempts.findLast(({ startedAt }) => startedAt !== null);
  const folder = attempt === undefined ? null : checkpointFolder(job, attempt);
  const isHere = capacity.kind === 'local' || command.place === 'here';
  if (attempt === undefined || folder === null || !isHere || !isAbsolute(folder)) return null;
  const names = await readdir(folder).catch(() => []);
  const counts = await entryFilter(job, attempt, folder, names);
  const entries = await Promise.all(
    names.filter(isWhole).map(async (name) => {
      const at = (await stat(join(folder, name)).catch(() => undefined))?.mtimeMs;
      return at === undefined || counts?.(name, at) !== true ? [] : [{ name, at }];
    }),
  );
  const [newest] = entries.flat().toSorted(newestFirst);
  return newest === undefined ? null : { name: newest.name, folder, at: Math.floor(newest.at) };
}

/**
 * A function that is true for entries that count by the folder's records; null if none counts. The folder and its records are on one
 * machine, so the time of an entry shows whether it has changed since.
 */
async function entryFilter(
  job: Job,
  attempt: Attempt,
  folder: string,
  names: readonly string[],
): Promise<((name: string, at: number) => boolean) | null> {
  if (job.spec.command.checkpoints !== 'named') return () => true;
  for (const name of names.filter((one) => one.startsWith(checkpointRecord))) {
    const file = join(folder, name);
    const about = await stat(file).catch(() => ({ mtimeMs: 0 }));
    const [owner, ...before] = recordText(file).split('\n');
    if (owner !== checkpointOwner(job, attempt)) continue;
    const old = new Set(before.map((line) => line.split('\t')[0]));
    return (entry, at) => !old.has(entry) || at > about.mtimeMs;
  }
  return null;
}

/** Empty if there is no such file, or if it is not a regular file, because other people may write into the folder. */
function recordText(file: string): string {
  try {
    return readRegularFile(file).toString('utf8');
  } catch {
    return '';
  }
}

/** The launcher's rule (`newest_complete` in remote/launch.ts): what is hidden or still being written is no checkpoint. */
function isWhole(name: string): boolean {
  if (name.startsWith('.') || /(tmp|partial)$/.test(name)) return false;
  return !/(^|[^a-zA-Z0-9])(tmp|partial)[^a-zA-Z0-9]/.test(name);
}

/** The launcher's rule again: of two of one age the longer name, and of those the later in order. */
function newestFirst(
  one: { readonly name: string; readonly at: Instant },
  other: { readonly name: string; readonly at: Instant },
): number {
  const byOrder = one.name < other.name ? 1 : -1;
  return other.at - one.at || other.name.length - one.name.length || byOrder;
}
