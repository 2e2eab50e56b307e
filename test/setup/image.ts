/**
 * Images for tests, made of what this machine has, because no registry is there to be asked: Debian's static busybox alone,
 * or with this machine's Python and packages from PyPI in it.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { copyFileSync, cpSync, existsSync, mkdirSync, readdirSync, realpathSync, symlinkSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { findProgram } from '../support/real.ts';
import type { World } from '../support/world.ts';

/** The root of a small Linux with busybox and some of this machine's programs; the path of its tar. */
export function busyboxImage(world: World, ...programs: readonly string[]): string {
  const folder = busyboxRoot(world, 'busybox');
  for (const name of programs) {
    const program = findProgram(name) ?? '';
    copyFileSync(program, join(folder, 'bin', name));
    addLibraries(world, folder, [program]);
  }
  return tarOf(world, folder);
}

/**
 * The same with this machine's Python, as `python` and `python3`, and the packages of a requirements file, installed as a
 * Dockerfile would have them installed. Takes minutes where packages are large; the path of its tar.
 */
export function pythonImage(world: World, requirements: string): string {
  const folder = busyboxRoot(world, 'python');
  const [python = '', prefix = '', library = ''] = run(world, 'python3', [
    '-c',
    'import os, sys, sysconfig; print(os.path.realpath(sys._base_executable), sys.base_prefix, sysconfig.get_path("stdlib"), sep="\\n")',
  ]).split('\n');
  // At its original path, because a Python depends on it.
  const inside = (path: string): string => join(folder, path);
  mkdirSync(dirname(inside(python)), { recursive: true });
  copyFileSync(python, inside(python));
  cpSync(library, inside(library), {
    recursive: true,
    filter: (path) => !['test', 'site-packages', 'dist-packages', 'idlelib', 'ensurepip'].includes(basename(path)),
  });
  const packages = inside(join(library, 'site-packages'));
  run(world, 'python3', ['-m', 'pip', 'install', '--quiet', '--target', packages, '--requirement', requirements]);
  // Debian's own Python searches packages in another folder.
  if (prefix === '/usr') symlinkSync('site-packages', inside(join(library, 'dist-packages')));
  addLibraries(world, folder, [python, ...sharedObjects(packages), ...sharedObjects(inside(library))]);
  mkdirSync(inside('/usr/local/bin'), { recursive: true });
  for (const name of ['python', 'python3']) symlinkSync(python, inside(join('/usr/local/bin', name)));
  return tarOf(world, folder);
}

function busyboxRoot(world: World, name: string): string {
  const folder = join(world.folder, `image-${name}`);
  for (const below of ['bin', 'tmp', 'dev', 'proc', 'etc', 'root']) mkdirSync(join(folder, below), { recursive: true });
  const busybox = findProgram('busybox') ?? '';
  copyFileSync(busybox, join(folder, 'bin/busybox'));
  for (const applet of run(world, busybox, ['--list']).split('\n')) {
    if (applet !== 'busybox') symlinkSync('busybox', join(folder, 'bin', applet));
  }
  return folder;
}

function tarOf(world: World, folder: string): string {
  const tar = `${folder}.tar`;
  run(world, 'tar', ['-c', '-f', tar, '--owner=0', '--group=0', '-C', folder, '.']);
  return tar;
}

function sharedObjects(folder: string): readonly string[] {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true });
  return files.filter((file) => /\.so(\.|$)/u.test(file.name)).map((file) => join(file.parentPath, file.name));
}

/** Adds what the dynamic linker finds for these files, and the linker itself, where they are here. */
function addLibraries(world: World, folder: string, files: readonly string[]): void {
  const { stdout } = spawnSync('ldd', files, { env: world.env, encoding: 'utf8', maxBuffer: 50_000_000 });
  for (const [, path = ''] of stdout.matchAll(/^\t(?:.* => )?(\/\S+) \(0x/gmu)) {
    const inside = join(folder, path);
    // The files of the packages are there; the rest is the machine's.
    if (path.startsWith(folder) || existsSync(inside)) continue;
    mkdirSync(dirname(inside), { recursive: true });
    copyFileSync(realpathSync(path), inside);
  }
}

function run(world: World, program: string, args: readonly string[]): string {
  const ran = spawnSync(program, args, { env: world.env, encoding: 'utf8', maxBuffer: 50_000_000 });
  assert.equal(ran.status, 0, `${program} ${args.join(' ')}\n${ran.stdout}${ran.stderr}`);
  return ran.stdout.trim();
}
