// Freeze: stores a copy of a working directory as blobs when a job is created, so that a later run uses the files of that
// time. Files that git ignores are skipped; outside of a repository everything is copied.

import { createHash } from 'node:crypto';
import { constants, type Stats } from 'node:fs';
import { lstat, open, readFile, readlink, realpath } from 'node:fs/promises';
import { relative } from 'node:path';
import type { Client } from '../../app/client.ts';
import { mapConcurrent } from '../../app/concurrency.ts';
import { exitCode, JobmanError, messageOf } from '../../app/errors.ts';
import { pluralize } from '../../app/format.ts';
import { contentsOf, encodeTree, partBytes, type TreeEntry, type TreeFile } from '../../app/tree.ts';
import type { Digest } from '../../catalogue/digest.ts';
import { upload } from '../../app/upload.ts';
import type { UploadedWorkdir } from '../../app/workdir.ts';
import { bytesOf, listFolder } from '../../files/workdir-paths.ts';
import { openWorkdirIndex, type WorkdirIndex } from '../../files/workdir-index.ts';
import { minute, type Instant } from '../../core/model/time.ts';
import { runProcess } from '../process.ts';

/** Of a copy that goes to every worker before each first start there: code, not data. */
const maxFiles = 50_000;

/** Folders that belong to no project, for use without git's ignore rules. */
const ignoredNames = new Set(['.git', '__pycache__', '.DS_Store']);

const maxCopyTries = 5;
const maxConcurrent = 16;
/** Read and sent together: more calls are slower, because each makes its contents durable. */
const maxBatchBytes = 32 * 1024 * 1024;

const gitTimeout = 2 * minute;
const maxListBytes = 64 * 1024 * 1024;
const maxDiffBytes = 32 * 1024 * 1024;

type Env = Readonly<Record<string, string | undefined>>;

interface Folder {
  readonly from: string;
  /** The folder of jobman, which no copy contains. */
  readonly excluded: string;
  readonly maxBytes: number;
  readonly env: Env;
}

type BlobClient = Pick<Client, 'hasBlobs' | 'putBlobs'>;

/** Throws JobmanError when `from` is not a folder, cannot be read or is too large. */
export async function freeze(
  request: Folder & {
    readonly client: BlobClient;
    /** The folder of the indexes; null for none. */
    readonly indexes: string | null;
    readonly at: Instant;
  },
): Promise<UploadedWorkdir> {
  const { from, client, at } = request;
  const env: Env = { ...request.env, GIT_OPTIONAL_LOCKS: '0', LC_ALL: 'C' };
  const commit = await commitOf(from, env);
  const index = openWorkdirIndex(request.indexes, from);
  const { entries, bytes } = await storeFiles();
  index.save();
  const changes = commit === undefined || commit.hash === null ? new Uint8Array(0) : await diffOf(from, env);
  const hasChanges = changes.length > 0;
  const [tree, diff] = await upload(client, [encodeTree(entries), ...(hasChanges ? [changes] : [])]);
  if (tree === undefined) throw new Error('the list of files was not stored');
  const git = commit === undefined ? null : { commit: commit.hash, branch: commit.branch, changed: hasChanges };
  return { tree, changes: diff ?? null, about: { from, copiedAt: at, files: entries.length, bytes, git } };

  /** A temporary file may vanish between the listing and the copy: then the folder is listed again. */
  async function storeFiles(tries = 1): Promise<{ readonly entries: readonly TreeEntry[]; readonly bytes: number }> {
    const { files, bytes: size } = await listFiles({ ...request, env }, commit !== undefined);
    await storeContents(from, files, index, client);
    const all = await mapConcurrent(files, maxConcurrent, (file) => entryOf(from, file, index));
    const found = all.filter((entry) => entry !== undefined);
    if (found.length < files.length && tries < maxCopyTries) return storeFiles(tries + 1);
    return { entries: found, bytes: size };
  }
}

