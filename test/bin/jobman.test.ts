/** The launcher, in small copies of the tree in which every Node is a script that prints its arguments. */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readFileSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import { openJobWorld } from '../support/jobs.ts';
import { findProgram, requireReal } from '../support/real.ts';
import { root } from '../support/root.ts';
import { openWorld } from '../support/world.ts';

interface Tree {
  readonly top: string;
  readonly write: (path: string, text?: string, mode?: number) => void;
  readonly run: (file: string, ...argv: string[]) => { code: number | null; stdout: string; stderr: string };
}

/** A tree with the launcher, in a folder whose name has a space. PATH contains one folder, the tree's `path`. */
function installTree(t: TestContext): Tree {
  const { folder } = openWorld(t);
  const top = join(folder, 'my jobman');
  const path = join(top, 'path');
  const write = (name: string, text = '', mode = 0o644) => {
    mkdirSync(dirname(join(top, name)), { recursive: true });
    writeFileSync(join(top, name), text, { mode });
  };
  mkdirSync(join(top, 'bin'), { recursive: true });
  mkdirSync(path);
  for (const name of ['jobman', 'tpu']) copyFileSync(join(root, 'bin', name), join(top, 'bin', name));
  symlinkSync(findProgram('readlink') ?? '', join(path, 'readlink'));
  return {
    top,
    write,
    run(file, ...argv) {
      const { status, stdout, stderr } = spawnSync(file, argv, { env: { PATH: path }, cwd: folder, encoding: 'utf8' });
      return { code: status, stdout, stderr };
    },
  };
}

/** A Node that prints its name, the program and the arguments, each in angle brackets. */
const fakeNode = (name: string, version: string) =>
  `#!/bin/sh\nif [ "$1" = --version ]; then echo ${version}; else printf '%s' '${name}'; printf '<%s>' "$@"; fi\n`;

suite('bin/jobman', () => {
  test('runs the bundle on the Node of the package, with unchanged arguments', (t) => {
    const { top, write, run } = installTree(t);
    write('node_modules/.bin/node', fakeNode('own', 'v26.10.0'), 0o755);
    write('path/node', fakeNode('path', 'v24.0.0'), 0o755);
    for (const file of ['dist/bundle/main.cjs', 'dist/main.js', 'src/main.ts']) write(file);
    const { code, stdout } = run(join(top, 'bin/jobman'), 'a b', '', '$HOME', '*');
    assert.equal(code, 0);
    // Node's own options come in between and do not matter here.
    assert.ok(stdout.startsWith('own<--'), stdout);
    assert.ok(stdout.endsWith(`<${top}/bin/../dist/bundle/main.cjs><a b><><$HOME><*>`), stdout);
    // A server keeps less than a short command.
    assert.match(stdout, /<--max-semi-space-size=8>/);
    assert.match(run(join(top, 'bin/jobman'), 'server').stdout, /^own<.*<--max-semi-space-size=2>/);
  });

  test("disables the check of a library whether this machine is one of Google's", (t) => {
    const { top, write, run } = installTree(t);
    symlinkSync(process.execPath, join(top, 'path/node'));
    write('dist/main.js', 'process.emitWarning("code = 403", "MetadataLookupWarning"); process.emitWarning("heard");');
    const { code, stderr } = run(join(top, 'bin/jobman'));
    assert.equal(code, 0);
    assert.match(stderr, /heard/);
    assert.doesNotMatch(stderr, /MetadataLookupWarning/);
  });

  test('reports on a terminal that the bundle is older than the last pull', (t) => {
    const python = findProgram('python3');
    if (!requireReal(t, 'python3', python)) return;
    const { top, write, run } = installTree(t);
    write('node_modules/.bin/node', fakeNode('own', 'v26.10.0'), 0o755);
    const argv = [join(root, 'test/real/run-in-terminal.py'), '200', '24', '[]', join(top, 'bin/jobman'), 'list'];
    const runInTerminal = () => spawnSync(python ?? '', argv, { encoding: 'utf8' }).stdout;
    const notice = /jobman: The source has changed since this build\. To build it again: cd .*my jobman && npm install/;
    write('.git/logs/HEAD');
    write('dist/bundle/main.cjs');
    utimesSync(join(top, '.git/logs/HEAD'), 1000, 1000);
    assert.doesNotMatch(runInTerminal(), notice);
    utimesSync(join(top, 'dist/bundle/main.cjs'), 900, 900);
    assert.match(runInTerminal(), notice);
    assert.equal(run(join(top, 'bin/jobman'), 'list').stderr, '');
  });

  test('falls back to the output of tsc, then to the source', (t) => {
    const { top, write, run } = installTree(t);
    write('node_modules/.bin/node', fakeNode('own', 'v26.10.0'), 0o755);
    write('src/main.ts');
    assert.match(run(join(top, 'bin/jobman')).stdout, /<[^>]*\/src\/main\.ts>/);
    write('dist/main.js');
    assert.match(run(join(top, 'bin/jobman')).stdout, /<[^>]*\/dist\/main\.js>/);
  });

  test('finds its tree through links, absolute and relative, one behind the other', (t) => {
    const { top, write, run } = installTree(t);
    write('node_modules/.bin/node', fakeNode('own', 'v26.10.0'), 0o755);
    write('dist/main.js');
    mkdirSync(join(top, 'x'));
    symlinkSync('../bin/jobman', join(top, 'x/relative'));
    symlinkSync(join(top, 'x/relative'), join(top, 'absolute'));
    assert.match(run(join(top, 'absolute')).stdout, /^own<.*\/dist\/main\.js>$/);
  });

  test('uses a Node on PATH that is new enough', (t) => {
    for (const version of ['v24.0.0', 'v26.10.0', 'v30.1.2', 'v100.0.0']) {
      const { top, write, run } = installTree(t);
      write('dist/main.js');
      write('path/node', fakeNode('path', version), 0o755);
      assert.match(run(join(top, 'bin/jobman')).stdout, /^path</, version);
    }
  });

  test('reports in one sentence that the Node on PATH is too old', (t) => {
    for (const version of ['v20.20.2', 'v4.9.1', 'v23.11.0']) {
      const { top, write, run } = installTree(t);
      write('dist/main.js');
      write('path/node', fakeNode('path', version), 0o755);
      const { code, stdout, stderr } = run(join(top, 'bin/jobman'));
      assert.deepEqual([code, stdout], [1, '']);
      assert.match(stderr, new RegExp(`^jobman: .*Node 24 or newer.* ${version}\\..*\n$`));
    }
  });

  test('reports in one sentence that there is no Node, or nothing to run', (t) => {
    const { top, write, run } = installTree(t);
    write('dist/main.js');
    assert.match(run(join(top, 'bin/jobman')).stderr, /^jobman: .*PATH has no Node\..*\n$/);

    const empty = installTree(t);
    empty.write('node_modules/.bin/node', fakeNode('own', 'v26.10.0'), 0o755);
    const { code, stderr } = empty.run(join(empty.top, 'bin/jobman'));
    assert.equal(code, 1);
    assert.match(stderr, /^jobman: neither dist nor src .*\n$/);
  });
});

