/**
 * The module conda through all its stations on a fresh host: the installer is fetched and run, terms are accepted, the
 * environment is made from a channel on disk, the command runs in it, and it follows its file. The installer, and the conda
 * that it installs, are pretended (Miniconda is not ours to keep here): a few lines that unpack packages and find programs.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { condaStep } from '../../src/setup/conda.ts';
import type { CondaModule } from '../../src/setup/modules.ts';
import { wrapCommand } from '../../src/setup/steps.ts';
import { openHost } from '../setup/shell.ts';

/** Knows `env list|create|update`, `tos accept` and `run`, with the words that conda 25 takes. */
const pretendConda = `#!/bin/sh
base=\${0%/bin/conda}
echo "$@" >>"$base/said"
unpack() {
  channel=$(sed -n 's|^ *- file://||p' "$2")
  for package in $(sed -n 's/^ *- \\([a-z-]*\\)=\\([0-9.]*\\)$/\\1-\\2/p' "$2"); do
    [ -f "$channel/noarch/$package.tar" ] || { echo "PackagesNotFoundError: $package"; return 1; }
    mkdir -p "$base/envs/$1" && tar -x -C "$base/envs/$1" -f "$channel/noarch/$package.tar" || return 1
  done
}
case "$1 $2" in
  'tos --help') exit 0 ;;
  'tos accept') touch "$base/accepted" ;;
  'env list') echo '# conda environments:'; for one in "$base"/envs/*/; do [ -d "$one" ] && echo "$(basename "$one")    $one"; done; exit 0 ;;
  'env create') [ -f "$base/accepted" ] || { echo CondaToSNonInteractiveError; exit 1; }; unpack "$4" "$6" ;;
  'env update') rm -rf "$base/envs/$4"; unpack "$4" "$6" ;;
  'run --no-capture-output') env=$base/envs/$4; shift 4; PATH=$env/bin:$PATH CONDA_PREFIX=$env exec "$@" ;;
  *) echo "conda: error: $*" >&2; exit 2 ;;
esac
`;

test('a fresh host gets conda, the environment of the file, and the command in it', (t) => {
  const host = openHost(t);
  const channel = join(host.home, 'channel');
  mkdirSync(join(channel, 'noarch'), { recursive: true });
  for (const version of ['1.0', '2.0']) {
    const folder = join(host.world.folder, `package-${version}`);
    mkdirSync(join(folder, 'bin'), { recursive: true });
    writeFileSync(join(folder, 'bin/probe'), `#!/bin/sh\necho probe ${version} in "$CONDA_PREFIX"\n`, { mode: 0o755 });
    const tar = spawnSync('tar', ['-c', '-C', folder, '-f', join(channel, 'noarch', `probe-${version}.tar`), '.']);
    assert.equal(tar.status, 0);
  }
  // The installer is what curl brings; it takes -b (no questions), -u (over what is there) and -p (where).
  host.write(
    '~/installer',
    `[ "$1 $2 $3" = '-b -u -p' ] || exit 9\nmkdir -p "$4/bin"\ncat >"$4/bin/conda" <<'END'\n${pretendConda}END\nchmod 755 "$4/bin/conda"\n`,
  );
  host.program('curl', 'echo "$@" >>"$HOME/fetched"\nwhile [ "$1" != -o ]; do shift; done\ncp "$HOME/installer" "$2"');

  const module = (version: string): CondaModule => ({
    name: 'conda',
    environment: 'fms',
    config: `name: fms\nchannels:\n  - file://${channel}\ndependencies:\n  - probe=${version}\n`,
  });
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
