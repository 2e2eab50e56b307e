/** The two recipes of docs/releasing.md, word for word, and what is unpacked from them elsewhere. */
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

/** GNU xargs gives one command at most this many bytes of arguments; a second `tar -c` would overwrite the archive. */
const xargsBytes = 128 * 1024;

test('both release recipes make archives that run elsewhere', (t) => {
  for (const name of ['jq', 'git', 'npm']) {
    if (!requireReal(t, name, findProgram(name))) return;
  }
  const world = openWorld(t);
  const top = join(world.folder, 'jobman');
  copySources(top);
  // A true copy: tar stores hard links as such, and those that npm made are part of what is tried here.
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

  // Nothing that is unpacked may lean on the place where it was packed.
  renameSync(top, join(world.folder, 'away'));

  for (const kind of ['full', 'dist']) {
    const elsewhere = join(world.folder, `elsewhere ${kind}`);
    mkdirSync(elsewhere);
    shell(`tar -xzf '../jobman-${version}-${kind}.tar.gz'`, elsewhere);
    const command = join(elsewhere, 'jobman/bin/jobman');
    symlinkSync(command, join(elsewhere, 'command'));
    for (const file of [command, join(elsewhere, 'command')]) {
      // The machine's own Node, whatever its age, is all that is on PATH.
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

  /** As a person would type it: a login's environment, without what npm adds for the programs it runs. */
  function shell(line: string, cwd: string): Buffer {
    return execFileSync('bash', ['-o', 'pipefail', '-c', line], { cwd, env: world.env, maxBuffer: 2 ** 26 });
  }
});
