// Workdir index: what the files of a folder contained when it was last copied, so that the next copy reads only those that
// have changed since, as git does. It is a cache.

import { readFileSync, readdirSync, rmSync, statSync, type Stats } from 'node:fs';
import { join } from 'node:path';
import type { TreeFile } from '../app/tree.ts';
import { digestOf } from '../catalogue/digest.ts';
import { day, second } from '../core/model/time.ts';
import { makeFolder, writeAtomically } from './files.ts';

type Content = Pick<TreeFile, 'digest' | 'size' | 'parts'>;

/** The size, the times of the last change of the content and of the file, and its number. */
type Fingerprint = readonly [size: number, mtimeMs: number, ctimeMs: number, ino: number];

export interface WorkdirIndex {
  /** Undefined if the file is new or has changed. */
  find(path: string, stats: Stats): Content | undefined;
  /** `stats` are older than the content. */
  add(path: string, stats: Stats, content: Content): void;
  /** The file has vanished. */
  remove(path: string): void;
  /** Never throws. */
  save(): void;
}

/** A change within this time after another may leave the times of the file as they were. */
const clockStep = 2 * second;
const maxAge = 30 * day;

/** `indexes`: the folder with one index for each folder that was copied; null for none. */
export function openWorkdirIndex(indexes: string | null, from: string): WorkdirIndex {
  const openedAt = Date.now();
  const file = indexes === null ? null : join(indexes, `${digestOf(Buffer.from(from)).slice(7, 39)}.json`);
  const before = new Map(file === null ? [] : readIndex(file));
  const used = new Map<string, readonly [Fingerprint, Content]>();
  return {
    find(path, stats) {
      const entry = used.get(path) ?? before.get(path);
      if (entry === undefined || !fingerprintOf(stats).every((value, at) => entry[0][at] === value)) return undefined;
      used.set(path, entry);
      return entry[1];
    },
    add(path, stats, content) {
      used.set(path, [fingerprintOf(stats), content]);
    },
    remove(path) {
      for (const entries of [used, before]) entries.delete(path);
    },
    save() {
      if (file === null || indexes === null) return;
      try {
        makeFolder(indexes, 0o700);
        const certain = [...used].filter(([, [[, , ctimeMs]]]) => ctimeMs < openedAt - clockStep);
        writeAtomically(file, JSON.stringify(certain), 0o600);
        for (const name of readdirSync(indexes)) {
          const other = join(indexes, name);
          if (openedAt - statSync(other).mtimeMs > maxAge) rmSync(other, { force: true });
        }
      } catch {
        // The next copy reads every file.
      }
    },
  };
}

function fingerprintOf({ size, mtimeMs, ctimeMs, ino }: Stats): Fingerprint {
  return [size, mtimeMs, ctimeMs, ino];
}

function readIndex(file: string): readonly (readonly [string, readonly [Fingerprint, Content]])[] {
  try {
    const index: unknown = JSON.parse(readFileSync(file, 'utf8'));
    return Array.isArray(index) ? (index as ReturnType<typeof readIndex>) : [];
  } catch {
    return [];
  }
}
