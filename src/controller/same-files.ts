// Files that are held open while somebody removes or replaces them by name.

import { statSync } from 'node:fs';

/** The returned question answers false once one of these names is gone or is another file; a failed check says nothing. */
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
