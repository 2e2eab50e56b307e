import assert from 'node:assert/strict';
import { test } from 'node:test';
import { version } from '../../src/version.ts';
import { jobman } from '../support/jobman.ts';
import { openWorld } from '../support/world.ts';

test('jobman --version and -v print the name and the version', async (t) => {
  const world = openWorld(t);
  for (const flag of ['--version', '-v']) {
    const { code, stdout, stderr } = await jobman(world, [flag]);
    assert.deepEqual({ code, stdout, stderr }, { code: 0, stdout: `jobman ${version}\n`, stderr: '' });
  }
});

test('jobman alone prints its version first, then the first steps', async (t) => {
  const { code, stdout } = await jobman(openWorld(t), []);
  assert.equal(code, 0);
  assert.equal(stdout.split('\n')[0], `jobman ${version}`);
  assert.match(stdout, /jobman create/);
});

test('an unknown command is a usage error', async (t) => {
  const { code, stdout, stderr } = await jobman(openWorld(t), ['frobnicate']);
  assert.equal(code, 2);
  assert.equal(stdout, '');
  assert.match(stderr, /frobnicate/);
});
