// A clock that can be moved while programs run: libfaketime, which Debian has, put before the C library.
//
// Only the wall's clock is moved. The one that counts from the start of the machine goes on, as it does when a person or a
// time server sets the clock; timers follow that one.

import { existsSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Clockwork } from './ground.ts';

const places = [
  '/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1',
  '/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1',
  '/usr/lib/faketime/libfaketimeMT.so.1',
];

/** The library; undefined where this machine does not have it. */
export function findFaketime(): string | undefined {
  return places.find((path) => existsSync(path));
}

/** A clock whose offset is kept in a file of that folder. */
export function createClockwork(library: string, folder: string): Clockwork {
  const file = join(folder, 'clock');
  const before = new Set(memory());
  let passed = 0;
  let away = 0;
  const set = (): void => {
    const seconds = passed + away;
    // In place of the old one at a stroke: a program that reads half a number would be somewhen else.
    writeFileSync(`${file}.new`, `${seconds < 0 ? '-' : '+'}${Math.abs(seconds)}\n`);
    renameSync(`${file}.new`, file);
  };
  set();
  return {
    move(seconds) {
      away = seconds;
      set();
    },
    pass(seconds) {
      passed += seconds;
      set();
    },
    env: {
      LD_PRELOAD: library,
      FAKETIME_TIMESTAMP_FILE: file,
      // It looks into the file once a second.
      FAKETIME_CACHE_DURATION: '1',
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
      DONT_FAKE_MONOTONIC: '1',
    },
    tidy() {
      for (const name of memory()) if (!before.has(name) && !isAlive(name)) rmSync(join(shared, name), { force: true });
    },
  };
}

/** Each program that it is put before has two files here, which stay when the program is killed. */
const shared = '/dev/shm';

function memory(): readonly string[] {
  return existsSync(shared) ? readdirSync(shared).filter((name) => /^(sem\.)?faketime_\w+_\d+$/.test(name)) : [];
}

function isAlive(name: string): boolean {
  return existsSync(`/proc/${name.split('_').at(-1) ?? ''}`);
}
