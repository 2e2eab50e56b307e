// A movable clock for running programs: libfaketime (a Debian package), preloaded before the C library. It moves only
// the wall clock. The monotonic clock and its timers continue, as when a user or a time server sets the clock.

import { existsSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { MovableClock } from './context.ts';

const libraryPaths = [
  '/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1',
  '/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1',
  '/usr/lib/faketime/libfaketimeMT.so.1',
];

/** Undefined when the library is not installed. */
export function findFaketime(): string | undefined {
  return libraryPaths.find((path) => existsSync(path));
}

/** A clock with its offset in a file of that folder. */
export function createMovableClock(library: string, folder: string): MovableClock {
  const file = join(folder, 'clock');
  const before = new Set(sharedMemoryFiles());
  let advanced = 0;
  let offset = 0;
  const writeOffset = (): void => {
    const seconds = advanced + offset;
    // Rename the file, so that no program reads half a number.
    writeFileSync(`${file}.new`, `${seconds < 0 ? '-' : '+'}${Math.abs(seconds)}\n`);
    renameSync(`${file}.new`, file);
  };
  writeOffset();
  return {
    setOffset(seconds) {
      offset = seconds;
      writeOffset();
    },
    advance(seconds) {
      advanced += seconds;
      writeOffset();
    },
    env: {
      LD_PRELOAD: library,
      FAKETIME_TIMESTAMP_FILE: file,
      // libfaketime reads the file once a second.
      FAKETIME_CACHE_DURATION: '1',
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
      DONT_FAKE_MONOTONIC: '1',
    },
    cleanUp() {
      for (const name of sharedMemoryFiles())
        if (!before.has(name) && !isAlive(name)) rmSync(join(sharedMemoryFolder, name), { force: true });
    },
  };
}

/** libfaketime creates two files here for each program, which stay when the program is killed. */
const sharedMemoryFolder = '/dev/shm';

function sharedMemoryFiles(): readonly string[] {
  return existsSync(sharedMemoryFolder)
    ? readdirSync(sharedMemoryFolder).filter((name) => /^(sem\.)?faketime_\w+_\d+$/.test(name))
    : [];
}

function isAlive(name: string): boolean {
  return existsSync(`/proc/${name.split('_').at(-1) ?? ''}`);
}
