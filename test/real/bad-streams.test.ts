/** A command whose output cannot be written, or whose folder is gone, says so in a sentence. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { closeSync, mkdirSync, openSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { frontDoor } from '../support/jobman.ts';
import { requireReal } from '../support/real.ts';
import { openWorld, type World } from '../support/world.ts';

const [program, ...words] = frontDoor;

/** Runs a command with its output in a file of the test's choice. */
function intoFile(world: World, output: number | 'pipe', argv: readonly string[]) {
  return spawnSync(program, [...words, ...argv], {
    cwd: world.folder,
    env: world.env,
    stdio: ['ignore', output, 'pipe'],
    encoding: 'utf8',
  });
}

const sentence = /^jobman: What it printed could not be written in full: no space left on device\.\n$/m;

test('output into a device that is full ends with a sentence and exit code 1', (t) => {
  const world = openWorld(t);
  const full = openSync('/dev/full', 'w');
  try {
    for (const argv of [['--help'], ['schema'], ['settings']]) {
      const { status, stderr } = intoFile(world, full, argv);
      assert.match(stderr, sentence, argv.join(' '));
      assert.equal(status, 1, argv.join(' '));
    }
    // The same words into a pipe: it was the device, not the command.
    assert.equal(intoFile(world, 'pipe', ['schema']).status, 0);
  } finally {
    closeSync(full);
  }
});

test('output into a file on a full disk does the same, however far it came', (t: TestContext) => {
  const world = openWorld(t);
  const disk = join(world.folder, 'disk');
  mkdirSync(disk);
  const isMounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', disk]).status === 0;
  if (!requireReal(t, 'right to mount a file system', isMounted)) return;
  world.atEnd(async () => {
    assert.equal(spawnSync('umount', [disk]).status, 0);
  });
  const file = openSync(join(disk, 'out'), 'w');
  try {
    writeSync(file, Buffer.alloc(60 * 1024));
    const { status, stderr } = intoFile(world, file, ['schema']);
    assert.match(stderr, sentence);
    assert.equal(status, 1);
  } finally {
    closeSync(file);
  }
});

test('a folder that was removed under the shell is no reason to know nothing', (t) => {
  const world = openWorld(t);
  const gone = join(world.folder, 'gone');
  mkdirSync(gone);
  const manifest = join(world.folder, 'job.yaml');
  writeFileSync(manifest, 'local: {}\ncommand: {run: "true"}\n');
  const inGone = (...argv: readonly string[]) => {
    const script = 'cd "$1" && rmdir "$1" && shift && exec "$@" 2>&1';
    mkdirSync(gone, { recursive: true });
    return spawnSync('sh', ['-c', script, 'sh', gone, program, ...words, ...argv], {
      env: { ...world.env, PWD: gone },
      encoding: 'utf8',
    });
  };
  const list = inGone('list');
  assert.equal(list.status, 0, list.stdout);
  const whole = inGone('validate', manifest);
  assert.equal(whole.status, 0, whole.stdout);
  const relative = inGone('validate', 'job.yaml');
  assert.equal(relative.status, 2, relative.stdout);
  assert.match(relative.stdout, /job\.yaml/);
  assert.doesNotMatch(relative.stdout, /at .*\.ts|ENOENT: process\.cwd/);
});
