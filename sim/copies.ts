// Copies: the log files of a pretend home folder. They outlive every controller, and the disk under them may be full.

import { StoreError } from '../src/app/errors.ts';
import type { LogFiles } from '../src/app/ports.ts';
import type { Job } from '../src/core/job.ts';
import type { WorkerId } from '../src/core/spec.ts';
import type { Chance } from './chance.ts';

export interface Disk {
  isFull: boolean;
}

export interface Copies extends LogFiles {
  /** The copies of outputs by `job/attempt/worker`. */
  readonly files: ReadonlyMap<string, Copy>;
}

export interface Copy {
  readonly chunks: Uint8Array[];
  bytes: number;
}

export function fullDisk(): StoreError {
  return new StoreError('full', 'the disk is full');
}

export function createCopies(disk: Disk, chance: Chance): Copies {
  const files = new Map<string, Copy>();
  const fileOf = (job: Job, attempt: number, worker: WorkerId): Copy => {
    const key = `${job.id}/${attempt}/${worker}`;
    let file = files.get(key);
    if (file === undefined) {
      file = { chunks: [], bytes: 0 };
      files.set(key, file);
    }
    return file;
  };
  const write = (file: Copy, chunk: Uint8Array): void => {
    file.chunks.push(chunk);
    file.bytes += chunk.length;
  };
  return {
    files,
    length: async (job, attempt, worker) => fileOf(job, attempt, worker).bytes,
    async append(job, attempt, worker, chunk) {
      if (disk.isFull) {
        // The last of the room takes a part of it.
        if (chance.yes(0.3)) write(fileOf(job, attempt, worker), chunk.slice(0, chance.between(0, chunk.length - 1)));
        throw fullDisk();
      }
      write(fileOf(job, attempt, worker), chunk);
    },
    async last(job, attempt, worker, most) {
      const bytes = contentOf(fileOf(job, attempt, worker));
      return bytes.slice(Math.max(0, bytes.length - most));
    },
    async note() {
      if (disk.isFull) throw fullDisk();
    },
    async step() {
      if (disk.isFull) throw fullDisk();
    },
    async mirror() {
      if (disk.isFull) throw fullDisk();
    },
  };
}

export function contentOf(copy: Copy): Uint8Array {
  const bytes = new Uint8Array(copy.bytes);
  let at = 0;
  for (const chunk of copy.chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return bytes;
}
