// Home reference: tells this home from others that use the same database on a server, on this machine or on others.

import { randomUUID } from 'node:crypto';
import { existsSync, linkSync, readFileSync, rmSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import type { HomeRef } from '../core/model/job.ts';
import { writeAtomically } from './files.ts';

/** The id outlives a move of the home. Creates it first if the home has none. Throws the system's error. */
export function homeRefOf(home: string): HomeRef {
  const path = join(home, 'home-id');
  if (!existsSync(path)) create(path);
  return { id: readFileSync(path, 'utf8').trim(), machine: hostname(), path: home };
}

/** If another process creates it at the same time, both read the id of the first. */
function create(path: string): void {
  const id = randomUUID();
  const prepared = `${path}.${id}`;
  writeAtomically(prepared, `${id}\n`);
  try {
    linkSync(prepared, path);
  } catch (error) {
    if (!existsSync(path)) throw error;
  } finally {
    rmSync(prepared, { force: true });
  }
}
