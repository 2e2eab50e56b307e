// Caches answers of a registry with their time. An unreadable or unwritable file only costs a request.

import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileModeIn, makeFolder } from '../app/files.ts';
import { day, type Duration, type Instant } from '../core/model/time.ts';

interface CacheEntry<T> {
  readonly fetchedAt: Instant;
  readonly value: T;
}

export type Cache = ReturnType<typeof createCache>;

/** Increase it when the format changes, so that older files are ignored. */
const version = 2;
/** Files that were not written for this long are deleted. */
const maxAge: Duration = 30 * day;

/** A cache with one file per question. The folder is created on the first write. */
export function createCache(folder: string, pid: number) {
  const fileOf = (question: string): string =>
    join(folder, `${createHash('sha256').update(question).digest('hex').slice(0, 32)}.json`);
  return {
    read<T>(question: string) {
      try {
        const found = JSON.parse(readFileSync(fileOf(question), 'utf8')) as CacheEntry<T> & {
          readonly version: unknown;
          readonly question: unknown;
        };
        const isRight = found.version === version && found.question === question && typeof found.fetchedAt === 'number';
        return isRight ? { fetchedAt: found.fetchedAt, value: found.value } : undefined;
      } catch {
        return undefined;
      }
    },
    write<T>(question: string, { fetchedAt, value }: CacheEntry<T>): void {
      const file = fileOf(question);
      const temporaryFile = `${file}.${pid}`;
      try {
        makeFolder(folder);
        // Names of images may be as private as their project.
        writeFileSync(temporaryFile, JSON.stringify({ version, question, fetchedAt, value }), {
          mode: fileModeIn(folder),
        });
        renameSync(temporaryFile, file);
        deleteOldEntries(folder, fetchedAt);
      } catch {
        rmSync(temporaryFile, { force: true });
      }
    },
  };
}

function deleteOldEntries(folder: string, now: Instant): void {
  for (const name of readdirSync(folder)) {
    const path = join(folder, name);
    if (now - statSync(path).mtimeMs > maxAge) rmSync(path, { force: true });
  }
}
