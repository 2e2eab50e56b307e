/** What a clone makes of itself: the bundle, and what plain `npx tsc` writes. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import { version } from '../../src/version.ts';
import { copySources } from '../support/copy.ts';
import { root } from '../support/root.ts';
import { openWorld } from '../support/world.ts';

/** A copy of the sources that borrows the installed packages. */
function clone(t: TestContext) {
  const world = openWorld(t);
  const top = join(world.folder, 'jobman');
  copySources(top);
  symlinkSync(join(root, 'node_modules'), join(top, 'node_modules'));
  const run = (file: string, ...argv: string[]) =>
    execFileSync(file, argv, { cwd: top, env: world.env, encoding: 'utf8' });
  return { top, run, env: world.env };
}

suite('npm run build', () => {
  test('makes a bundle that bin/jobman runs, and leaves nothing else in dist', (t) => {
    const { top, run, env } = clone(t);
    run('npm', 'run', 'build');
    assert.deepEqual(readdirSync(join(top, 'dist')).toSorted(), ['bundle', 'settings.json']);
    // By the sum the next build knows whether somebody has edited the template of settings.
    assert.deepEqual(
      readdirSync(join(top, 'dist/bundle')).filter((name) => !/\.cjs(\.map)?$/.test(name)),
      ['settings.sha256'],
    );
    assert.equal(run('bin/jobman', '--version'), `jobman ${version}\n`);
    // The framework looks at names of classes, which a bundle shortens: our words come all the same.
    const wrong = spawnSync(join(top, 'bin/jobman'), ['logs', '1', '--tail', 'x'], {
      encoding: 'utf8',
      env: { ...env },
    });
    assert.match(wrong.stderr, /^jobman: --tail `x`: expected a whole number\.\n/);
  });

  test('makes an entry that loads nothing of ours before the compile cache is on', (t) => {
    const { top, run } = clone(t);
    run('npm', 'run', 'build');
    const entry = readFileSync(join(top, 'dist/bundle/main.cjs'), 'utf8');
    const eager = [...entry.slice(0, entry.indexOf('enableCompileCache')).matchAll(/require\("(.*?)"\)/g)].map(
      (m) => m[1],
    );
    const ours = eager.filter((name) => !name?.startsWith('node:') && !name?.startsWith('./rolldown-runtime-'));
    assert.deepEqual(ours, []);
    assert.match(entry, /\.then\(\(\)\s*=>\s*require\("\.\/start-/, 'The rest is loaded when it is asked for.');
  });

  test('that fails takes the earlier bundle away, so that the source is not hidden by it', (t) => {
    const { top, run } = clone(t);
    run('npm', 'run', 'build');
    writeFileSync(join(top, 'src/version.ts'), "export const version = ';");
    assert.throws(() => run('npm', 'run', 'build'), /The bundle cannot be built/);
    assert.ok(!existsSync(join(top, 'dist/bundle/main.cjs')));
  });

  test('twice gives the same files, keeps a recent chunk of another build, and drops an old one', (t) => {
    const { top, run } = clone(t);
    const bundle = join(top, 'dist/bundle');
    mkdirSync(bundle, { recursive: true });
    writeFileSync(join(bundle, 'recent-1.cjs'), '');
    writeFileSync(join(bundle, 'old-1.cjs'), '');
    const monthAgo = new Date(Date.now() - 30 * 24 * 60 * 60 * 1000);
    utimesSync(join(bundle, 'old-1.cjs'), monthAgo, monthAgo);

    run('npm', 'run', 'build');
    const first = readdirSync(bundle);
    assert.ok(first.includes('recent-1.cjs') && !first.includes('old-1.cjs'));
    run('npm', 'run', 'build');
    assert.deepEqual(readdirSync(bundle), first);
  });
});

test('npx tsc writes JavaScript that runs, with the bundle and without it', (t) => {
  const { top, run } = clone(t);
  run('npx', 'tsc');
  assert.equal(
    run('bin/jobman', '--version'),
    `jobman ${version}\n`,
    'Without a bundle, bin/jobman takes dist/main.js.',
  );
  assert.equal(run(join(root, 'node_modules/.bin/node'), 'dist/main.js', '--version'), `jobman ${version}\n`);
  run('npm', 'run', 'build');
  run('npx', 'tsc');
  assert.ok(readdirSync(join(top, 'dist')).includes('bundle'));
  assert.equal(run('bin/jobman', '--version'), `jobman ${version}\n`);
});
