// Where jobman keeps what it keeps.

import { existsSync } from 'node:fs';
import { basename, dirname, isAbsolute, join, resolve } from 'node:path';
import { tracesOf } from '../app/job-folder.ts';
import type { Io } from '../app/services.ts';

/** `$JOBMAN_HOME`, absolute; `~/.jobman` when it is not set. */
export function homeOf(io: Io): string {
  const named = io.env['JOBMAN_HOME'];
  if (named === undefined || named === '') return join(io.userHome, '.jobman');
  return isAbsolute(named) ? named : resolve(io.cwd, named);
}

/**
 * The template of settings that came with the program: the one of the build, which its owner may have edited, else that of
 * the source. Null where neither is. `entry` is the file that was started.
 */
export function templateFile(entry: string): string | null {
  const folder = dirname(entry);
  // dist/bundle/main.cjs, dist/main.js or src/main.ts; see bin/jobman.
  const root = basename(folder) === 'bundle' ? join(folder, '../..') : join(folder, '..');
  const places = [join(root, 'dist/settings.json'), join(root, 'src/app/cluster/settings.template.json')];
  return places.find((place) => existsSync(place)) ?? null;
}

/** The record of jobs. */
export function recordFile(home: string): string {
  return join(home, 'state.db');
}

/**
 * Whether files of a job with that id lie in the home: a record that was put back from a copy, or begun anew, counts from where
 * it stands.
 */
export function hasTraces(home: string): (id: string, owner: string) => boolean {
  return (id, owner) => tracesOf(home, owner, id).some((folder) => existsSync(folder));
}

/** An empty file that is there once a job was submitted to a cluster from this home. */
export function clusterMark(home: string): string {
  return join(home, 'submitted');
}
