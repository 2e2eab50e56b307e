// Paths in a working directory: names of files are bytes, which latin1 keeps unchanged.

import { readdir } from 'node:fs/promises';

/** The paths (latin1) of what is below the folder, except for folders. */
export async function listFolder(
  top: string,
  below: string,
  { ignored = new Set(), max = Number.POSITIVE_INFINITY }: { ignored?: ReadonlySet<string>; max?: number } = {},
): Promise<readonly string[]> {
  const folder = below === '' ? top : bytesOf(top, below);
  const paths: string[] = [];
  for (const entry of await readdir(folder, { withFileTypes: true, encoding: 'latin1' })) {
    if (ignored.has(entry.name)) continue;
    const path = below === '' ? entry.name : `${below}/${entry.name}`;
    if (entry.isDirectory()) paths.push(...(await listFolder(top, path, { ignored, max })));
    else paths.push(path);
    if (paths.length > max) break;
  }
  return paths;
}

/** A path (latin1) as the system takes it. */
export function bytesOf(top: string, path: string): Buffer {
  return Buffer.concat([Buffer.from(`${top}/`), Buffer.from(path, 'latin1')]);
}
