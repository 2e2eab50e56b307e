// Freeze: a copy of a working directory, taken when a job is created, so that what runs later is what was meant then.
// Files that git ignores are left out; outside of a repository all of it is taken. Files go from a tar to a tar, which keeps
// modes, times and links, whatever bytes their names are made of.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { lstat, readdir, realpath, rm, writeFile } from 'node:fs/promises';
import { relative } from 'node:path';
import { exitCode, JobmanError, textOf } from '../../app/errors.ts';
import { countText } from '../../app/figures.ts';
import { fileModeIn, makeFolder } from '../../app/files.ts';
import { workdirAbout, workdirDiff, type FrozenWorkdir } from '../../app/workdir.ts';
import { minute, type Instant } from '../../core/time.ts';
import { runProcess } from '../process.ts';

/** The most that is copied to every worker before each first start there: code, not data. */
export const workdirMost = { files: 50_000, bytes: 512 * 1024 * 1024 };

/** Folders that nobody means by the files of a project, where no git says what is ignored. */
const leftOut = new Set(['.git', '__pycache__', '.DS_Store']);

/** How often a folder is copied in which files vanish meanwhile, before that is said. */
const copyTurns = 5;

const gitTimeout = 2 * minute;
const listMost = 64 * 1024 * 1024;
const diffMost = 32 * 1024 * 1024;

type Env = Readonly<Record<string, string | undefined>>;

/** Copies `from` into `to`, which is made. Throws JobmanError when it is none, cannot be read or is too large. */
export async function freeze(request: {
  readonly from: string;
  readonly to: string;
  readonly apart: string;
  readonly env: Env;
  readonly at: Instant;
}): Promise<FrozenWorkdir> {
  const { from, to, at } = request;
  const env: Env = { ...request.env, GIT_OPTIONAL_LOCKS: '0', LC_ALL: 'C' };
  const commit = await commitOf(from, env);
  const files = `${to}/files`;
  const found = await taken();
  const changes = commit === undefined || commit.hash === null ? new Uint8Array(0) : await diffOf(from, env);
  const about: FrozenWorkdir = {
    from,
    at,
    files: found.paths.length,
    bytes: found.bytes,
    git: commit === undefined ? null : { commit: commit.hash, branch: commit.branch, isChanged: changes.length > 0 },
  };
  if (changes.length > 0) await writeFile(workdirDiff(to), changes, { mode: fileModeIn(to) });
  await writeFile(workdirAbout(to), `${JSON.stringify(about, null, 2)}\n`, { mode: fileModeIn(to) });
  return about;

  /** An editor's or a compiler's file may be gone between the listing and the copy: then the folder is listed again. */
  async function taken(turn = 1): Promise<Awaited<ReturnType<typeof measure>>> {
    const listed = await filesOf(from, request.apart, env, commit !== undefined);
    makeFolder(files);
    try {
      await copy(from, files, listed.paths, env);
      return listed;
    } catch (error) {
      const { paths: left } = await measure(from, listed.paths);
      if (left.length === listed.paths.length || turn === copyTurns) throw error;
      await rm(files, { recursive: true, force: true });
      return taken(turn + 1);
    }
  }
}

/** Throws the JobmanError with which `freeze` would refuse that folder, without a copy. */
export async function checkWorkdir({
  from,
  apart,
  env,
}: {
  readonly from: string;
  readonly apart: string;
  readonly env: Env;
}): Promise<void> {
  const plain: Env = { ...env, GIT_OPTIONAL_LOCKS: '0', LC_ALL: 'C' };
  await filesOf(from, apart, plain, (await commitOf(from, plain)) !== undefined);
}

async function filesOf(from: string, apart: string, env: Env, isRepository: boolean): ReturnType<typeof measure> {
  const own = await pathBelow(from, apart);
  if (own === '') throw unusable(from, 'it is the folder of jobman itself, with its keys and records');
  const paths = isRepository ? await listedByGit(from, '', env) : await walk(from, '');
  const listed = await measure(
    from,
    paths.filter((path) => path !== own && !path.startsWith(`${own}/`)),
  );
  if (listed.paths.length === 0)
    throw unusable(from, isRepository ? 'git ignores all that is in it' : 'there is nothing in it');
  return listed;
}

