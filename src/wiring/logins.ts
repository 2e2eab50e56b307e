// Logins: names of the other logins that share the files of a home.

import { statSync } from 'node:fs';
import { join } from 'node:path';
import { isControllerRunning } from '../controller/lock.ts';
import { isGroupShared, ownUid } from '../files/files.ts';

/** The other login that owns the file; null if this login owns it, or if it does not exist. */
export async function otherOwnerOf(path: string): Promise<string | null> {
  const uid = statSync(path, { throwIfNoEntry: false })?.uid ?? ownUid();
  if (uid === ownUid()) return null;
  // Each command about one job loads this file, and few homes have another login.
  const { runProcess } = await import('../remote/process.ts');
  const { stdout } = await runProcess({ argv: ['id', '-un', String(uid)], timeoutMs: 10_000, maxOutputBytes: 1000 });
  const name = Buffer.from(stdout).toString('utf8').trim();
  return name === '' ? `with the number ${uid}` : name;
}

/** The other login that runs the controller of a shared home; null without one. Throws as `isControllerRunning`. */
export async function controllerLogin(home: string): Promise<string | null> {
  return isGroupShared(home) && isControllerRunning(home) ? otherOwnerOf(join(home, 'controller.json')) : null;
}
