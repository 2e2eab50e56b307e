// Freeze: copies a working directory when a job is created, so that a later run uses the files of that time. Files that
// git ignores are skipped; outside of a repository everything is copied. Files go from one tar to another, which keeps
// modes, times and links, whatever bytes their names contain.

import { lstat, readdir, realpath, rm, writeFile } from 'node:fs/promises';
import { relative } from 'node:path';
import { exitCode, JobmanError, messageOf } from '../../app/errors.ts';
import { pluralize } from '../../app/format.ts';
import { fileModeIn, makeFolder } from '../../files/files.ts';
import type { FrozenWorkdir } from '../../app/workdir.ts';
import { workdirAbout, workdirDiff } from '../../files/job-folder.ts';
import { minute, type Instant } from '../../core/model/time.ts';
import { runProcess } from '../process.ts';

/** Limits of a copy that goes to every worker before each first start there: code, not data. */
export const workdirLimits = { files: 50_000, bytes: 512 * 1024 * 1024 };

/** Folders that belong to no project, for use without git's ignore rules. */
const ignoredNames = new Set(['.git', '__pycache__', '.DS_Store']);

const maxCopyTries = 5;

const gitTimeout = 2 * minute;
const copyTimeout = 10 * minute;
const maxListBytes = 64 * 1024 * 1024;
const maxDiffBytes = 32 * 1024 * 1024;

type Env = Readonly<Record<string, string | undefined>>;

/** Throws JobmanError when `from` is no folder, cannot be read or is too large. */
export async function freeze(request: {
  readonly from: string;
  readonly to: string;
  readonly excluded: string;
  readonly env: Env;
  readonly at: Instant;
}): Promise<FrozenWorkdir> {
  const { from, to, at } = request;
  const env: Env = { ...request.env, GIT_OPTIONAL_LOCKS: '0', LC_ALL: 'C' };
  const commit = await commitOf(from, env);
  const files = `${to}/files`;
  const found = await copyFiles();
  const changes = commit === undefined || commit.hash === null ? new Uint8Array(0) : await diffOf(from, env);
  const about: FrozenWorkdir = {
    from,
    copiedAt: at,
    files: found.paths.length,
    bytes: found.bytes,
    git: commit === undefined ? null : { commit: commit.hash, branch: commit.branch, changed: changes.length > 0 },
  };
  if (changes.length > 0) await writeFile(workdirDiff(to), changes, { mode: fileModeIn(to) });
  await writeFile(workdirAbout(to), `${JSON.stringify(about, null, 2)}\n`, { mode: fileModeIn(to) });
  return about;

  /** A temporary file may vanish between the listing and the copy: then the folder is listed again. */
  async function copyFiles(tries = 1): Promise<Awaited<ReturnType<typeof measure>>> {
    const listed = await listFiles(from, request.excluded, env, commit !== undefined);
    makeFolder(files);
    try {
      await copy(from, files, listed.paths, env);
      return listed;
    } catch (error) {
      const { paths: left } = await measure(from, listed.paths);
      if (left.length === listed.paths.length || tries === maxCopyTries) throw error;
      await rm(files, { recursive: true, force: true });
      return copyFiles(tries + 1);
    }
  }
}

/** Throws the JobmanError with which `freeze` would refuse that folder. */
export async function checkWorkdir(request: Omit<Parameters<typeof freeze>[0], 'to' | 'at'>): Promise<void> {
  const { from, excluded, env } = request;
  const plain: Env = { ...env, GIT_OPTIONAL_LOCKS: '0', LC_ALL: 'C' };
  await listFiles(from, excluded, plain, (await commitOf(from, plain)) !== undefined);
}

async function listFiles(from: string, excluded: string, env: Env, isRepository: boolean): ReturnType<typeof measure> {
  const own = await pathBelow(from, excluded);
  if (own === '') throw unusable(from, 'it is the folder of jobman itself, with its keys and database');
  const paths = isRepository ? await listWithGit(from, '', env) : await listFolder(from, '');
  const listed = await measure(
    from,
    paths.filter((path) => path !== own && !path.startsWith(`${own}/`)),
  );
  if (listed.paths.length === 0) throw unusable(from, isRepository ? 'git ignores all its files' : 'it is empty');
  return listed;
}