suite('bin/tpu', () => {
  test('is jobman with one more argument in front, and passes the others unchanged', (t) => {
    const { top, write, run } = installTree(t);
    write('node_modules/.bin/node', fakeNode('own', 'v26.10.0'), 0o755);
    write('dist/main.js');
    const { code, stdout } = run(join(top, 'bin/tpu'), 'run', 'a b', '', '$HOME', '*');
    assert.equal(code, 0);
    assert.ok(stdout.endsWith('<tpu><run><a b><><$HOME><*>'), stdout);
  });

  test('finds its tree through links, absolute and relative, one behind the other', (t) => {
    const { top, write, run } = installTree(t);
    write('node_modules/.bin/node', fakeNode('own', 'v26.10.0'), 0o755);
    write('dist/main.js');
    mkdirSync(join(top, 'x'));
    symlinkSync('../bin/tpu', join(top, 'x/relative'));
    symlinkSync(join(top, 'x/relative'), join(top, 'absolute'));
    assert.match(run(join(top, 'absolute')).stdout, /^own<.*\/dist\/main\.js><tpu>$/);
  });
});

test('the launcher of the image starts Node as bin/jobman does', (t) => {
  const { top, write, run } = installTree(t);
  mkdirSync(join(top, 'node_modules/.bin'), { recursive: true });
  symlinkSync(process.execPath, join(top, 'node_modules/.bin/node'));
  write('launcher', readFileSync(join(root, 'deploy/image/launcher'), 'utf8').replaceAll('/opt/jobman', top));
  write(
    'dist/bundle/main.cjs',
    `const { MALLOC_ARENA_MAX, MALLOC_MMAP_THRESHOLD_ } = process.env;
    console.log(process.execArgv, process.argv.slice(2), MALLOC_ARENA_MAX, MALLOC_MMAP_THRESHOLD_);`,
  );
  for (const argv of [
    ['server', '--listen', 'a b'],
    ['list', ''],
  ]) {
    const { stdout } = run(join(top, 'bin/jobman'), ...argv);
    assert.match(stdout, /--max-semi-space-size/);
    assert.deepEqual(run(process.execPath, join(top, 'launcher'), ...argv), { code: 0, stdout, stderr: '' });
  }
});

test('programs of jobs do not inherit the variables with which the launcher starts a server', async (t) => {
  const launcher = readFileSync(join(root, 'bin/jobman'), 'utf8');
  const [, exported = ''] = /^ +export (MALLOC_.*)$/m.exec(launcher) ?? [];
  assert.notEqual(exported, '');
  const world = openJobWorld(t);
  const env = Object.fromEntries(exported.split(' ').map((variable) => variable.split('=') as [string, string]));
  const server = world.start(['server', '--listen', '127.0.0.1:0'], { env });
  world.atEnd(async () => {
    server.child.kill('SIGTERM');
    await server.result;
  });
  await server.waitForOutput(/The server runs at \S+\./);
  const manifest = join(world.folder, 'env.yaml');
  writeFileSync(manifest, 'local: {}\ncommand:\n  run: env | grep MALLOC_ || echo none\n');
  const id = await world.create(manifest);
  await world.waitForFinish(id);
  assert.equal(await world.output('logs', id), '[0] none\n');
});
