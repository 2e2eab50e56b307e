// A disk for JOBMAN_HOME that can be filled: a small one in memory. What programs and the built-in cloud write lies beside
// it on the machine's own, because a program's line that could not be written is no fault of jobman's.

import { spawnSync } from 'node:child_process';
import { closeSync, mkdirSync, openSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import type { World } from '../../test/support/world.ts';

/** What is not to be on it: where programs run on this machine, and the cloud with all that bears witness. */
const beside: readonly string[] = ['runs', 'emulator'];

export interface SmallDisk {
  /** Until nothing more can be written; false when that did not come about. */
  readonly fill: () => boolean;
  readonly empty: () => void;
}

/** Mounts it as the home of that world, which takes it off again at its end. Throws where nobody may mount: Linux, root. */
export function mountSmallDisk(world: World): SmallDisk {
  const { home, folder } = world;
  mkdirSync(home, { recursive: true, mode: 0o700 });
  const mount = (where: string, ...words: readonly string[]): void => {
    const { status, stderr } = spawnSync('mount', [...words, where], { encoding: 'utf8' });
    if (status !== 0) throw new Error(`A small disk cannot be mounted here: ${stderr.trim()}`);
    world.atEnd(() => void spawnSync('umount', [where]));
  };
  mount(home, '-t', 'tmpfs', '-o', 'size=96m,mode=700', 'tmpfs');
  for (const name of beside) {
    const [at, from] = [join(home, name), join(folder, `disk-${name}`)];
    for (const made of [at, from]) mkdirSync(made, { mode: 0o700 });
    mount(at, '--bind', from);
  }
  const filler = join(home, 'filler');
  return {
    fill() {
      const file = openSync(filler, 'w');
      try {
        // The last bytes go one by one: half a block would still hold a row of the record.
        for (const size of [1 << 20, 4_096, 1]) writeUntilFull(file, Buffer.alloc(size));
        return false;
      } catch (error) {
        return isFull(error);
      } finally {
        closeSync(file);
      }
    },
    empty: () => rmSync(filler, { force: true }),
  };
}

function writeUntilFull(file: number, piece: Buffer): void {
  try {
    for (;;) writeSync(file, piece);
  } catch (error) {
    if (piece.length === 1 || !isFull(error)) throw error;
  }
}

function isFull(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOSPC';
}
