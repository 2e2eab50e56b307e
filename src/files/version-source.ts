// Version source: the version at the configured source (`newVersion.repository`): a release archive
// (docs/releasing.md), a package.json, or a folder with either; a path or an http(s) URL.

import { execFile } from 'node:child_process';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { exitCode, JobmanError } from '../app/errors.ts';
import { readRegularFile } from './files.ts';

export interface VersionSource {
  readonly repository: string;
  /** In an archive, the end of the path of package.json; in a folder, its path. */
  readonly packageJsonPath: string;
  readonly fetch: (address: string, maxBytes: number) => Promise<Buffer>;
  readonly signal: AbortSignal;
}

const isArchive = /\.(tar\.gz|tgz)$/;

const mebibyte = 1024 * 1024;
/** A package.json has a few kilobytes; a larger file is something else. */
const maxPackageBytes = mebibyte;
/** A release has 110 MB. */
const maxArchiveBytes = 256 * mebibyte;

/** Throws an Error with a sentence if no version was found. */
export async function remoteVersion(source: VersionSource): Promise<string> {
  const { repository, packageJsonPath, fetch, signal } = source;
  signal.throwIfAborted();
  const isAddress = /^https?:\/\//.test(repository);
  const path =
    !isAddress && statSync(repository).isDirectory() ? findVersionFile(repository, packageJsonPath) : repository;
  const bytes = isAddress
    ? await fetch(path, isArchive.test(path) ? maxArchiveBytes : maxPackageBytes)
    : readRegularFile(path, maxArchiveBytes);
  const isPacked = bytes[0] === 0x1f && bytes[1] === 0x8b;
  if (!isPacked && bytes.length > maxPackageBytes) {
    throw sourceError(`${path} is too large for a package.json and is not a .tar.gz`);
  }
  const text = isPacked ? await fileInArchive(bytes, packageJsonPath, signal) : bytes.toString('utf8');
  if (text === undefined) throw sourceError(`${path} has no ${packageJsonPath}`);
  try {
    const { version } = JSON.parse(text) as { readonly version?: unknown };
    if (typeof version === 'string') return version;
  } catch {
    // Reported below: invalid JSON names no version.
  }
  throw sourceError(`the ${packageJsonPath} of ${path} has no version`);
}

/** A checkout's own package.json, else the newest archive in the folder. */
function findVersionFile(folder: string, packageJsonPath: string): string {
  const own = join(folder, packageJsonPath);
  if (existsSync(own)) return own;
  const archives = readdirSync(folder)
    .filter((name) => isArchive.test(name))
    .map((name) => ({ path: join(folder, name), at: statSync(join(folder, name)).mtimeMs }));
  const [newest] = archives.toSorted((one, other) => other.at - one.at);
  if (newest === undefined) throw sourceError(`${folder} has neither ${packageJsonPath} nor a .tar.gz`);
  return newest.path;
}

/** The match with the shortest path: an archive with libraries has many package.json files. */
async function fileInArchive(archive: Buffer, end: string, signal: AbortSignal): Promise<string | undefined> {
  const names = (await tar(archive, ['-tzf', '-'], maxArchiveBytes, signal)).split('\n');
  const [found] = names
    .filter((name) => `/${name}`.endsWith(`/${end}`))
    .toSorted((one, other) => one.split('/').length - other.split('/').length);
  return found === undefined ? undefined : tar(archive, ['-xzOf', '-', '--', found], maxPackageBytes, signal);
}

function tar(archive: Buffer, args: readonly string[], maxBuffer: number, signal: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = execFile('tar', args, { maxBuffer, signal }, (error, stdout, stderr) => {
      if (error === null) resolve(stdout);
      else reject(sourceError(`the archive cannot be read: ${stderr.trim().split('\n')[0] || error.message}`));
    });
    child.stdin?.on('error', () => undefined).end(archive);
  });
}

function sourceError(message: string): JobmanError {
  return new JobmanError(message, exitCode.unreachable);
}
