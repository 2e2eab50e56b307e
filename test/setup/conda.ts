/** Conda, faked: Miniconda is not ours to keep here. A few lines that unpack packages and find programs. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { CondaModule } from '../../src/setup/modules.ts';
import type { Host } from './shell.ts';

/** Knows `env list|create|update`, `tos accept` and `run`, with the arguments of conda 25. */
export const fakeConda = `#!/bin/sh
base=\${0%/bin/conda}
echo "$@" >>"$base/commands"
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

/**
 * Makes the folder `channel` of that host a channel with the package `probe` in two versions; its program says which, and in
 * which environment. Answers with the environment `fms` that wants it from the channel at that address, in that version.
 */
export function openChannel(host: Host): (version: string, address?: string) => CondaModule {
  const channel = join(host.home, 'channel');
  mkdirSync(join(channel, 'noarch'), { recursive: true });
  for (const version of ['1.0', '2.0']) {
    const folder = join(host.world.folder, `package-${version}`);
    mkdirSync(join(folder, 'bin'), { recursive: true });
    writeFileSync(join(folder, 'bin/probe'), `#!/bin/sh\necho probe ${version} in "$CONDA_PREFIX"\n`, { mode: 0o755 });
    const tar = spawnSync('tar', ['-c', '-C', folder, '-f', join(channel, 'noarch', `probe-${version}.tar`), '.']);
    assert.equal(tar.status, 0);
  }
  return (version, address = channel) => ({
    name: 'conda',
    environment: 'fms',
    config: `name: fms\nchannels:\n  - file://${address}\ndependencies:\n  - probe=${version}\n`,
  });
}
