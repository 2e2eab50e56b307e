// Received copy: the files that a worker has sent, before they get their name here. A worker runs other people's programs, so its archive is
// untrusted: it may hold other entries than the one asked for, device nodes, and programs that run as root.

import { chmod, lstat, mkdir, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { CopyEnd } from '../app/by-hand.ts';

export interface ReceivedCopy {
  /** A private folder into which the archive was unpacked. */
  readonly received: string;
  /** A path on the same file system for the entry that is replaced; its caller deletes it. */
  readonly aside: string;
  /** The name that the entry must have; null when the worker resolved the path. */
  readonly asked: string | null;
  readonly target: string;
  readonly replace: boolean;
}

/**
 * Moves the one entry that was received to `target`. Refuses an archive with another number of entries, or with one of another
 * name, and a target that is there already unless `replace` allows it. Device nodes, FIFOs and sockets are left out, and
 * files lose their setuid, setgid and sticky bits.
 */
export async function acceptCopy({ received, aside, asked, target, replace }: ReceivedCopy): Promise<CopyEnd> {
  const names = await readdir(received);
  const [name] = names;
  if (name === undefined) return failed('nothing arrived');
  if (names.length > 1) return failed(`${names.length} entries arrived instead of one (${listed(names)})`);
  const entry = join(received, name);
  const facts = await lstat(entry);
  // The worker resolves a path that is a link to a folder, and sends the folder under its own name.
  if (asked !== null && name !== asked && !facts.isDirectory())
    return failed(`${JSON.stringify(name)} arrived instead of ${JSON.stringify(asked)}`);
  const leftOut = await removeSpecial(entry);
  if ((await lstat(entry).catch(() => undefined)) === undefined)
    return failed('it is a device, a FIFO or a socket, which are not copied');
  const old = await lstat(target).catch(() => undefined);
  if (old !== undefined && !replace)
    return { kind: 'failed', because: 'conflict', reason: `${target} is there already` };
  // One file replaces another in one step; a folder has to be moved away first.
  if (old !== undefined && (old.isDirectory() || facts.isDirectory())) {
    await mkdir(aside);
    await rename(target, join(aside, 'replaced'));
  }
  await rename(entry, target);
  return { kind: 'done', path: target, bytes: await fileBytes(target), ...(leftOut === 0 ? {} : { leftOut }) };
}

/** Deletes device nodes, FIFOs and sockets at and below the path, and drops special mode bits of files. Returns how many it deleted. */
async function removeSpecial(path: string): Promise<number> {
  const facts = await lstat(path);
  // A link has no rights of its own, and what it leads to is not part of the copy.
  if (facts.isSymbolicLink()) return 0;
  if (!facts.isFile() && !facts.isDirectory()) {
    await rm(path);
    return 1;
  }
  if (!facts.isDirectory()) {
    if ((facts.mode & 0o7000) !== 0) await chmod(path, facts.mode & 0o777);
    return 0;
  }
  // The bits of a folder stay, because a folder inherits setgid from the folder that it is made in.
  if ((facts.mode & 0o500) !== 0o500) await chmod(path, facts.mode | 0o700);
  let count = 0;
  for (const name of await readdir(path)) count += await removeSpecial(join(path, name));
  return count;
}

/** The size of all files at and below the path. The archive on the way is larger: it pads each of them. */
export async function fileBytes(path: string): Promise<number> {
  const facts = await lstat(path);
  if (facts.isFile()) return facts.size;
  if (!facts.isDirectory()) return 0;
  let bytes = 0;
  for (const name of await readdir(path)) bytes += await fileBytes(join(path, name));
  return bytes;
}

function failed(reason: string): CopyEnd {
  return { kind: 'failed', because: 'failed', reason };
}

function listed(names: readonly string[]): string {
  const shown = names.slice(0, 3).map((name) => JSON.stringify(name));
  return names.length > shown.length ? `${shown.join(', ')}, ...` : shown.join(', ');
}
