import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Creates a folder that is removed at the end of the test. */
export function temporaryFolder(scope: { after(fn: () => void): void }): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'jobman-test-')));
  scope.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
