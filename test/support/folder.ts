import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A new folder, which is removed with all that is in it when the test is over. */
export function temporaryFolder(scope: { after(fn: () => void): void }): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'jobman-test-')));
  scope.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
