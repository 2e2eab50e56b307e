// Answer cache: answers of other servers, such as the list of a registry or the limits of a project, in files.

import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { day, type Duration, type Instant } from '../core/model/time.ts';
import { makeFolder, writeAtomically } from './files.ts';

interface CacheEntry<T> {
  readonly fetchedAt: Instant;
  readonly value: T;
}

export type AnswerCache = ReturnType<typeof createAnswerCache>;

/** Increase it when the format changes, so that older files are ignored. */
const version = 3;
/** Files that were not written for this long are deleted. */
const maxAge: Duration = 30 * day;

/** A cache with one file per question. The folder is created on the first write. */
export function createAnswerCache(folder: string) {
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
      try {
        makeFolder(folder);
        // Names of images may be as private as their project.
        writeAtomically(fileOf(question), JSON.stringify({ version, question, fetchedAt, value }));
        deleteOldEntries(folder, fetchedAt);
      } catch {
        // The next command asks the server again.
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
