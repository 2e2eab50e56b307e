import { accessSync, closeSync, constants, openSync, readdirSync, readSync, statSync } from 'node:fs';
import { getSystemErrorMessage } from 'node:util';
import { messageOf } from '../app/errors.ts';
import type { FileReader } from '../manifest/files.ts';

export const disk: FileReader = {
  inspect(path) {
    try {
      const stat = statSync(path);
      if (stat.isDirectory()) return { kind: 'folder', entries: readdirSync(path).toSorted() };
      if (!stat.isFile()) return { kind: 'stream' };
      accessSync(path, constants.R_OK);
      return { kind: 'file', bytes: stat.size, isExecutable: (stat.mode & 0o111) !== 0 };
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      const isAbsent = code === 'ENOENT' || code === 'ENOTDIR';
      return isAbsent ? { kind: 'absent' } : { kind: 'unreadable', detail: describeError(error) };
    }
  },
  read(path, most) {
    let file: number | undefined;
    try {
      file = openSync(path, 'r');
      const bytes = new Uint8Array(most + 1);
      let length = 0;
      while (length < bytes.length) {
        const got = readSync(file, bytes, length, bytes.length - length, null);
        if (got === 0) break;
        length += got;
      }
      return { bytes: bytes.slice(0, length) };
    } catch (error) {
      return { detail: describeError(error) };
    } finally {
      if (file !== undefined) closeSync(file);
    }
  },
};

/** `text` as a file at `path` that is not on the disk. */
export function withFile(path: string, text: string): FileReader {
  const bytes = Buffer.from(text);
  return {
    inspect: (at) => (at === path ? { kind: 'file', bytes: bytes.byteLength, isExecutable: false } : disk.inspect(at)),
    read: (at, maxBytes) => (at === path ? { bytes } : disk.read(at, maxBytes)),
  };
}

function describeError(error: unknown): string {
  const { errno } = error as NodeJS.ErrnoException;
  return errno === undefined ? messageOf(error) : getSystemErrorMessage(errno);
}
