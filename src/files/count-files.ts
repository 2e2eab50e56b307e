import { lstat, opendir } from 'node:fs/promises';
import { join } from 'node:path';
import type { CountFiles } from '../app/checkpoints.ts';
import { isFileMissing, messageOf } from '../app/errors.ts';
import type { Instant } from '../core/model/time.ts';

export const countFiles: CountFiles = async (root, { signal, onProgress }) => {
  let [bytes, objects] = [0, 0];
  let newestAt: Instant | null = null;
  const open = [root];
  try {
    const isFolder = await lstat(root).then(
      (found) => found.isDirectory(),
      (error: unknown) => (isFileMissing(error) ? null : Promise.reject(error)),
    );
    if (isFolder === null) return { count: { bytes, objects, newestAt, isPartial: false } };
    if (!isFolder) return { unreadable: 'it is not a folder' };
    for (let folder = open.pop(); folder !== undefined && !signal.aborted; folder = open.pop()) {
      let [newBytes, newObjects] = [0, 0];
      for await (const entry of await opendir(folder)) {
        const path = join(folder, entry.name);
        if (entry.isDirectory()) open.push(path);
        else {
          const { size, mtimeMs } = await lstat(path);
          newBytes += size;
          newObjects += 1;
          newestAt = Math.max(newestAt ?? 0, Math.round(mtimeMs));
        }
      }
      bytes += newBytes;
      objects += newObjects;
      onProgress?.(newObjects, newBytes);
    }
  } catch (error) {
    // If a program deletes a file during the count, the count is incomplete.
    return isFileMissing(error)
      ? { count: { bytes, objects, newestAt, isPartial: true } }
      : { unreadable: messageOf(error) };
  }
  return { count: { bytes, objects, newestAt, isPartial: open.length > 0 || signal.aborted } };
};
