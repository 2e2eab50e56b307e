/** A small Debian as a tar, for images: made once by debootstrap from the mirror of this machine, outside the checkout. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { findProgram } from './real.ts';

const codename = 'bookworm';
const packages = ['ca-certificates', 'libatomic1', 'libstdc++6', 'openssh-client', 'procps', 'systemd', 'dbus'];

/** True where debootstrap may run. */
export function hasDebootstrap(): boolean {
  return findProgram('debootstrap') !== undefined && process.getuid?.() === 0;
}

/** The path of the tar. The first call takes a minute. */
export function debianTar(): string {
  const tar = join(homedir(), '.cache', 'jobman', `debian-${codename}.tar`);
  if (existsSync(tar)) return tar;
  mkdirSync(dirname(tar), { recursive: true });
  const folder = mkdtempSync(join(tmpdir(), 'jobman-debian-'));
  try {
    const repositories = run('apt-get', [
      'indextargets',
      '--format',
      '$(CODENAME) $(REPO_URI)',
      'Created-By: Packages',
    ]);
    const [, mirror] = new RegExp(`^${codename} (\\S+)$`, 'm').exec(repositories) ?? [];
    if (mirror === undefined) throw new Error(`apt-get knows no mirror of ${codename}`);
    run('debootstrap', ['--variant=minbase', `--include=${packages.join()}`, codename, join(folder, 'root'), mirror]);
    run('tar', ['-cf', join(folder, 'tar'), '-C', join(folder, 'root'), '--exclude=./dev/*', '.']);
    // Another file system needs a copy, which must be complete before it has its name.
    run('cp', [join(folder, 'tar'), `${tar}.${process.pid}`]);
    renameSync(`${tar}.${process.pid}`, tar);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  return tar;
}

function run(program: string, args: readonly string[]): string {
  const path = `${process.env['PATH'] ?? ''}:/usr/sbin:/sbin`;
  return execFileSync(program, args, { encoding: 'utf8', env: { ...process.env, PATH: path }, maxBuffer: 1 << 26 });
}
