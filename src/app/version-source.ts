// Version source: which version is available where the settings say (`newVersion.repository`). That is a release as its recipe
// packs it (docs/releasing.md), a package.json, or a folder with either; a path, or an address of https or http.

import { execFile } from 'node:child_process';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { exitCode, JobmanError } from './errors.ts';
import { readRegularFile } from './files.ts';

export interface VersionSource {
  readonly repository: string;
  /** The end of the path of package.json in an archive, or its path in a folder. */
  readonly packageJsonPath: string;
  readonly fetch: (address: string, most: number) => Promise<Buffer>;
  readonly signal: AbortSignal;
}

const isArchive = /\.(tar\.gz|tgz)$/;

const mebibyte = 1024 * 1024;
/** A package.json is a few kilobytes; what is larger is something else. */
const packageMost = mebibyte;
/** A release has 110 MB. */
const archiveMost = 256 * mebibyte;

/** The version that is there. Throws an Error that says in a sentence why none was found. */
export async function remoteVersion(source: VersionSource): Promise<string> {
  const { repository, packageJsonPath, fetch, signal } = source;
  signal.throwIfAborted();
  const isAddress = /^https?:\/\//.test(repository);
  const called = !isAddress && statSync(repository).isDirectory() ? fileIn(repository, packageJsonPath) : repository;
  const bytes = isAddress
    ? await fetch(called, isArchive.test(called) ? archiveMost : packageMost)
    : readRegularFile(called, archiveMost);
  const isPacked = bytes[0] === 0x1f && bytes[1] === 0x8b;
  if (!isPacked && bytes.length > packageMost) {
    throw trouble(`${called} is too large for a package.json, and no .tar.gz`);
  }
  const text = isPacked ? await fileInArchive(bytes, packageJsonPath, signal) : bytes.toString('utf8');
  if (text === undefined) throw trouble(`${called} has no ${packageJsonPath}`);
  try {
    const { version } = JSON.parse(text) as { readonly version?: unknown };
    if (typeof version === 'string') return version;
  } catch {
    // Reported below: text that is no JSON names no version.
  }
  throw trouble(`the ${packageJsonPath} of ${called} names no version`);
}

/** A checkout's own package.json; else the archive that was put into the folder last. */
function fileIn(folder: string, packageJsonPath: string): string {
  const own = join(folder, packageJsonPath);
  if (existsSync(own)) return own;
  const archives = readdirSync(folder)
    .filter((name) => isArchive.test(name))
    .map((name) => ({ path: join(folder, name), at: statSync(join(folder, name)).mtimeMs }));
  const [newest] = archives.toSorted((one, other) => other.at - one.at);
  if (newest === undefined) throw trouble(`${folder} has neither ${packageJsonPath} nor a .tar.gz`);
  return newest.path;
}

/** Of several files whose path ends in that, the one that is least deep: an archive with libraries has many a package.json. */
async function fileInArchive(archive: Buffer, end: string, signal: AbortSignal): Promise<string | undefined> {
  const names = (await tar(archive, ['-tzf', '-'], archiveMost, signal)).split('\n');
  const [found] = names
    .filter((name) => `/${name}`.endsWith(`/${end}`))
    .toSorted((one, other) => one.split('/').length - other.split('/').length);
  return found === undefined ? undefined : tar(archive, ['-xzOf', '-', '--', found], packageMost, signal);
}

function tar(archive: Buffer, words: readonly string[], maxBuffer: number, signal: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = execFile('tar', words, { maxBuffer, signal }, (error, stdout, stderr) => {
      if (error === null) resolve(stdout);
      else reject(trouble(`the archive cannot be read: ${stderr.trim().split('\n')[0] || error.message}`));
    });
    // tar may end before it has read all.
    child.stdin?.on('error', () => undefined).end(archive);
  });
}

function trouble(message: string): JobmanError {
  return new JobmanError(message, exitCode.unreachable);
}