/** The commit that is checked out there. Undefined where there is no repository, or no git. */
async function commitOf(
  from: string,
  env: Env,
): Promise<{ readonly hash: string | null; readonly branch: string | null } | undefined> {
  const inside = await git(from, env, ['rev-parse', '--is-inside-work-tree'], 4_096);
  if (inside.error !== null) return undefined;
  if (inside.exitCode !== 0) {
    const words = textFrom(inside.stderr);
    if (/not a git repository/u.test(words)) return undefined;
    throw unusable(from, `git says of it: ${words}`);
  }
  if (textFrom(inside.stdout) !== 'true') return undefined;
  const hash = await git(from, env, ['rev-parse', '--verify', '--quiet', 'HEAD'], 4_096);
  const branch = await git(from, env, ['symbolic-ref', '--short', '--quiet', 'HEAD'], 4_096);
  return {
    hash: hash.exitCode === 0 ? textFrom(hash.stdout) : null,
    branch: branch.exitCode === 0 ? textFrom(branch.stdout) : null,
  };
}

/**
 * The files that git knows there, and those that are new and not ignored. A folder in its answer is a repository of its own (a submodule, or
 * one that lies there): it is asked about itself.
 */
async function listedByGit(top: string, below: string, env: Env): Promise<readonly string[]> {
  const here = below === '' ? Buffer.from(top) : bytesOf(top, below);
  const listed = await git(
    top,
    env,
    [...(below === '' ? [] : ['-C', here.toString()]), 'ls-files', '-z', '--cached', '--others', '--exclude-standard'],
    listMost,
  );
  if (listed.exitCode !== 0 || listed.cut) throw unusable(top, `git cannot list it: ${textFrom(listed.stderr)}`);
  const names = Buffer.from(listed.stdout).toString('latin1').split('\0').filter(Boolean);
  const paths: string[] = [];
  const isFolder = folderQuestion(top);
  for (const name of new Set(names)) {
    const own = name.replace(/\/$/u, '');
    // A submodule that is not checked out answers with itself.
    if (own === '.' || own === '') continue;
    const path = below === '' ? own : `${below}/${own}`;
    // Known to git below a folder that is a link by now: what is found there is not of this directory.
    if (path.includes('/') && !(await isFolder(path.slice(0, path.lastIndexOf('/'))))) continue;
    const facts = await lstat(bytesOf(top, path)).catch(() => undefined);
    if (facts === undefined) continue;
    if (facts.isDirectory()) paths.push(...(await listedByGit(top, path, env)));
    else paths.push(path);
  }
  return paths;
}

