// The chips of a worker, as files: nobody computes on them, but whoever takes them holds them, and can be found.

import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { accelerator } from '../../catalogue/accelerators.ts';
import type { NodeRecord } from '../world/records.ts';
import { chipsPerHost } from './metadata-tree.ts';

/**
 * The names below /dev of a worker's chips: `accel0` and so on up to v4, `vfio/0` and so on since v5 (facts/cloud-tpu.md
 * section 8 knows both; that the newer generations have the second is what the public launchers look for).
 */
export function chipNames(node: NodeRecord): readonly string[] {
  const generation = accelerator(node.type)?.generation.name ?? 'v4';
  const folder = generation === 'v2' || generation === 'v3' || generation === 'v4' ? 'accel' : 'vfio/';
  return Array.from({ length: chipsPerHost(node) }, (_, index) => `${folder}${String(index)}`);
}

/** Makes the files in the folder of a host that has no /dev of its own: there they are below its `dev`. */
export function makeChips(folder: string, names: readonly string[]): void {
  for (const name of names) {
    const path = join(folder, 'dev', name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, '', { flag: 'a', mode: 0o666 });
  }
}
