import { lstat, opendir } from 'node:fs/promises';
import { join } from 'node:path';
import type { CountFiles } from '../app/checkpoints.ts';
import { isFileMissing, messageOf } from '../app/errors.ts';
import type { Instant } from '../core/model/time.ts';

export const countFiles: CountFiles = async function* (root, signal) {
  let [bytes, objects] = [0, 0];
  let newestAt: Instant | null = null;
  const open = [root];
  const count = (isPartial: boolean) => ({ count: { bytes, objects, newestAt, isPartial } });
  try {
    const isFolder = await lstat(root).then(
      (found) => found.isDirectory(),
      (error: unknown) => (isFileMissing(error) ? null : Promise.reject(error)),
    );
    if (isFolder !== true) {
      yield isFolder === null ? count(false) : { unreadable: 'it is not a folder' };
      return;
    }
    for (let folder = open.pop(); folder !== undefined && !signal.aborted; folder = open.pop()) {
      for await (const entry of await opendir(folder)) {
        const path = join(folder, entry.name);
        if (entry.isDirectory()) open.push(path);
        else {
          const { size, mtimeMs } = await lstat(path);
          bytes += size;
          objects += 1;
          newestAt = Math.max(newestAt ?? 0, Math.round(mtimeMs));
        }
      }
      yield count(open.length > 0);
    }
  } catch (error) {
    // If a program deletes a file during the count, the count is incomplete.
    yield isFileMissing(error) ? count(true) : { unreadable: messageOf(error) };
  }
};