/** Tells of paths below `top` if they lead through folders only; each folder is examined once. A link is none, nor is `..`. */
function folderQuestion(top: string): (path: string) => Promise<boolean> {
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

/** The path of a folder below another, also where one of them is named by a link; empty where it is the same folder. */
async function pathBelow(top: string, folder: string): Promise<string> {
  const [there, its] = await Promise.all([top, folder].map((path) => realpath(path).catch(() => path)));
  return Buffer.from(relative(there ?? top, its ?? folder)).toString('latin1');
}

async function walk(top: string, below: string): Promise<readonly string[]> {
  let entries;
  try {
    entries = await readdir(below === '' ? top : bytesOf(top, below), { withFileTypes: true, encoding: 'latin1' });
  } catch (error) {
    throw unusable(top, `it cannot be read: ${textOf(error)}`);
  }
  const paths: string[] = [];
  for (const entry of entries) {
    if (leftOut.has(entry.name)) continue;
    const path = below === '' ? entry.name : `${below}/${entry.name}`;
    if (entry.isDirectory()) paths.push(...(await walk(top, path)));
    else paths.push(path);
    if (paths.length > workdirMost.files) break;
  }
  return paths;
}

/** Only files and symbolic links can be copied; the rest (sockets, pipes) is of the moment. */
async function measure(
  top: string,
  paths: readonly string[],
): Promise<{ readonly paths: readonly string[]; readonly bytes: number }> {
  if (paths.length > workdirMost.files)
    throw tooLarge(top, `more than ${workdirMost.files} files`, `${workdirMost.files} files`, '');
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
  if (bytes > workdirMost.bytes) {
    const largest = sizes
      .toSorted((one, other) => other.size - one.size)
      .slice(0, 3)
      .map(({ path, size }) => `${Buffer.from(path, 'latin1').toString()} (${megabytes(size)})`);
    const has = `${megabytes(bytes)} in ${countText(kept.length, 'file')}`;
    throw tooLarge(top, has, megabytes(workdirMost.bytes), `; the largest are ${largest.join(', ')}`);
  }
  return { paths: kept.toSorted(), bytes };
}

function tooLarge(from: string, has: string, limit: string, largest: string): JobmanError {
  return new JobmanError(
    `job.workdir: ${from} has ${has}${largest}. The limit is ${limit}, because it is copied to every worker: let .gitignore leave out what the program does not need, and put data into a bucket.`,
    exitCode.usage,
  );
}

function unusable(from: string, why: string): JobmanError {
  return new JobmanError(`job.workdir: ${from} cannot be copied: ${why}`, exitCode.usage);
}

function megabytes(bytes: number): string {
  return `${(bytes / 1024 / 1024).toFixed(bytes < 10 * 1024 * 1024 ? 1 : 0)} MiB`;
}

async function copy(from: string, to: string, paths: readonly string[], env: Env): Promise<void> {
  const reader = spawn('tar', ['-c', '-f', '-', '-C', from, ...tarOfPaths], { stdio: 'pipe', env });
  const writer = spawn('tar', ['-x', '-p', '-f', '-', '-C', to], { stdio: 'pipe', env });
  const words: string[] = [];
  for (const tar of [reader, writer]) {
    tar.stderr.on('data', (chunk: Buffer) => words.length < 20 && words.push(chunk.toString()));
  }
  reader.stdin.on('error', () => undefined);
  reader.stdin.end(pathBytes(paths));
  // The reading tar is through at the end mark, and what is padding after it is nobody's: that it is not taken is no error.
  writer.stdin.on('error', () => undefined);
  writer.stdin.once('close', () => reader.stdout.resume());
  writer.stdout.resume();
  reader.stdout.pipe(writer.stdin);
  const [[read], [written]] = await Promise.all([codeOf(reader), codeOf(writer)]);
  // 1: a file changed while it was read. What was read of it is whole.
  if ((read === 0 || read === 1) && written === 0) return;
  throw unusable(from, words.join('').trim() || `tar ended with ${read ?? 'a signal'} and ${written ?? 'a signal'}`);
}

function codeOf(tar: ReturnType<typeof spawn>): Promise<[number | null]> {
  return once(tar, 'close') as Promise<[number | null]>;
}

/** Names on standard input, each ended by a NUL and none of them a flag or a folder to be gone through. */
export const tarOfPaths = ['--no-recursion', '--hard-dereference', '--null', '--verbatim-files-from', '-T', '-'];

async function diffOf(from: string, env: Env): Promise<Uint8Array> {
  const args = ['diff', '--binary', '--no-ext-diff', '--no-color', '--no-textconv', 'HEAD', '--', '.'];
  const { exitCode: code, stdout, stderr, cut } = await git(from, env, args, diffMost);
  if (code !== 0) throw unusable(from, `git cannot tell what has changed: ${textFrom(stderr)}`);
  if (!cut) return stdout;
  const note = Buffer.from(`\n(longer than ${megabytes(diffMost)}, and cut here; the files themselves are whole)\n`);
  return Buffer.concat([stdout, note]);
}

function git(folder: string, env: Env, args: readonly string[], outputMost: number): ReturnType<typeof runProcess> {
  return runProcess({ argv: ['git', ...args], cwd: folder, env, timeoutMs: gitTimeout, outputMost });
}

function bytesOf(top: string, path: string): Buffer {
  return Buffer.concat([Buffer.from(`${top}/`), Buffer.from(path, 'latin1')]);
}

function textFrom(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes).trim();
}

/** Paths as tar and xargs take them: bytes, each ended by a NUL. */
export function pathBytes(paths: readonly string[]): Uint8Array {
  return Buffer.from(paths.map((path) => `${path}\0`).join(''), 'latin1');
}
