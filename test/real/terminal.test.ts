/** The terminal with everything behind it: a job of this machine, followed, left, and its controller brought back. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { openJobWorld } from '../support/jobs.ts';

suite('create --follow', () => {
  test('shows what the program prints and ends with its verdict', async (t) => {
    const world = openJobWorld(t);
    const manifest = world.localManifest('echo one\necho two >&2\nexit 3', { name: 'it' });
    const { code, stdout, stderr } = await world.jobman(['create', manifest, '--follow']);
    assert.equal(code, 1, stderr);
    assert.equal(stdout, '[0] one\n[0] two\n');
    assert.match(stderr, /^000001 it created; it goes on without this terminal\n/);
    assert.match(stderr, /000001 it failed after .*exit(ed)?.* 3/);
    await world.settled('1', 1);
  });

  test('left by Ctrl-C lets the job go on, and logs -f comes back to it', async (t) => {
    const world = openJobWorld(t);
    const go = join(world.folder, 'go');
    const manifest = world.localManifest(`echo begun\nuntil test -e ${go}; do sleep 0.1; done\necho done`);
    const following = world.start(['create', manifest, '--follow']);
    await following.prints('[0] begun');
    following.child.kill('SIGINT');
    const left = await following.ended;
    assert.equal(left.code, 130);
    assert.match(left.stderr, /Left; 000001 goes on\. Back: jobman logs 1 -f\n$/);

    const back = world.start(['logs', '1', '-f']);
    await back.prints('[0] begun');
    writeFileSync(go, '');
    const { code, stdout } = await back.ended;
    assert.equal(code, 0);
    assert.equal(stdout, '[0] begun\n[0] done\n');
  });
});

test('a killed controller is replaced by the next command, of whatever kind', async (t) => {
  const world = openJobWorld(t);
  const go = join(world.folder, 'go');
  const id = await world.create(world.localManifest(`until test -e ${go}; do sleep 0.1; done`));
  const [before] = world.runningIn('controller run');
  assert.ok(await world.killController());
  await world.well(['list']);
  assert.ok(await eventually(() => world.runningIn('controller run').length === 1));
  assert.notEqual(world.runningIn('controller run')[0]?.pid, before?.pid);
  writeFileSync(go, '');
  await world.settled(id);
});
