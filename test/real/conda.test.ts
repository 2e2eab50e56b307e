/**
 * The module conda through all its stations on a fresh host: the installer is fetched and run, terms are accepted, the
 * environment is made from a channel on disk, the command runs in it, and it follows its file. The installer, and the conda
 * that it installs, are pretended (Miniconda is not ours to keep here): a few lines that unpack packages and find programs.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { condaStep } from '../../src/setup/environments.ts';
import { wrapCommand } from '../../src/setup/steps.ts';
import { openChannel, pretendConda } from '../setup/conda.ts';
import { openHost } from '../setup/shell.ts';

test('a fresh host gets conda, the environment of the file, and the command in it', (t) => {
  const host = openHost(t);
  const module = openChannel(host);
  // The installer is what curl brings; it takes -b (no questions), -u (over what is there) and -p (where).
  host.write(
    '~/installer',
    `[ "$1 $2 $3" = '-b -u -p' ] || exit 9\nmkdir -p "$4/bin"\ncat >"$4/bin/conda" <<'END'\n${pretendConda}END\nchmod 755 "$4/bin/conda"\n`,
  );
  host.program('curl', 'echo "$@" >>"$HOME/fetched"\nwhile [ "$1" != -o ]; do shift; done\ncp "$HOME/installer" "$2"');

  const nasty = 'probe; printf "%s|" "$HOME" \'$HOME\' "it\'s"; exit 7\n';
  for (const version of ['1.0', '2.0']) {
    const one = module(version);
    const made = host.step(condaStep(one));
    assert.deepEqual([made.code, made.applied], [0, true], made.out);
    assert.equal(host.step(condaStep(one)).applied, false);
    const ran = host.run(wrapCommand(nasty, [one], { plain: [], secret: [] }));
    const prefix = join(host.home, 'miniconda/envs/fms');
    assert.deepEqual(ran, { code: 7, out: `probe ${version} in ${prefix}\n${host.home}|$HOME|it's|` });
  }
  assert.equal(readFileSync(join(host.home, 'fetched'), 'utf8').split('\n').length, 2, 'installed once');
  assert.match(readFileSync(join(host.home, 'fetched'), 'utf8'), /Miniconda3-latest-Linux-\S+\.sh\n$/);
  const missing = host.step(condaStep(module('3.0')));
  assert.equal(missing.code, 1);
  assert.match(missing.out, /PackagesNotFoundError: probe-3\.0/);
  // What failed half-way does not pass for made.
  assert.equal(host.step(condaStep(module('3.0'))).applied, true);
});
