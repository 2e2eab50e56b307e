import { execFileSync } from 'node:child_process';
import { cpSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './root.ts';

/** Copies the repository as a clone of it would be, with what is not committed yet, and without anything built. */
export function copySources(to: string): void {
  const list = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
    cwd: root,
    encoding: 'utf8',
  });
  for (const file of list.split('\0').filter((name) => name !== '' && existsSync(join(root, name)))) {
    cpSync(join(root, file), join(to, file), { verbatimSymlinks: true });
  }
}
