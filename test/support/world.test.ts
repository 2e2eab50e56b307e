/** Tests of the harness: it reports each kind of leftover. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { mountsBelow, processesOf } from './leaks.ts';
import { requireReal } from './real.ts';
import { openWorld, type World } from './world.ts';

/** Opens a world, uses it, takes it down, and returns the error of the test. */
async function complaintAfter(act: (world: World) => void | Promise<void>, patienceMs = 100): Promise<string> {
  let end: (() => Promise<void>) | undefined;
  const scope = {
    after(fn: () => Promise<void>) {
      end = fn;
    },
  };
  const world = openWorld(scope, { patienceMs });
  await act(world);
  try {
    await end?.();
    return '';
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  } finally {
    assert.ok(!existsSync(world.folder), 'The folder of the world is always removed.');
    assert.deepEqual(processesOf(world.env['JOBMAN_TEST_ID'] ?? '', world.folder), []);
  }
}

const detached = { detached: true, stdio: 'ignore' } as const;

suite('the end of a world', () => {
  test('accepts a clean test', async () => {
    const complaint = await complaintAfter((world) => {
      mkdirSync(world.home);
      writeFileSync(join(world.home, 'state.db'), 'kept until the end');
    });
    assert.equal(complaint, '');
  });

  test('finds and ends a process that survived the test', async () => {
    const complaint = await complaintAfter(({ env }) => {
      spawn('sleep', ['1000'], { ...detached, env }).unref();
    });
    assert.match(complaint, /Process \d+ was still running: sleep 1000/);
  });

  test('finds a process with a new environment that works in the folder', async () => {
    const complaint = await complaintAfter(({ folder }) => {
      spawn('/bin/sleep', ['1000'], { ...detached, env: {}, cwd: folder }).unref();
    });
    assert.match(complaint, /was still running/);
  });

  test('waits for a process that is about to end', async () => {
    const complaint = await complaintAfter(({ env }) => {
      spawn('sleep', ['0.3'], { ...detached, env }).unref();
    }, 5_000);
    assert.equal(complaint, '');
  });

  test('finds a file in the temporary folder', async () => {
    const complaint = await complaintAfter(({ env }) => {
      writeFileSync(join(env['TMPDIR'] ?? '', 'scrap'), '');
    });
    assert.match(complaint, /Left in the temporary folder: scrap/);
  });

  test('runs the clean-ups first, in reverse order, and then checks', async () => {
    const order: string[] = [];
    const complaint = await complaintAfter((world) => {
      const child = spawn('sleep', ['1000'], { ...detached, env: world.env });
      child.unref();
      world.atEnd(() => void order.push('first'));
      world.atEnd(() => {
        order.push('second');
        child.kill();
      });
    });
    assert.equal(complaint, '');
    assert.deepEqual(order, ['second', 'first']);
  });
});

test('mounts are read from the kernel’s table, the deepest first', () => {
  const table = [
    '22 1 0:21 / /tmp rw - tmpfs tmpfs rw',
    '23 22 0:22 / /tmp/world rw - tmpfs tmpfs rw',
    '24 23 0:23 / /tmp/world/with\\040space rw - fuse gcsfuse rw',
    '25 22 0:24 / /tmp/worldly rw - tmpfs tmpfs rw',
  ].join('\n');
  assert.deepEqual(mountsBelow('/tmp/world', table), ['/tmp/world/with space', '/tmp/world']);
});

suite('a real part', () => {
  test('that exists lets the test run', () => {
    assert.ok(requireReal({ skip: () => assert.fail() }, 'a shell', '/bin/sh', {}));
  });

  test('that is missing fails if it is required', () => {
    assert.throws(
      () => requireReal({ skip: () => assert.fail() }, 'a unicorn', undefined, { JOBMAN_REQUIRE_REAL: '1' }),
      /needs a unicorn/,
    );
  });
});
