// Notes about objects: what Storage knows of one beside its file, each in a file of its own.

import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { ObjectAbout } from './object.ts';

/** A note about one object. */
export interface Note {
  readonly generation: string;
  readonly metageneration: number;
  readonly about: ObjectAbout;
  /** A folder that nobody has asked for. */
  readonly isImplied?: true;
}

export interface Notes {
  /** Undefined where there is none, or none that can be read. */
  read(bucket: string, name: string): Note | undefined;
  write(bucket: string, name: string, note: Note): void;
  drop(bucket: string, name: string): void;
}

/** `folder` is on the disk of the buckets. */
export function openNotes(folder: string): Notes {
  const fileOf = (bucket: string, name: string): string =>
    join(folder, bucket, createHash('sha256').update(name).digest('hex'));
  return {
    read(bucket, name) {
      try {
        return JSON.parse(readFileSync(fileOf(bucket, name), 'utf8')) as Note;
      } catch {
        return undefined;
      }
    },
    write(bucket, name, note) {
      const file = fileOf(bucket, name);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(`${file}.new`, JSON.stringify(note));
      renameSync(`${file}.new`, file);
    },
    drop: (bucket, name) => rmSync(fileOf(bucket, name), { force: true }),
  };
}
