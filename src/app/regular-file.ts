// Regular file: reading a file whose path comes from another person, or that is in a folder that other people can write to. Such a
// path may be a link to a file that only the reader may read, or a FIFO or device that never ends.

import { closeSync, constants, fstatSync, openSync, readFileSync, realpathSync } from 'node:fs';

/**
 * Opens a regular file for reading, and hands its descriptor to `read`. Throws for everything else: a link anywhere in `path`
 * below `root`, which must be a resolved path itself; a folder, a FIFO, a socket, a device. Never waits for a writer.
 */
export function withRegularFile<T>(root: string, path: string, read: (file: number, size: number) => T): T {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
  const file = openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  try {
    const facts = fstatSync(file);
    if (!facts.isFile()) throw new Error(`${path} is not a regular file`);
    // O_NOFOLLOW is about the last name only.
    if (!path.startsWith(`${root}/`) || realpathSync(path) !== path)
      throw new Error(`${path} is reached through a symbolic link`);
    return read(file, facts.size);
  } finally {
    closeSync(file);
  }
}

const mebibyte = 1024 * 1024;

/**
 * The content of the regular file that a path leads to, of at most `most` bytes. Throws the system's error, or one that says why the
 * file is not read. Never waits for a writer.
 */
export function readRegularFile(path: string, most: number = 16 * mebibyte): Buffer {
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const facts = fstatSync(file);
    if (facts.isDirectory()) throw new Error(`${path} is a folder`);
    if (!facts.isFile()) throw new Error(`${path} is not a regular file`);
    if (facts.size > most) throw new Error(`${path} is larger than ${most / mebibyte} MiB`);
    return readFileSync(file);
  } finally {
    closeSync(file);
  }
}