/** Sends the contents that are not stored. Reads the files that have changed since the index knew them, and these. */
async function storeContents(
  from: string,
  listed: readonly ListedFile[],
  index: WorkdirIndex,
  client: BlobClient,
): Promise<void> {
  const files = listed.filter(({ stats }) => stats.isFile());
  const known = new Map(
    files.flatMap(({ path, stats }) => {
      const entry = index.find(path, stats);
      return entry === undefined ? [] : contentsOf(entry).map(({ digest, size }) => [digest, size] as const);
    }),
  );
  const stored = new Set(await client.hasBlobs([...known.keys()], [...known.values()]));
  const isStored = ({ path, stats }: ListedFile): boolean => {
    const entry = index.find(path, stats);
    return entry !== undefined && contentsOf(entry).every(({ digest }) => stored.has(digest));
  };
  const waiting = files.filter((file) => !isStored(file));
  while (waiting.length > 0) {
    const [next] = waiting;
    if (next !== undefined && next.stats.size > partBytes) {
      waiting.shift();
      const content = await storeParts(from, next.path, client);
      if (content === undefined) index.remove(next.path);
      else index.add(next.path, next.stats, content);
      continue;
    }
    let bytes = 0;
    const end = waiting.findIndex(({ stats }) => stats.size > partBytes || (bytes += stats.size) > maxBatchBytes);
    const batch = waiting.splice(0, end === -1 ? waiting.length : end);
    const contents = await mapConcurrent(batch, maxConcurrent, ({ path }) => readContent(from, path));
    const read = batch.flatMap(({ path, stats }, at) => {
      const content = contents[at];
      if (content !== undefined) return [{ path, stats, content }];
      index.remove(path);
      return [];
    });
    const digests = await upload(
      client,
      read.map(({ content }) => content),
    );
    for (const [at, digest] of digests.entries()) {
      const file = read[at];
      if (file !== undefined) index.add(file.path, file.stats, { digest, size: file.content.length });
    }
  }
}

const openFlags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/** Sends a file that is too large for the memory of a server, as it is now. Undefined as in `readContent`. */
async function storeParts(
  from: string,
  path: string,
  client: BlobClient,
): Promise<Pick<TreeFile, 'digest' | 'size' | 'parts'> | undefined> {
  const file = await open(bytesOf(from, path), openFlags).catch((error: unknown) => vanished(from, error));
  if (file === undefined) return undefined;
  const hash = createHash('sha256');
  const parts: Digest[] = [];
  let size = 0;
  try {
    for (;;) {
      const part = Buffer.allocUnsafe(partBytes);
      let length = 0;
      for (let count = -1; count !== 0 && length < partBytes; length += count)
        count = (await file.read(part, length, partBytes - length, size + length)).bytesRead;
      if (length === 0) break;
      const bytes = part.subarray(0, length);
      hash.update(bytes);
      parts.push(...(await upload(client, [bytes])));
      size += length;
      if (length < partBytes) break;
    }
  } catch (error) {
    return vanished(from, error);
  } finally {
    await file.close();
  }
  const digest: Digest = `sha256:${hash.digest('hex')}`;
  return parts.length === 0 ? undefined : { digest, size, parts };
}

/** Undefined if the file has vanished or become something else. Follows no link, and does not wait for a pipe. */
async function readContent(from: string, path: string): Promise<Uint8Array | undefined> {
  try {
    return await readFile(bytesOf(from, path), { flag: openFlags });
  } catch (error) {
    return vanished(from, error);
  }
}

/** Undefined if the path has vanished. Throws JobmanError if it cannot be examined: a copy without it would be incomplete. */
async function factsOf(top: string, path: string): Promise<Stats | undefined> {
  return lstat(bytesOf(top, path)).catch((error: unknown) => vanished(top, error));
}

function vanished(from: string, error: unknown): undefined {
  const isGone = ['ENOENT', 'ENOTDIR', 'EISDIR', 'ELOOP', 'EINVAL'].includes(
    String((error as { code?: unknown }).code),
  );
  if (!isGone) throw unusable(from, messageOf(error));
}

