/** The list of failed tests that `.ci/run` runs again. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { root } from '../support/root.ts';
import { openWorld } from '../support/world.ts';

test('lists each failed test with its file and its error, and a file that failed itself', (t) => {
  const { folder, env } = openWorld(t);
  const file = (name: string, text: string): void => writeFileSync(join(folder, name), text);
  const fails = "{ throw new Error('no'); }";
  const head = "import { after, suite, test } from 'node:test';\n";
  file('one.test.mjs', `${head}suite('all', () => { test('good', () => {}); test('bad', () => ${fails}); });`);
  file('two.test.mjs', `${head}test('good', () => {}); after(() => ${fails});`);
  file('shared.mjs', `${head}export const contract = () => test('held', () => ${fails});`);
  file('three.test.mjs', "import { contract } from './shared.mjs'; contract();");
  const reporter = ['--test-reporter', join(root, 'tools/failed-tests.ts')];
  const { status, stdout } = spawnSync(process.execPath, ['--test', ...reporter], {
    cwd: folder,
    env,
    encoding: 'utf8',
  });
  assert.equal(status, 1);
  const lines = stdout.trim().split('\n').toSorted();
  assert.deepEqual(lines, [
    'one.test.mjs: bad: no',
    'three.test.mjs: held: no',
    `two.test.mjs: ${join(folder, 'two.test.mjs')}: no`,
  ]);
});
