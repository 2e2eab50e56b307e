/** `tpu import` through the front door: a dry run, the import, and a second one; and the key that is in no record. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { manualSample, realMess } from '../lab/old-data.ts';
import { root } from '../support/root.ts';
import { openWorld } from '../support/world.ts';

test('data.json comes along, once, and its key into a file of its own', (t) => {
  const world = openWorld(t);
  const run = (...words: readonly string[]) => {
    const argv = [join(root, 'src/main.ts'), ...words];
    const { status, stdout, stderr } = spawnSync(process.execPath, argv, {
      env: world.env,
      cwd: world.folder,
      encoding: 'utf8',
    });
    return { code: status, out: stdout, err: stderr };
  };
  writeFileSync(join(world.folder, 'data.json'), JSON.stringify(manualSample, null, 2));
  writeFileSync(join(world.folder, 'broken.json'), '{\n  "users": {,}\n}');
  writeFileSync(join(world.folder, 'other.json'), '{}');

  assert.equal(run('tpu', 'import', 'nowhere.json').code, 3);
  const broken = run('tpu', 'import', 'broken.json', '--apply');
  assert.deepEqual([broken.code, /broken\.json:2:13/.test(broken.err)], [2, true], broken.err);
  assert.match(run('tpu', 'import', 'other.json').err, /no "users"/);

  const early = run('tpu', 'import', 'data.json');
  assert.match(early.out, /^- window 1 of xibo: Nothing says in which Google Cloud project/m, early.err);
  assert.equal(existsSync(join(world.home, 'state.db')), false, 'a dry run makes nothing');
  assert.equal(run('settings', 'set', 'tpu.project', 'emulator').code, 0);
  const dry = run('tpu', 'import', 'data.json', '--json');
  const lines = dry.out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { kind: string; what: string; done: boolean });
  assert.ok(lines.some(({ kind, what, done }) => kind === 'take' && what === 'window 1 of xibo' && !done));

  const done = run('tpu', 'import', 'data.json', '--apply');
  assert.equal(done.code, 0, done.err);
  assert.match(done.out, /^\+ user xibo: id 0, 1 directory, 1 alias, next window 42$/m);
  assert.match(done.out, /were taken over/);
  const key = join(world.home, 'secrets', 'wandb_api_key');
  assert.equal(readFileSync(key, 'utf8'), `${manualSample.wandb_api_key}\n`);
  assert.equal(statSync(key).mode & 0o777, 0o600);
  for (const name of readdirSync(world.home, { recursive: true, encoding: 'utf8' })) {
    const path = join(world.home, name);
    if (path === key || !statSync(path).isFile()) continue;
    assert.ok(!readFileSync(path).includes(manualSample.wandb_api_key), `${name} holds the key`);
  }
  assert.match(run('list', '--all').out, /xibo +code +v2-32 .*succeeded/);
  assert.match(run('tpu', 'list-users').out, /xibo/);

  const again = run('tpu', 'import', 'data.json', '--apply');
  assert.match(again.out, /^0 were taken over/m);
  writeFileSync(join(world.folder, 'mess.json'), JSON.stringify(realMess));
  const mess = run('tpu', 'import', 'mess.json', '--apply');
  assert.equal(mess.code, 0, mess.err);
  assert.match(mess.out, /^- user run: "run" cannot be the name of a user/m);
  assert.match(run('tpu', 'import', 'mess.json').out, /There is nothing to take over/);
});