async function entryOf(from: string, { path, stats }: ListedFile, index: WorkdirIndex): Promise<TreeEntry | undefined> {
  if (stats.isSymbolicLink()) {
    const target = await readlink(bytesOf(from, path), 'latin1').catch((error: unknown) => vanished(from, error));
    return target === undefined ? undefined : { path, target };
  }
  const stored = index.find(path, stats);
  if (stored === undefined) return undefined;
  return { path, mode: stats.mode & 0o7777, changedAtSeconds: Math.floor(stats.mtimeMs / 1000), ...stored };
}

/** Throws the JobmanError with which `freeze` would refuse that folder. */
export async function checkWorkdir(folder: Folder): Promise<void> {
  const env: Env = { ...folder.env, GIT_OPTIONAL_LOCKS: '0', LC_ALL: 'C' };
  await listFiles({ ...folder, env }, (await commitOf(folder.from, env)) !== undefined);
}

async function listFiles({ from, excluded, env, maxBytes }: Folder, isRepository: boolean): ReturnType<typeof measure> {
  const own = await pathBelow(from, excluded);
  if (own === '') throw unusable(from, 'it is the folder of jobman itself, with its keys and database');
  const paths = isRepository ? await listWithGit(from, '', env) : await listWithoutGit(from);
  const listed = await measure(
    from,
    paths.filter((path) => path !== own && !path.startsWith(`${own}/`)),
    maxBytes,
  );
  if (listed.files.length === 0) throw unusable(from, isRepository ? 'git ignores all its files' : 'it is empty');
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
  // git reports it as a warning, and leaves out the files of that folder.
  const warning = /^warning: (could not open directory .+)$/mu.exec(textFrom(listed.stderr))?.[1];
  if (warning !== undefined) throw unusable(top, `git ${warning}`);
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
    const facts = await factsOf(top, path);
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
    const facts = await factsOf(top, path);
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

async function listWithoutGit(from: string): Promise<readonly string[]> {
  try {
    return await listFolder(from, '', { ignored: ignoredNames, max: maxFiles });
  } catch (error) {
    throw unusable(from, `it cannot be read: ${messageOf(error)}`);
  }
}

interface ListedFile {
  readonly path: string;
  readonly stats: Stats;
}

/** Keeps only files and symbolic links; others (sockets, pipes) cannot be copied. */
async function measure(
  top: string,
  paths: readonly string[],
  maxBytes: number,
): Promise<{ readonly files: readonly ListedFile[]; readonly bytes: number }> {
  if (paths.length > maxFiles) throw tooLarge(top, `more than ${maxFiles} files`, `${maxFiles} files`, '');
  const files: ListedFile[] = [];
  let bytes = 0;
  for (const path of paths.toSorted()) {
    const stats = await factsOf(top, path);
    if (stats === undefined || !(stats.isFile() || stats.isSymbolicLink())) continue;
    files.push({ path, stats });
    bytes += stats.size;
  }
  if (bytes > maxBytes) {
    const largest = files
      .toSorted((one, other) => other.stats.size - one.stats.size)
      .slice(0, 3)
      .map(({ path, stats }) => `${Buffer.from(path, 'latin1').toString()} (${megabytes(stats.size)})`);
    const has = `${megabytes(bytes)} in ${pluralize(files.length, 'file')}`;
    throw tooLarge(
      top,
      has,
      `${megabytes(maxBytes)} (the setting workdir.maxMiB)`,
      `; the largest are ${largest.join(', ')}`,
    );
  }
  return { files, bytes };
}

function tooLarge(from: string, has: string, limit: string, largest: string): JobmanError {
  return new JobmanError(
    `job.workdir: ${from} has ${has}${largest}. The limit is ${limit}, because jobman copies it to every worker: exclude files with .gitignore, which needs a git repository, and keep data and checkpoints outside of the directory.`,
    exitCode.usage,
  );
}

function unusable(from: string, why: string): JobmanError {
  return new JobmanError(`job.workdir: ${from} cannot be copied: ${why}`, exitCode.usage);
}

function megabytes(bytes: number): string {
  return `${(bytes / 1024 / 1024).toFixed(bytes < 10 * 1024 * 1024 ? 1 : 0)} MiB`;
}

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

function textFrom(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes).trim();
}
