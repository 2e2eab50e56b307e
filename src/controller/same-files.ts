// Files that are held open while somebody removes or replaces them by name.

import { statSync } from 'node:fs';

/**
 * Remembers which files have those names now. The returned question answers false once one of the names is gone or
 * belongs to another file. A look that fails in any other way says nothing, nor does a name that nothing had at first.
 */
export function rememberFiles(paths: readonly string[]): () => boolean {
  const files = paths.map((path) => ({ path, identity: identityOf(path) }));
  return () =>
    files.every(({ path, identity }) => {
      const now = identityOf(path);
      return identity === 'unknown' || identity === 'absent' || now === 'unknown' || now === identity;
    });
}

/** The device and the number of the file there. A number is not given to another file while this one is held open. */
function identityOf(path: string): string {
  try {
    const { dev, ino } = statSync(path, { bigint: true });
    return `${dev}:${ino}`;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT' ? 'absent' : 'unknown';
  }
}
