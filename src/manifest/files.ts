// Files: the context in which a manifest is read, and paths. The parser opens files only through `FileReader`, so that
// it stays a function; cli/disk.ts is the real one.

import { isAbsolute, join, normalize, resolve } from 'node:path/posix';
import type { Path } from '../schema/kinds.ts';
import type { Sections } from './sections.ts';

type FileInfo =
  | { readonly kind: 'file'; readonly bytes: number; readonly isExecutable: boolean }
  | { readonly kind: 'folder'; readonly entries: readonly string[] }
  /** A pipe or a device: readable, but its length is unknown before reading. */
  | { readonly kind: 'stream' }
  | { readonly kind: 'absent' }
  /** The file may exist but cannot be accessed. `detail` is a phrase with the reason. */
  | { readonly kind: 'unreadable'; readonly detail: string }
  /** Only the text of the manifest is known, as in a browser. */
  | { readonly kind: 'elsewhere' };

const elsewhere =
  'only the text of the manifest was sent; to send its files too, create the job on your machine: jobman create FILE';

/** For a manifest whose folder and files are unknown. */
export const noFiles: FileReader = {
  inspect: () => ({ kind: 'elsewhere' }),
  read: () => ({ detail: elsewhere }),
};

export interface FileReader {
  /** Inspects an absolute path; follows links. Never throws. */
  inspect(path: string): FileInfo;
  /** At most `maxBytes + 1` bytes, so that the caller notices a longer file. Never throws; `detail` is a reason. */
  read(path: string, maxBytes: number): { readonly bytes: Uint8Array } | { readonly detail: string };
}

/** The reason why it is not a readable file, after "the file ..."; undefined for a file or a stream. */
export function fileProblem(info: FileInfo): string | undefined {
  if (info.kind === 'absent') return 'does not exist';
  if (info.kind === 'folder') return 'is a folder';
  if (info.kind === 'elsewhere') return `cannot be read: ${elsewhere}`;
  return info.kind === 'unreadable' ? `cannot be read: ${info.detail}` : undefined;
}

/** A small text file as a whole, or a phrase with the reason, to be printed after "the file ...". */
export function readTextFile(
  files: FileReader,
  path: string,
  maxBytes: number,
): { readonly text: string } | { readonly reason: string } {
  const info = files.inspect(path);
  const problem = fileProblem(info);
  if (problem !== undefined) return { reason: problem };
  if (info.kind === 'file' && info.bytes > maxBytes) return { reason: tooLargeMessage(info.bytes, maxBytes) };
  const read = files.read(path, maxBytes);
  if ('detail' in read) return { reason: `cannot be read: ${read.detail}` };
  if (read.bytes.length > maxBytes) return { reason: tooLargeMessage(null, maxBytes) };
  if (read.bytes.includes(0)) return { reason: 'is binary, not text' };
  try {
    return { text: new TextDecoder('utf-8', { fatal: true }).decode(read.bytes) };
  } catch {
    return { reason: 'is not text in UTF-8' };
  }
}

/** Text of a file that the job stores; null without a path, undefined after a reported problem. */
export function readNamedFile(
  sections: Pick<Sections, 'problem'>,
  at: Path,
  path: string | undefined,
  maxBytes: number,
  { files, folder, home }: ManifestContext,
): string | null | undefined {
  if (path === undefined) return null;
  const file = localPath(path, folder, home);
  // Reading a FIFO or a device might never end.
  const isStream = files.inspect(file).kind === 'stream';
  const read = isStream ? { reason: 'is not a regular file' } : readTextFile(files, file, maxBytes);
  if ('text' in read) return read.text;
  sections.problem(at, `the file ${file} ${read.reason}`);
  return undefined;
}

function tooLargeMessage(bytes: number | null, maxBytes: number): string {
  return `is too large${bytes === null ? '' : ` (${formatBinarySize(bytes)})`}; the limit is ${formatBinarySize(maxBytes)}`;
}

export function formatBinarySize(bytes: number): string {
  const units = ['bytes', 'KiB', 'MiB', 'GiB'];
  let size = bytes;
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${Number.isInteger(size) ? size : size.toFixed(1)} ${units[unit]}`;
}

export interface ManifestContext {
  /** The hosts that the settings name, with this machine. Absent: any name is accepted. */
  readonly hosts?: readonly string[];
  /** The manifest's folder, absolute. Relative paths start there. */
  readonly folder: string;
  readonly home: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly files: FileReader;
  readonly project: string | null;
  /** The channels of the settings, and `mail` if they have a mail server. Absent: recipients are not checked. */
  readonly channels?: readonly string[];
  /** The user's named secrets. Absent: names of secrets are not checked. */
  readonly secretNames?: readonly string[];
  /** A file that is missing here is a problem for `create`, and a warning for `check` of a job that ran elsewhere. */
  readonly purpose: 'create' | 'check';
}

/** A path on this machine: `~/` is the user's home folder, relative paths start at the manifest's folder. */
export function localPath(text: string, folder: string, home: string): string {
  if (text === '~') return home;
  if (text.startsWith('~/')) return join(home, text.slice(2));
  return isAbsolute(text) ? normalize(text) : resolve(folder, text);
}

/** A path on a worker: absolute, or `~/…` below the login folder. Relative paths start at the login folder. */
export function remotePath(text: string): string {
  const below = text.startsWith('~/') ? text.slice(2) : text === '~' ? '' : text;
  if (isAbsolute(below)) return withoutTrailingSlash(normalize(below));
  const inside = normalize(below === '' ? '.' : below);
  return inside === '.' ? '~' : withoutTrailingSlash(`~/${inside}`);
}

/** True when the path leaves the login folder (`~/../other`) or names another user's (`~name`). */
export function leavesHome(text: string): boolean {
  return remotePath(text).startsWith('~/..') || /^~[^/]/.test(text);
}

function withoutTrailingSlash(path: string): string {
  return path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path;
}

/** Replaces a home folder written in full (`/home/NAME`, `/root`) by `~`, because the login name is unknown here. */
export function withTilde(path: string): string {
  return path.replace(/^(\/home\/[^/]+|\/root)(?=\/|$)/, '~');
}

/** True for the folder itself too. Both paths have the form that `remotePath` returns. */
export function isWithin(path: string, folder: string): boolean {
  const [inner, outer] = [withTilde(path), withTilde(folder)];
  return inner === outer || inner.startsWith(outer === '/' ? outer : `${outer}/`);
}