/** Undefined without a repository or without git. */
async function commitOf(
  from: string,
  env: Env,
): Promise<{ readonly hash: string | null; readonly branch: string | null } | undefined> {
  const inside = await git(from, env, ['rev-parse', '--is-inside-work-tree'], 4_096);
  if (inside.error !== null) return undefined;
  if (inside.exitCode !== 0) {
    const errors = textFrom(inside.stderr);
    if (/not a git repository/u.test(errors)) return undefined;
    throw unusable(from, `git reports: ${errors}`);
  }
  if (textFrom(inside.stdout) !== 'true') return undefined;
  const hash = await git(from, env, ['rev-parse', '--verify', '--quiet', 'HEAD'], 4_096);
  const branch = await git(from, env, ['symbolic-ref', '--short', '--quiet', 'HEAD'], 4_096);
  return {
    hash: hash.exitCode === 0 ? textFrom(hash.stdout) : null,
    branch: branch.exitCode === 0 ? textFrom(branch.stdout) : null,
  };
}

/** Tracked and new, not ignored files. A folder in git's answer is a nested repository, which is listed separately. */
async function listWithGit(top: string, below: string, env: Env): Promise<readonly string[]> {
  const here = below === '' ? Buffer.from(top) : bytesOf(top, below);
  const listed = await git(
    top,
    env,
    [...(below === '' ? [] : ['-C', here.toString()]), 'ls-files', '-z', '--cached', '--others', '--exclude-standard'],
    maxListBytes,
  );
  if (listed.exitCode !== 0 || listed.truncated)
    throw unusable(top, `git cannot list its files: ${textFrom(listed.stderr)}`);
  const names = Buffer.from(listed.stdout).toString('latin1').split('\0').filter(Boolean);
  const paths: string[] = [];
  const isFolder = createFolderCheck(top);
  for (const name of new Set(names)) {
    const own = name.replace(/\/$/u, '');
    // A submodule that is not checked out lists itself.
    if (own === '.' || own === '') continue;
    const path = below === '' ? own : `${below}/${own}`;
    // git tracks this path below a folder that has become a link: its target is outside of this directory.
    if (path.includes('/') && !(await isFolder(path.slice(0, path.lastIndexOf('/'))))) continue;
    const facts = await lstat(bytesOf(top, path)).catch(() => undefined);
    if (facts === undefined) continue;
    if (facts.isDirectory()) paths.push(...(await listWithGit(top, path, env)));
    else paths.push(path);
  }
  return paths;
}

/** True for a path that leads through folders only, not through links or `..`. Examines each folder once. */
function createFolderCheck(top: string): (path: string) => Promise<boolean> {
  const known = new Map<string, Promise<boolean>>();
  const examine = async (path: string): Promise<boolean> => {
    const slash = path.lastIndexOf('/');
    if (slash >= 0 && !(await isFolder(path.slice(0, slash)))) return false;
    if (path.slice(slash + 1) === '..') return false;
    const facts = await lstat(bytesOf(top, path)).catch(() => undefined);
    return facts?.isDirectory() === true;
  };
  const isFolder = (path: string): Promise<boolean> => {
    const answer = known.get(path) ?? examine(path);
    known.set(path, answer);
    return answer;
  };
  return isFolder;
}

/** The path of `folder` below `top`, with links resolved; empty if both are the same folder. */
async function pathBelow(top: string, folder: string): Promise<string> {
  const [there, its] = await Promise.all([top, folder].map((path) => realpath(path).catch(() => path)));
  return Buffer.from(relative(there ?? top, its ?? folder)).toString('latin1');
}

async function listFolder(top: string, below: string): Promise<readonly string[]> {
  let entries;
  try {
    entries = await readdir(below === '' ? top : bytesOf(top, below), { withFileTypes: true, encoding: 'latin1' });
  } catch (error) {
    throw unusable(top, `it cannot be read: ${messageOf(error)}`);
  }
  const paths: string[] = [];
  for (const entry of entries) {
    if (ignoredNames.has(entry.name)) continue;
    const path = below === '' ? entry.name : `${below}/${entry.name}`;
    if (entry.isDirectory()) paths.push(...(await listFolder(top, path)));
    else paths.push(path);
    if (paths.length > workdirLimits.files) break;
  }
  return paths;
}

