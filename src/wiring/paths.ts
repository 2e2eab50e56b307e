// Where jobman keeps what it keeps.

import { isAbsolute, join, resolve } from 'node:path';
import type { Io } from '../app/services.ts';

/** `$JOBMAN_HOME`, absolute; `~/.jobman` when it is not set. */
export function homeOf(io: Io): string {
  const named = io.env['JOBMAN_HOME'];
  if (named === undefined || named === '') return join(io.userHome, '.jobman');
  return isAbsolute(named) ? named : resolve(io.cwd, named);
}

/** The record of jobs. */
export function recordFile(home: string): string {
  return join(home, 'state.db');
}
