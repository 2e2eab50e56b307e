/**
 * Tests with real parts (sshd, a cluster, a browser) run where the machine has them. Elsewhere they are skipped with a
 * message and counted. With JOBMAN_REQUIRE_REAL=1, as in the full check, a missing part is a failure.
 */
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

const missing: string[] = [];

/**
 * Returns whether a test can run. Use it as the first line of a test: `if (!requireReal(t, 'sshd',
 * findProgram('sshd'))) return;`
 */
export function requireReal(
  t: { skip(message?: string): void },
  name: string,
  found: boolean | string | undefined,
  env: Readonly<Record<string, string | undefined>> = process.env,
): boolean {
  if (found !== undefined && found !== false && found !== '') return true;
  if (env['JOBMAN_REQUIRE_REAL'] === '1') {
    throw new Error(
      `This test needs ${name}, which this machine does not have, and JOBMAN_REQUIRE_REAL=1 forbids a skip.`,
    );
  }
  t.skip(`this machine has no ${name}`);
  if (missing.length === 0) process.once('exit', count);
  missing.push(name);
  return false;
}

/** The path of a program. Includes the administrators' folders, because sshd is there. */
export function findProgram(name: string): string | undefined {
  const folders = [...(process.env['PATH'] ?? '').split(delimiter), '/usr/local/sbin', '/usr/sbin', '/sbin'];
  return folders.map((folder) => join(folder, name)).find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

function count(): void {
  const names = [...new Set(missing)].join(', ');
  process.stderr.write(`\n!! ${missing.length} tests against real parts were SKIPPED: this machine has no ${names}.\n`);
}