/** Keeps only files and symbolic links; others (sockets, pipes) cannot be copied. */
async function measure(
  top: string,
  paths: readonly string[],
): Promise<{ readonly paths: readonly string[]; readonly bytes: number }> {
  if (paths.length > workdirLimits.files)
    throw tooLarge(top, `more than ${workdirLimits.files} files`, `${workdirLimits.files} files`, '');
  const kept: string[] = [];
  const sizes: { readonly path: string; readonly size: number }[] = [];
  let bytes = 0;
  for (const path of paths) {
    const facts = await lstat(bytesOf(top, path)).catch(() => undefined);
    if (facts === undefined || !(facts.isFile() || facts.isSymbolicLink())) continue;
    kept.push(path);
    bytes += facts.size;
    sizes.push({ path, size: facts.size });
  }
  if (bytes > workdirLimits.bytes) {
    const largest = sizes
      .toSorted((one, other) => other.size - one.size)
      .slice(0, 3)
      .map(({ path, size }) => `${Buffer.from(path, 'latin1').toString()} (${megabytes(size)})`);
    const has = `${megabytes(bytes)} in ${pluralize(kept.length, 'file')}`;
    throw tooLarge(top, has, megabytes(workdirLimits.bytes), `; the largest are ${largest.join(', ')}`);
  }
  return { paths: kept.toSorted(), bytes };
}

function tooLarge(from: string, has: string, limit: string, largest: string): JobmanError {
  return new JobmanError(
    `job.workdir: ${from} has ${has}${largest}. The limit is ${limit}, because jobman copies it to every worker: exclude files with .gitignore, and put data in a bucket.`,
    exitCode.usage,
  );
}

function unusable(from: string, why: string): JobmanError {
  return new JobmanError(`job.workdir: ${from} cannot be copied: ${why}`, exitCode.usage);
}

function megabytes(bytes: number): string {
  return `${(bytes / 1024 / 1024).toFixed(bytes < 10 * 1024 * 1024 ? 1 : 0)} MiB`;
}

/** The reading tar ends with 1 if a file changed while it was read. The archive is still complete. */
const copyScript = `from=$1 to=$2
shift 2
code=$({ { tar -c -f - -C "$from" "$@"; echo $? >&3; } | tar -x -p -f - -C "$to" >&2; } 3>&1) && [ "$code" -le 1 ]`;

async function copy(from: string, to: string, paths: readonly string[], env: Env): Promise<void> {
  const result = await runProcess({
    argv: ['sh', '-c', copyScript, 'sh', from, to, ...tarPathOptions],
    stdin: joinPaths(paths),
    env,
    timeoutMs: copyTimeout,
    maxOutputBytes: 4_096,
  });
  if (result.exitCode === 0) return;
  if (result.timedOut) throw unusable(from, `the copy took longer than ${copyTimeout / minute} minutes`);
  throw unusable(from, textFrom(result.stderr) || (result.error ?? `tar ended with ${result.exitCode ?? 'a signal'}`));
}

/** Names on standard input, each ended by a NUL; none is taken for a flag, and no folder is entered. */
export const tarPathOptions = ['--no-recursion', '--hard-dereference', '--null', '--verbatim-files-from', '-T', '-'];

async function diffOf(from: string, env: Env): Promise<Uint8Array> {
  const args = ['diff', '--binary', '--no-ext-diff', '--no-color', '--no-textconv', 'HEAD', '--', '.'];
  const { exitCode: code, stdout, stderr, truncated: cut } = await git(from, env, args, maxDiffBytes);
  if (code !== 0) throw unusable(from, `git cannot compute the changes: ${textFrom(stderr)}`);
  if (!cut) return stdout;
  const note = Buffer.from(`\n(truncated at ${megabytes(maxDiffBytes)}; the copied files are complete)\n`);
  return Buffer.concat([stdout, note]);
}

function git(folder: string, env: Env, args: readonly string[], maxOutputBytes: number): ReturnType<typeof runProcess> {
  return runProcess({ argv: ['git', ...args], cwd: folder, env, timeoutMs: gitTimeout, maxOutputBytes });
}

function bytesOf(top: string, path: string): Buffer {
  return Buffer.concat([Buffer.from(`${top}/`), Buffer.from(path, 'latin1')]);
}

function textFrom(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes).trim();
}

/** Paths in the form that tar and xargs take: bytes, each ended by a NUL. */
export function joinPaths(paths: readonly string[]): Uint8Array {
  return Buffer.from(paths.map((path) => `${path}\0`).join(''), 'latin1');
}
