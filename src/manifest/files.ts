// Files: what a manifest is read against, and paths. Parsing opens the few files whose content becomes part of a job through
// `FileDoor`, so that it stays a function; cli/disk.ts is the real one.

import { isAbsolute, join, normalize, resolve } from 'node:path/posix';

type Look =
  | { readonly kind: 'file'; readonly bytes: number; readonly isExecutable: boolean }
  | { readonly kind: 'folder'; readonly entries: readonly string[] }
  /** A pipe or a device: it can be read, and its length is not known before. */
  | { readonly kind: 'stream' }
  | { readonly kind: 'absent' }
  /** There, or perhaps there, and out of reach: the reason is one phrase. */
  | { readonly kind: 'unreadable'; readonly detail: string };

export interface FileDoor {
  /** Looks at an absolute path; follows links. Never throws. */
  look(path: string): Look;
  /** The first bytes of a file, `most + 1` at most, so that a longer one is noticed. Undefined with a reason when it cannot be read. */
  read(path: string, most: number): { readonly bytes: Uint8Array } | { readonly detail: string };
}

/** A whole small text file, or one phrase that says why not, after "the file ...". */
export function readText(
  door: FileDoor,
  path: string,
  most: number,
): { readonly text: string } | { readonly why: string } {
  const look = door.look(path);
  switch (look.kind) {
    case 'absent':
      return { why: 'does not exist' };
    case 'folder':
      return { why: 'is a folder' };
    case 'unreadable':
      return { why: `cannot be read: ${look.detail}` };
    case 'file':
      if (look.bytes > most) return { why: tooLarge(look.bytes, most) };
      break;
    case 'stream':
      break;
  }
  const read = door.read(path, most);
  if ('detail' in read) return { why: `cannot be read: ${read.detail}` };
  if (read.bytes.length > most) return { why: tooLarge(null, most) };
  if (read.bytes.includes(0)) return { why: 'is binary, not text' };
  try {
    return { text: new TextDecoder('utf-8', { fatal: true }).decode(read.bytes) };
  } catch {
    return { why: 'is not text in UTF-8' };
  }
}

function tooLarge(bytes: number | null, most: number): string {
  return `is too large${bytes === null ? '' : ` (${binarySizeText(bytes)})`}; the limit is ${binarySizeText(most)}`;
}

/** `512 KiB`, `9.5 MiB`, in powers of two. */
export function binarySizeText(bytes: number): string {
  const units = ['bytes', 'KiB', 'MiB', 'GiB'];
  let size = bytes;
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${Number.isInteger(size) ? size : size.toFixed(1)} ${units[unit]}`;
}

export interface Surroundings {
  /** The manifest's own folder, absolute: where its relative paths start. */
  readonly folder: string;
  readonly home: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly door: FileDoor;
  /** The project of the settings, for manifests that name none. */
  readonly project: string | null;
  /** For `create`, a file that is missing here is a problem; a `check` (an import of a job that ran elsewhere) only warns. */
  readonly purpose: 'create' | 'check';
}

// ------------------------------------------------------------------------------------------ paths

/** A file on this machine: `~/` is the user's home folder, anything relative starts at the manifest's folder. */
export function pathHere(text: string, folder: string, home: string): string {
  if (text === '~') return home;
  if (text.startsWith('~/')) return join(home, text.slice(2));
  return isAbsolute(text) ? normalize(text) : resolve(folder, text);
}

/** A file on a worker: absolute, or below the login folder as `~/…`. A relative path starts at the login folder. */
export function pathOnWorker(text: string): string {
  const below = text.startsWith('~/') ? text.slice(2) : text === '~' ? '' : text;
  if (isAbsolute(below)) return trimmed(normalize(below));
  const inside = normalize(below === '' ? '.' : below);
  return inside === '.' ? '~' : trimmed(`~/${inside}`);
}

/** True when the path leads out of the login folder (`~/../other`) or names another user's (`~name`). */
export function leavesHome(text: string): boolean {
  return pathOnWorker(text).startsWith('~/..') || /^~[^/]/.test(text);
}

function trimmed(path: string): string {
  return path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path;
}

/** With a home folder that is written out in full as `~`, because the login is not known here. */
export function belowHome(path: string): string {
  return path.replace(/^(\/home\/[^/]+|\/root)(?=\/|$)/, '~');
}

/** True for a path below that folder, both as `pathOnWorker` answers them. */
export function isWithin(path: string, folder: string): boolean {
  const [inner, outer] = [belowHome(path), belowHome(folder)];
  return inner === outer || inner.startsWith(outer === '/' ? outer : `${outer}/`);
}
