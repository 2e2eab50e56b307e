// A small disk in memory for JOBMAN_HOME, which a fault can fill. Programs and the TPU emulator write to the machine's
// own disk, because a lost line of a program would be no mistake of jobman.

import { spawnSync } from 'node:child_process';
import { closeSync, mkdirSync, openSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import type { World } from '../../test/support/world.ts';

/** Folders of local programs and of the emulator, which has the evidence. */
const excludedFolders: readonly string[] = ['runs', 'emulator'];

export interface SmallDisk {
  /** Writes until the disk is full; false when that fails. */
  readonly fill: () => boolean;
  readonly empty: () => void;
}

/** The world unmounts the disk at its end. Throws without permission to mount: needs Linux and root. */
export function mountSmallDisk(world: World): SmallDisk {
  const { home, folder } = world;
  mkdirSync(home, { recursive: true, mode: 0o700 });
  const mount = (where: string, ...args: readonly string[]): void => {
    const { status, stderr } = spawnSync('mount', [...args, where], { encoding: 'utf8' });
    if (status !== 0) throw new Error(`A small disk cannot be mounted here: ${stderr.trim()}`);
    world.atEnd(() => void spawnSync('umount', [where]));
  };
  mount(home, '-t', 'tmpfs', '-o', 'size=96m,mode=700', 'tmpfs');
  for (const name of excludedFolders) {
    const [at, from] = [join(home, name), join(folder, `disk-${name}`)];
    for (const made of [at, from]) mkdirSync(made, { mode: 0o700 });
    mount(at, '--bind', from);
  }
  const filler = join(home, 'filler');
  return {
    fill() {
      const file = openSync(filler, 'w');
      try {
        // The last bytes are written one by one: half a block would still have space for a row of the database.
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
