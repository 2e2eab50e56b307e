/**
 * A world is what one test may touch: folders of its own, an environment without anything of the machine's user in it,
 * and a mark by which its processes are known. When the test is over the world is taken down, and the test fails if it
 * left a process, a mount or a temporary file.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, delimiter, join } from 'node:path';
import { eventually } from './eventually.ts';
import { filesIn, testIdVariable, mountsBelow, processesOf } from './leaks.ts';
import { root } from './root.ts';

export interface World {
  /** The folder that holds the others; the test may put its own files here. Short, for the sake of Unix sockets. */
  readonly folder: string;
  /** `JOBMAN_HOME` of the test. */
  readonly home: string;
  /** The whole environment of the test's processes. */
  readonly env: Readonly<Record<string, string>>;
  /** Something to undo before the world is looked through; the last is undone first. */
  atEnd(undo: () => void | Promise<void>): void;
}

/** A test (`t`), or the module `node:test` itself for a world that all tests of a file share. */
export interface Scope {
  after(fn: () => Promise<void>): void;
}

/** `patienceMs` is the time that a program which was told to stop a moment ago is given to do so. */
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
        problems.push(`Undoing failed: ${String(error)}`);
      }
    }
    problems.push(...(await takeDown(folder, temporary, testId, patienceMs)));
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
      // A tmux of its own, and not that of whoever runs the tests.
      TMUX_TMPDIR: folder,
      JOBMAN_HOME: home,
      // Compiled code is shared by all tests; a cache in each new home would be cold every time.
      NODE_COMPILE_CACHE: join(root, 'node_modules/.cache/v8'),
      ...(process.env['NODE_V8_COVERAGE'] === undefined ? {} : { NODE_V8_COVERAGE: process.env['NODE_V8_COVERAGE'] }),
      [testIdVariable]: testId,
    },
    atEnd(step) {
      undo.push(step);
    },
  };
}

/** Without the folders that npm puts first when it runs the tests: a user's shell does not have them. */
function userPath(): string {
  const folders = (process.env['PATH'] ?? '/usr/bin:/bin').split(delimiter);
  return folders.filter((folder) => !folder.includes('node_modules')).join(delimiter);
}

/** Removes the world and tells what should not have been there any more. */
async function takeDown(folder: string, temporary: string, testId: string, patienceMs: number): Promise<string[]> {
  const problems: string[] = [];

  const alive = () => processesOf(testId, folder);
  if ((await eventually(() => alive().length === 0, { withinMs: patienceMs })) === undefined) {
    for (const { pid, command } of alive()) {
      problems.push(`Process ${pid} was still running: ${command}`);
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // It ended by itself after all.
      }
    }
    await eventually(() => alive().length === 0, { withinMs: 2_000 });
  }

  for (const point of mountsBelow(folder)) {
    problems.push(`Still mounted: ${point}`);
    spawnSync('umount', ['--lazy', point]);
  }

  for (const file of filesIn(temporary)) problems.push(`Left in the temporary folder: ${file}`);

  // What is mounted may be a folder from elsewhere, which must not be deleted with ours.
  const mounts = mountsBelow(folder);
  if (mounts.length > 0) return [...problems, `${folder} stays, because ${mounts.join(', ')} cannot be unmounted.`];
  try {
    rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
    if (removedFolders.size === 0) process.on('exit', reportRecreatedFolders);
    removedFolders.add(folder);
  } catch (error) {
    problems.push(`${folder} cannot be removed: ${String(error)}`);
  }
  return problems;
}

/** Worlds that are over. */
const removedFolders = new Set<string>();

/** What a test has begun and not waited for may still write into its home when that is gone, and so make it anew. */
function reportRecreatedFolders(): void {
  for (const folder of removedFolders) {
    if (!existsSync(folder)) continue;
    const files = readdirSync(folder, { recursive: true }).join(', ');
    process.stderr.write(`${folder} came back after its test: ${files}\n`);
    rmSync(folder, { recursive: true, force: true });
    process.exitCode = 1;
  }
}
