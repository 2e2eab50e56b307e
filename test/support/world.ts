/**
 * A world contains everything that one test may touch: its folders, an environment without anything of the machine's
 * user, and a marker for its processes. At the end of the test the world is taken down, and the test fails if it left a
 * process, a mount or a temporary file.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { appendFileSync, existsSync, mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, delimiter, join, relative } from 'node:path';
import { eventually } from './eventually.ts';
import { filesIn, testIdVariable, mountsBelow, processesOf } from './leaks.ts';
import { root } from './root.ts';

export interface World {
  /** The parent of the other folders; a test may add files. The path is short, because Unix sockets limit it. */
  readonly folder: string;
  /** `JOBMAN_HOME` of the test. */
  readonly home: string;
  /** The whole environment of the test's processes. */
  readonly env: Readonly<Record<string, string>>;
  /** Adds a clean-up that runs before the final check, in reverse order. */
  atEnd(undo: () => void | Promise<void>): void;
}

/** A test (`t`), or the module `node:test` for a world that all tests of a file share. */
export interface Scope {
  readonly filePath?: string | undefined;
  readonly fullName?: string;
  after(fn: () => Promise<void>): void;
}

/** `patienceMs` is the time for signalled processes to end. */
export function openWorld(scope: Scope, { patienceMs = 10_000 }: { readonly patienceMs?: number } = {}): World {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'jobman-test-')));
  const testId = basename(folder);
  const [home, user, temporary] = ['home', 'user', 'tmp'].map((name) => join(folder, name)) as [string, string, string];
  mkdirSync(user);
  mkdirSync(temporary);

  const undo: (() => void | Promise<void>)[] = [];
  scope.after(async () => {
    const problems: string[] = [];
    for (const step of undo.toReversed()) {
      try {
        await step();
      } catch (error) {
        problems.push(`Cleaning up failed: ${String(error)}`);
      }
    }
    problems.push(...(await takeDown(folder, temporary, testId, patienceMs)));
    if (!existsSync(folder)) {
      if (removedFolders.size === 0) process.on('exit', reportRecreatedFolders);
      removedFolders.set(folder, `${relative('', scope.filePath ?? '(no file)')}: ${scope.fullName ?? '(no test)'}`);
    }
    assert.equal(problems.length, 0, `The test did not clean up.\n${problems.join('\n')}`);
  });

  return {
    folder,
    home,
    env: {
      PATH: userPath(),
      HOME: user,
      USER: process.env['USER'] ?? 'root',
      LANG: 'C.UTF-8',
      TZ: 'UTC',
      TMPDIR: temporary,
      // A separate tmux server, not the user's own.
      TMUX_TMPDIR: folder,
      JOBMAN_HOME: home,
      // All tests share compiled code; each new home would start without it.
      NODE_COMPILE_CACHE: join(root, 'node_modules/.cache/v8'),
      ...(process.env['NODE_V8_COVERAGE'] === undefined ? {} : { NODE_V8_COVERAGE: process.env['NODE_V8_COVERAGE'] }),
      [testIdVariable]: testId,
    },
    atEnd(step) {
      undo.push(step);
    },
  };
}

/** Without the folders that npm adds to PATH: a user's shell does not have them. */
function userPath(): string {
  const folders = (process.env['PATH'] ?? '/usr/bin:/bin').split(delimiter);
  return folders.filter((folder) => !folder.includes('node_modules')).join(delimiter);
}

/** Removes the world and returns a sentence per leftover. */
async function takeDown(folder: string, temporary: string, testId: string, patienceMs: number): Promise<string[]> {
  const problems: string[] = [];

  const alive = () => processesOf(testId, folder);
  if ((await eventually(() => alive().length === 0, { withinMs: patienceMs })) === undefined) {
    for (const { pid, command } of alive()) {
      problems.push(`Process ${pid} was still running: ${command}`);
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // It ended by itself.
      }
    }
    await eventually(() => alive().length === 0, { withinMs: 2_000 });
  }

  for (const point of mountsBelow(folder)) {
    problems.push(`Still mounted: ${point}`);
    spawnSync('umount', ['--lazy', point]);
  }

  for (const file of filesIn(temporary)) problems.push(`Left in the temporary folder: ${file}`);

  // A mounted folder may be from elsewhere and must not be deleted with ours.
  const mounts = mountsBelow(folder);
  if (mounts.length > 0) return [...problems, `${folder} stays, because ${mounts.join(', ')} cannot be unmounted.`];
  try {
    rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
  } catch (error) {
    problems.push(`${folder} cannot be removed: ${String(error)}`);
  }
  return problems;
}

/** The folders of finished worlds, with the file and the name of the test. */
const removedFolders = new Map<string, string>();

/**
 * A process that a test did not wait for may still write into its removed home and create it again. The runner has counted the
 * test as passed, so it is added here to what tools/failed-tests.ts lists.
 */
function reportRecreatedFolders(): void {
  for (const [folder, owner] of removedFolders) {
    if (!existsSync(folder)) continue;
    const files = readdirSync(folder, { recursive: true }).join(', ');
    const line = `${owner}: ${folder} came back after its test: ${files}\n`;
    process.stderr.write(line);
    if (process.env['FAILED_TESTS']) appendFileSync(process.env['FAILED_TESTS'], line);
    rmSync(folder, { recursive: true, force: true });
    process.exitCode = 1;
  }
}
