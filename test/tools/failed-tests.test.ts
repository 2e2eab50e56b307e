/** The list of failed tests that `.ci/run` runs again. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { root } from '../support/root.ts';
import { openWorld } from '../support/world.ts';

function failedTests(cwd: string, env: NodeJS.ProcessEnv, ...options: readonly string[]): readonly string[] {
  const args = ['--test', ...options, '--test-reporter', join(root, 'tools/failed-tests.ts')];
  const { status, stdout } = spawnSync(process.execPath, args, { cwd, env, encoding: 'utf8' });
  assert.equal(status, 1);
  return stdout.trim().split('\n').toSorted();
}

test('lists each failed test with its file and its error, and a file that failed itself', (t) => {
  const { folder, env } = openWorld(t);
  const file = (name: string, text: string): void => writeFileSync(join(folder, name), text);
  const fails = String.raw`{ throw new Error('no\nreason'); }`;
  const head = "import { after, suite, test } from 'node:test';\n";
  file('one.test.mjs', `${head}suite('all', () => { test('good', () => {}); test('bad', () => ${fails}); });`);
  file('two.test.mjs', `${head}test('good', () => {}); after(() => ${fails});`);
  file('shared.mjs', `${head}export const contract = () => test('held', () => ${fails});`);
  file('three.test.mjs', "import { contract } from './shared.mjs'; contract();");
  assert.deepEqual(failedTests(folder, env), [
    'one.test.mjs: bad: no | reason',
    'three.test.mjs: held: no | reason',
    `two.test.mjs: ${join(folder, 'two.test.mjs')}: no | reason`,
  ]);
});

test('lists a test whose error came after its end, which the runner does not count as failed', (t) => {
  const { folder, env } = openWorld(t);
  const late = "test('late', () => void setTimeout(() => Promise.reject(new Error('no')), 10));";
  const slow = "test('slow', () => new Promise((resolve) => void setTimeout(resolve, 200)));";
  writeFileSync(join(folder, 'late.test.mjs'), `import { test } from 'node:test';\n${late}\n${slow}\n`);
  assert.deepEqual(failedTests(folder, env, '--test-isolation=none'), [
    'late.test.mjs: late: after its end: Error: no',
  ]);
});

test('lists an error that belongs to no test', (t) => {
  const { folder, env } = openWorld(t);
  const slow = "test('slow', () => new Promise((resolve) => void setTimeout(resolve, 200)));";
  const own = "setTimeout(() => Promise.reject(new Error('no')), 50);";
  writeFileSync(join(folder, 'own.test.mjs'), `import { test } from 'node:test';\n${own}\n${slow}\n`);
  assert.deepEqual(failedTests(folder, env, '--test-isolation=none'), [
    '(no file): (no test): after its end: Error: no',
  ]);
});

test('a test whose folder is written after its end is listed', (t) => {
  const { folder, env } = openWorld(t);
  const list = join(folder, 'failed');
  const own = `const { home } = openWorld(t); process.on('exit', () => mkdirSync(home, { recursive: true }));`;
  const imports = ["import { mkdirSync } from 'node:fs';", "import { test } from 'node:test';"];
  const world = `import { openWorld } from '${join(root, 'test/support/world.ts')}';`;
  const text = [...imports, world, `test('writes', (t) => { ${own} });`].join('\n');
  writeFileSync(join(folder, 'late.test.mjs'), text);
  const { status } = spawnSync(process.execPath, ['--test', '--test-isolation=none'], {
    cwd: folder,
    env: { ...env, FAILED_TESTS: list },
  });
  assert.equal(status, 1);
  assert.match(readFileSync(list, 'utf8'), /^late\.test\.mjs: writes: \S+ came back after its test: home\n$/);
});

test('the command of the README succeeds if all tests do', (t) => {
  const { folder, env } = openWorld(t);
  writeFileSync(join(folder, 'good.test.mjs'), "import { test } from 'node:test';\ntest('good', () => {});\n");
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  // The same options, with the files of this folder.
  const command = String(scripts.test).replace(/ '.*$/, ` '${folder}/*.test.mjs'`);
  const { status, stdout, stderr } = spawnSync('sh', ['-c', command], {
    cwd: root,
    env: { ...env, FAILED_TESTS: '', PATH: `${join(root, 'node_modules/.bin')}:${env['PATH'] ?? ''}` },
    encoding: 'utf8',
  });
  assert.deepEqual([status, stderr], [0, ''], stdout);
  assert.match(stdout, /pass 1\n/);
});
