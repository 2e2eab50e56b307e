// Cache: what a registry has said, kept with the moment when it said so. It is a copy and nothing more: a file that cannot be
// read or written costs a question.

import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileModeIn, makeFolder } from '../app/files.ts';
import { day, type Duration, type Instant } from '../core/time.ts';

interface Kept<T> {
  readonly at: Instant;
  readonly value: T;
}

/** Answers by the question, each in a file of its own. */
export type Cache = ReturnType<typeof createCache>;

/** Raised when what is kept changes its form, so that no older file is taken for it. */
const version = 1;
/** Copies that were not written for this long are deleted. */
const keptFor: Duration = 30 * day;

/** The answers in that folder, which is made when there is one. */
export function createCache(folder: string, pid: number) {
  const fileOf = (question: string): string =>
    join(folder, `${createHash('sha256').update(question).digest('hex').slice(0, 32)}.json`);
  return {
    read<T>(question: string) {
      try {
        const found = JSON.parse(readFileSync(fileOf(question), 'utf8')) as Kept<T> & {
          readonly version: unknown;
          readonly question: unknown;
        };
        const isRight = found.version === version && found.question === question && typeof found.at === 'number';
        return isRight ? { at: found.at, value: found.value } : undefined;
      } catch {
        return undefined;
      }
    },
    write<T>(question: string, { at, value }: Kept<T>): void {
      const file = fileOf(question);
      const part = `${file}.${pid}`;
      try {
        makeFolder(folder);
        // Names of images may be as private as their project.
        writeFileSync(part, JSON.stringify({ version, question, at, value }), { mode: fileModeIn(folder) });
        renameSync(part, file);
        throwOldAway(folder, at);
      } catch {
        rmSync(part, { force: true });
      }
    },
  };
}

function throwOldAway(folder: string, now: Instant): void {
  for (const name of readdirSync(folder)) {
    const path = join(folder, name);
    if (now - statSync(path).mtimeMs > keptFor) rmSync(path, { force: true });
  }
}
