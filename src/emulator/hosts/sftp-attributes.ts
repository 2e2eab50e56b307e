// Attributes of files as SFTP carries them, and lines of a listing.

import { constants, type Stats } from 'node:fs';
import type { Attributes } from 'ssh2';

export interface SftpName {
  readonly filename: string;
  readonly longname: string;
  readonly attrs: Attributes;
}

/** An entry that is only named, as REALPATH and READLINK answer it. */
export function nameOnly(filename: string): SftpName {
  // The library takes an entry without attributes; its types do not.
  return { filename, longname: filename, attrs: {} as Attributes };
}

/** An entry of a listing. */
export function entryOf(name: string, stats: Stats): SftpName {
  return { filename: name, longname: longName(name, stats), attrs: attributesOf(stats) };
}

/** Attributes as the protocol has them: times in whole seconds. */
export function attributesOf(stats: Stats): Attributes {
  return {
    mode: stats.mode,
    uid: stats.uid,
    gid: stats.gid,
    size: stats.size,
    atime: Math.floor(stats.atimeMs / 1000),
    mtime: Math.floor(stats.mtimeMs / 1000),
  };
}

const kindLetters: readonly (readonly [number, string])[] = [
  [constants.S_IFDIR, 'd'],
  [constants.S_IFLNK, 'l'],
  [constants.S_IFCHR, 'c'],
  [constants.S_IFBLK, 'b'],
  [constants.S_IFIFO, 'p'],
  [constants.S_IFSOCK, 's'],
];

/** A line in the format of `ls -l`, which the client's `ls -l` prints unchanged. */
function longName(name: string, stats: Stats): string {
  const kind = kindLetters.find(([bits]) => (stats.mode & constants.S_IFMT) === bits)?.[1] ?? '-';
  const rights = [6, 3, 0]
    .map((shift) => {
      const bits = (stats.mode >> shift) & 7;
      return `${bits & 4 ? 'r' : '-'}${bits & 2 ? 'w' : '-'}${bits & 1 ? 'x' : '-'}`;
    })
    .join('');
  const time = stats.mtime.toUTCString().slice(5, 22);
  const numbers = `${String(stats.nlink).padStart(3)} ${String(stats.uid).padEnd(8)} ${String(stats.gid).padEnd(8)}`;
  return `${kind}${rights} ${numbers} ${String(stats.size).padStart(8)} ${time} ${name}`;
}

/** Sets what a client names of a file: size, mode, times and owner. */
export async function setAttributes(
  attrs: Partial<Attributes>,
  target: {
    truncate(size: number): Promise<void>;
    chmod(mode: number): Promise<void>;
    chown(uid: number, gid: number): Promise<void>;
    utimes(atime: number, mtime: number): Promise<void>;
  },
): Promise<void> {
  if (attrs.size !== undefined) await target.truncate(attrs.size);
  if (attrs.mode !== undefined) await target.chmod(attrs.mode & 0o7777);
  if (attrs.atime !== undefined && attrs.mtime !== undefined) await target.utimes(attrs.atime, attrs.mtime);
  if (attrs.uid !== undefined && attrs.gid !== undefined) await target.chown(attrs.uid, attrs.gid);
}
