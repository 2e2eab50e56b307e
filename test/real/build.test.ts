/** What a clone makes of itself: the bundle, and what plain `npx tsc` writes. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
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
    const wrong = spawnSync(join(top, 'bin/jobman'), ['logs', '1', '-n', 'x'], { encoding: 'utf8', env: { ...env } });
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

  test('makes chunks of which each command keeps what it has used, and which run without that, too', (t) => {
    const { top, env } = clone(t);
    const cache = join(top, 'cache');
    const run = (...argv: string[]) =>
      execFileSync(argv[0] ?? '', argv.slice(1), {
        cwd: top,
        env: { ...env, XDG_CACHE_HOME: cache },
        encoding: 'utf8',
      });
    run('npm', 'run', 'build');
    const flavors = () => run('bin/jobman', 'resources-flavors', '--json');
    const kept = () => ({
      at: statSync(join(cache, 'jobman/code/resources-flavors')).ino,
      bytes: readFileSync(join(cache, 'jobman/code/resources-flavors')),
    });

    const said = flavors();
    const [head = ''] = kept().bytes.toString('utf8').split('\n');
    assert.match(head, /\/dist\/bundle\/start-[\w-]+\.cjs"/);
    for (let run = 0; run < 3; run += 1) assert.equal(flavors(), said);
    // What is taken as it is, is not made anew; if it were refused, it would be.
    const known = kept();
    assert.equal(flavors(), said);
    assert.deepEqual(kept(), known);

    // Its end is missing, it is of another engine, and it is none at all.
    const foreign = Buffer.concat([
      known.bytes.subarray(0, head.length + 1),
      Buffer.alloc(known.bytes.length - head.length - 1),
    ]);
    for (const bytes of [known.bytes.subarray(0, -10), foreign, Buffer.from('x')]) {
      writeFileSync(join(cache, 'jobman/code/resources-flavors'), bytes);
      assert.equal(flavors(), said);
      assert.notDeepEqual(kept().bytes, bytes, 'It is made anew.');
    }
    // A command that fails keeps nothing.
    assert.throws(() => run('bin/jobman', 'no-such-word'));
    assert.deepEqual(readdirSync(join(cache, 'jobman/code')), ['resources-flavors']);

    // It names what was loaded: the jobs' record brings nothing of a lab's screens along.
    run('bin/jobman', 'list');
    const [loaded = ''] = readFileSync(join(cache, 'jobman/code/list'), 'utf8').split('\n');
    assert.match(loaded, /\/record-/);
    assert.doesNotMatch(loaded, /\/(?:tpu|lab-looks)-/);
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
