import { join } from 'node:path';
import { openBuckets } from '../../src/emulator/world/buckets.ts';
import { openDatabase } from '../../src/emulator/world/database.ts';
import { createWorld, type World } from '../../src/emulator/world/world.ts';
import { createManualClock } from './manual-clock.ts';

/** The emulator's world in a folder, without hosts and HTTP; its clock does not move. */
export function openBareWorld(folder: string): { readonly world: World; readonly close: () => void } {
  const database = openDatabase(folder);
  const world = createWorld({
    database,
    clock: createManualClock(),
    speed: 1,
    seed: 7,
    log: () => undefined,
    buckets: openBuckets(join(folder, 'buckets')),
    isDown: () => true,
  });
  return { world, close: () => database.close() };
}
