// Paths: of keys in a manifest, and of files on this machine and on a worker. All are texts; nothing is looked at.

import { isAbsolute, join, normalize, resolve } from 'node:path/posix';

/** `a.b[0].c` as its parts; undefined when it is no path. A part of digits after a dot may be a key or an index. */
export function parsePath(text: string): readonly (string | number)[] | undefined {
  const parts: (string | number)[] = [];
  const pattern = /(?:^|\.)([^.[\]\s=]+)|\[(\d+)\]|\[([^.[\]\s=]+)\]/gy;
  while (pattern.lastIndex < text.length) {
    const found = pattern.exec(text);
    if (found === null) return undefined;
    const part = found[1] ?? found[3];
    if (part !== undefined) parts.push(part);
    else if (parts.length === 0) return undefined;
    else parts.push(Number(found[2]));
  }
  return parts.length === 0 ? undefined : parts;
}

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

/**
 * A path as `pathOnWorker` answers it, with a home folder that is written out in full as `~`: the login is not known here.
 */
export function belowHome(path: string): string {
  return path.replace(/^(\/home\/[^/]+|\/root)(?=\/|$)/, '~');
}

/** True for a path below that folder, both as `pathOnWorker` answers them. */
export function isWithin(path: string, folder: string): boolean {
  const [inner, outer] = [belowHome(path), belowHome(folder)];
  return inner === outer || inner.startsWith(outer === '/' ? outer : `${outer}/`);
}
