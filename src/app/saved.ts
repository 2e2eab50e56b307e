// Saved: the newest checkpoint, where its folder is on this machine. What lies on a TPU or in a bucket is seen by the
// program alone; nobody is asked for it to draw a screen.

import { readdir, stat } from 'node:fs/promises';
import { isAbsolute, join } from 'node:path';
import type { Job } from '../core/job.ts';
import type { Instant } from '../core/time.ts';
import type { SavedView } from './client.ts';

/**
 * What JOBMAN_RESUME_FROM would name now: the newest whole entry of the job's checkpoint folder. Null when it is not on
 * this machine, holds nothing, or cannot be read: then nothing is known.
 */
export async function newestSaved({ spec }: Pick<Job, 'spec'>): Promise<SavedView | null> {
  const { checkpointDir, place } = spec.command;
  const isHere = spec.capacity.kind === 'local' || place === 'here';
  if (checkpointDir === null || !isHere || !isAbsolute(checkpointDir)) return null;
  const names = await readdir(checkpointDir).catch(() => []);
  const entries = await Promise.all(
    names.filter(isWhole).map(async (name) => {
      const at = (await stat(join(checkpointDir, name)).catch(() => undefined))?.mtimeMs;
      return at === undefined ? [] : [{ name, at }];
    }),
  );
  const [newest] = entries.flat().toSorted(newestFirst);
  return newest === undefined ? null : { name: newest.name, folder: checkpointDir, at: Math.floor(newest.at) };
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
