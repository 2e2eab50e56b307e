/**
 * The package of `npm pack`, installed like `npm install --global`: the files of the package in `lib` with its
 * dependencies, and links in `bin`. npm itself would need a registry, so the test links the packages of the lockfile
 * from node_modules.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { version } from '../../src/version.ts';
import { copySources } from '../support/copy.ts';
import { findProgram, requireReal } from '../support/real.ts';
import { root } from '../support/root.ts';
import { openWorld } from '../support/world.ts';

test('the package of npm pack runs the first job from a global installation', (t) => {
  for (const name of ['npm', 'git', 'python3']) if (!requireReal(t, name, findProgram(name))) return;
  const world = openWorld(t);
  const sources = join(world.folder, 'sources');
  copySources(sources);
  symlinkSync(join(root, 'node_modules'), join(sources, 'node_modules'));
  execFileSync('npm', ['pack', '--pack-destination', world.folder], { cwd: sources, env: world.env, stdio: 'pipe' });

  const lib = join(world.folder, 'prefix/lib/node_modules');
  const bin = join(world.folder, 'prefix/bin');
  mkdirSync(lib, { recursive: true });
  mkdirSync(bin);
  execFileSync('tar', ['-xzf', join(world.folder, `jobman-${version}.tgz`), '-C', lib]);
  const installed = join(lib, 'jobman');
  execFileSync('mv', [join(lib, 'package'), installed]);
  linkDependencies(installed);
  for (const name of ['jobman', 'tpu']) symlinkSync(`../lib/node_modules/jobman/bin/${name}`, join(bin, name));

  // The machine's own Node, of any version, is on PATH too.
  const run = (...argv: readonly [string, ...string[]]) =>
    spawnSync(argv[0], argv.slice(1), {
      cwd: world.folder,
      env: { ...world.env, PATH: `${bin}:/usr/bin:/bin` },
      encoding: 'utf8',
    });
  world.atEnd(() => {
    run('jobman', 'controller', 'stop');
    run('jobman', 'emulator', 'stop');
  });
  assert.equal(run('jobman', '--version').stdout, `jobman ${version}\n`);
  assert.equal(run('tpu', 'help').status, 0);

  const example = join(installed, 'configs/quick-start.yaml');
  const { status, stdout, stderr } = run(
    'jobman',
    'create',
    example,
    '--follow',
    '--set',
    'command.env.IRIS_PACE=0.01',
  );
  assert.equal(status, 0, stderr);
  assert.match(stdout, /finished after 300 steps: final loss 0\.0643610742/);
  assert.ok(!readdirSync(installed).includes('src'), 'the bundle runs, not the source');
});

/** The packages of the lockfile that are not development dependencies. */
function linkDependencies(installed: string): void {
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
    readonly packages: Readonly<Record<string, { readonly dev?: true; readonly optional?: true }>>;
  };
  for (const [path, { dev, optional }] of Object.entries(packages)) {
    if (path === '' || dev === true || optional === true) continue;
    const link = join(installed, path);
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(join(root, path), link);
  }
  mkdirSync(join(installed, 'node_modules/.bin'));
  symlinkSync('../node/bin/node', join(installed, 'node_modules/.bin/node'));
}
