/** The two recipes of docs/releasing.md, unchanged, and their archives unpacked elsewhere. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { version } from '../../src/version.ts';
import { copySources } from '../support/copy.ts';
import { findProgram, requireReal } from '../support/real.ts';
import { root } from '../support/root.ts';
import { openWorld } from '../support/world.ts';

/**
 * GNU xargs passes at most this many bytes of arguments to one command; a second `tar -c` would overwrite the archive.
 */
const xargsBytes = 128 * 1024;

test('both release recipes create archives that run elsewhere', (t) => {
  for (const name of ['jq', 'git', 'npm']) {
    if (!requireReal(t, name, findProgram(name))) return;
  }
  const world = openWorld(t);
  const top = join(world.folder, 'jobman');
  copySources(top);
  // An exact copy: tar stores hard links as such, and npm's hard links are part of the test.
  execFileSync('cp', ['-a', join(root, 'node_modules'), top]);
  rmSync(join(top, 'node_modules/.cache'), { recursive: true, force: true });

  const recipes = [...readFileSync(join(root, 'docs/releasing.md'), 'utf8').matchAll(/^\( export V=.*\)$/gm)].map(
    ([line]) => line,
  );
  assert.equal(recipes.length, 2, 'docs/releasing.md shows two recipes.');
  for (const recipe of recipes) shell(recipe, world.folder);

  const list = recipes[1]?.match(/find .* -print0/)?.[0];
  assert.ok(list);
  const { length } = shell(list, world.folder);
  t.diagnostic(`The second recipe passes ${length} bytes of names; xargs takes ${xargsBytes} at once.`);
  assert.ok(
    length < xargsBytes / 2,
    `${length} bytes of names come near to what xargs takes at once; see docs/releasing.md.`,
  );

  // The unpacked files must not depend on the folder where they were packed.
  renameSync(top, join(world.folder, 'away'));

  for (const kind of ['full', 'dist']) {
    const elsewhere = join(world.folder, `elsewhere ${kind}`);
    mkdirSync(elsewhere);
    shell(`tar -xzf '../jobman-${version}-${kind}.tar.gz'`, elsewhere);
    const command = join(elsewhere, 'jobman/bin/jobman');
    symlinkSync(command, join(elsewhere, 'command'));
    for (const file of [command, join(elsewhere, 'command')]) {
      // PATH has only the machine's own Node, of any version.
      const { status, stdout, stderr } = spawnSync(file, ['--version'], {
        cwd: '/',
        env: { PATH: '/usr/bin:/bin', HOME: world.folder },
        encoding: 'utf8',
      });
      assert.deepEqual([status, stdout, stderr], [0, `jobman ${version}\n`, ''], kind);
    }
    const has = (name: string) => existsSync(join(elsewhere, 'jobman', name));
    assert.deepEqual(['src/main.ts', 'package.json', 'dist/bundle/main.cjs'].map(has), [kind === 'full', true, true]);
    assert.ok(readdirSync(join(elsewhere, 'jobman')).some((name) => name.endsWith('.md')));
    rmSync(elsewhere, { recursive: true });
  }

  /** The environment of a login, without npm's additions. */
  function shell(line: string, cwd: string): Buffer {
    return execFileSync('bash', ['-o', 'pipefail', '-c', line], { cwd, env: world.env, maxBuffer: 2 ** 26 });
  }
});
