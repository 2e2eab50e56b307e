/**
 * The SFTP server of a host (version 3 of the protocol, as OpenSSH speaks it), in this process: a machine without
 * OpenSSH's sftp-server serves `scp` and `sftp` too. It sees the files that the host's commands see (file-view.ts).
 */

import { constants, type Stats } from 'node:fs';
import {
  chmod,
  chown,
  link,
  lstat,
  mkdir,
  open,
  readdir,
  readlink,
  rename,
  rmdir,
  symlink,
  truncate,
  unlink,
  utimes,
  type FileHandle,
} from 'node:fs/promises';
import { posix } from 'node:path';
import ssh2, { type SFTPWrapper } from 'ssh2';
import type { Attributes } from 'ssh2';
import { codeOf, createFileView, openEntry, openFolder, pathOf, type FileView } from './file-view.ts';

const { OPEN_MODE, STATUS_CODE } = ssh2.utils.sftp;

/** The largest answer to one READ; OpenSSH's server has the same limit. */
const maxRead = 255 * 1024;

/** How many entries of a folder one answer carries: with long names it stays below the client's limit of 256 KiB. */
const entriesAtOnce = 200;

/** How many files and folders one client may have open: the emulator has one limit of files for all its hosts. */
const maxHandles = 200;

type Open =
  | { readonly kind: 'file'; readonly file: FileHandle }
  | { readonly kind: 'folder'; readonly file: FileHandle; readonly path: string; readonly names: string[] };

/** Sends the reply of one request. Without one the client is told that the request was fulfilled. */
type Send = (request: number) => void;

interface Session {
  readonly sftp: SFTPWrapper;
  readonly view: FileView;
  /** Answers one request after the other: the protocol promises that order for requests about one file. */
  readonly inTurn: (request: number, answer: () => Promise<Send | void>) => void;
  /** Acts on a path whose last name must not be followed: it may have become a symbolic link. */
  readonly at: <T>(path: string, use: (outside: string) => Promise<T>) => Promise<T>;
  /** The same, for what acts on a symbolic link itself. */
  readonly atEntry: <T>(path: string, use: (outside: string) => Promise<T>) => Promise<T>;
  /** Opens something that stays open until the client closes it. */
  readonly keep: (make: () => Promise<Open>) => Promise<Send>;
  /** Throws when that is not open, or of another kind. */
  readonly opened: <K extends Open['kind']>(handle: Buffer, kind: K) => Extract<Open, { kind: K }>;
  readonly close: (handle: Buffer) => Promise<void>;
  readonly closeAll: () => void;
}

/**
 * Serves one client until it leaves. `root` is where this process sees the host's root folder; `home` is a path inside.
 * A test gives a `view` of its own, which changes the tree at the worst time.
 */
export function serveSftp(
  sftp: SFTPWrapper,
  host: { readonly root: string; readonly home: string },
  view: FileView = createFileView(host.root, host.home),
): void {
  const session = openSession(sftp, view);
  serveFiles(session);
  serveFolders(session);
  servePaths(session);
  for (const event of ['error', 'end', 'close'] as const) sftp.on(event, () => session.closeAll());
}

function openSession(sftp: SFTPWrapper, view: FileView): Session {
  const handles = new Map<number, Open>();
  let lastHandle = 0;
  let queue: Promise<void> = Promise.resolve();
  let isOver = false;
  const done: Send = (request) => sftp.status(request, STATUS_CODE.OK);
  const numberOf = (handle: Buffer): number => (handle.length === 4 ? handle.readUInt32BE() : 0);

  return {
    sftp,
    view,
    inTurn(request, answer) {
      queue = queue
        .then(async () => ((await answer()) ?? done)(request))
        .catch((error: unknown) => sftp.status(request, statusOf(error), messageOf(error)));
    },
    at: (path, use) => within(view, path, false, use),
    atEntry: (path, use) => within(view, path, true, use),
    async keep(make) {
      if (handles.size >= maxHandles) throw new Error('too many open files');
      const made = await make();
      lastHandle += 1;
      handles.set(lastHandle, made);
      const handle = Buffer.alloc(4);
      handle.writeUInt32BE(lastHandle);
      return (request) => sftp.handle(request, handle);
    },
    opened<K extends Open['kind']>(handle: Buffer, kind: K) {
      const found = handles.get(numberOf(handle));
      if (found?.kind !== kind) throw new Error(`not an open ${kind}`);
      return found as Extract<Open, { kind: K }>;
    },
    async close(handle) {
      const found = handles.get(numberOf(handle));
      if (found === undefined) throw new Error('not an open file');
      handles.delete(numberOf(handle));
      await found.file.close();
    },
    closeAll() {
      if (isOver) return;
      isOver = true;
      void queue.then(async () => {
        sayExitStatus(sftp);
        sftp.end();
        for (const { file } of handles.values()) await file.close().catch(() => undefined);
        handles.clear();
      });
    },
  };
}

function serveFiles({ sftp, inTurn, at, keep, opened, close }: Session): void {
  const fileOf = (handle: Buffer): FileHandle => opened(handle, 'file').file;
  sftp.on('OPEN', (request, path, flags, attrs) =>
    inTurn(request, () =>
      keep(async () => {
        const mode = (attrs.mode ?? 0o666) & 0o777;
        return { kind: 'file', file: await at(path, (outside) => open(outside, openFlags(flags), mode)) };
      }),
    ),
  );
  sftp.on('CLOSE', (request, handle) => inTurn(request, () => close(handle)));
  sftp.on('READ', (request, handle, offset, length) =>
    inTurn(request, async () => {
      const size = Math.min(length, maxRead);
      const { buffer, bytesRead } = await fileOf(handle).read(Buffer.allocUnsafe(size), 0, size, offset);
      return (asked) =>
        bytesRead === 0 ? sftp.status(asked, STATUS_CODE.EOF) : sftp.data(asked, buffer.subarray(0, bytesRead));
    }),
  );
  sftp.on('WRITE', (request, handle, offset, data) =>
    inTurn(request, async () => {
      const file = fileOf(handle);
      for (let written = 0; written < data.length;) {
        written += (await file.write(data, written, data.length - written, offset + written)).bytesWritten;
      }
    }),
  );
  sftp.on('FSTAT', (request, handle) =>
    inTurn(request, async () => {
      const attrs = attributesOf(await fileOf(handle).stat());
      return (asked) => sftp.attrs(asked, attrs);
    }),
  );
  sftp.on('FSETSTAT', (request, handle, attrs) => inTurn(request, async () => setAttributes(attrs, fileOf(handle))));
}

function serveFolders({ sftp, view, inTurn, atEntry, keep, opened }: Session): void {
  sftp.on('OPENDIR', (request, path) =>
    inTurn(request, () =>
      keep(async () => {
        const place = await view.find(path);
        let file: FileHandle;
        try {
          file = await openFolder(place.outside);
        } finally {
          await place.release();
        }
        try {
          return { kind: 'folder', file, path: place.path, names: ['.', '..', ...(await readdir(pathOf(file)))] };
        } catch (error) {
          await file.close();
          throw error;
        }
      }),
    ),
  );
  sftp.on('READDIR', (request, handle) =>
    inTurn(request, async () => {
      const folder = opened(handle, 'folder');
      const names = folder.names.splice(0, entriesAtOnce);
      if (names.length === 0) return (asked) => sftp.status(asked, STATUS_CODE.EOF);
      const entries = await Promise.all(names.map((name) => listed(view, folder, name)));
      return (asked) => sftp.name(asked, entries.flat());
    }),
  );
  sftp.on('MKDIR', (request, path, attrs) =>
    inTurn(request, async () => {
      await atEntry(path, (outside) => mkdir(outside, (attrs.mode ?? 0o777) & 0o777));
    }),
  );
  sftp.on('RMDIR', (request, path) => inTurn(request, () => atEntry(path, (outside) => rmdir(outside))));
}

function servePaths({ sftp, view, inTurn, at, atEntry }: Session): void {
  for (const [event, find] of [
    ['STAT', at],
    ['LSTAT', atEntry],
  ] as const) {
    sftp.on(event, (request: number, path: string) =>
      inTurn(request, async () => {
        const attrs = attributesOf(await find(path, (outside) => lstat(outside)));
        return (asked) => sftp.attrs(asked, attrs);
      }),
    );
  }
  sftp.on('SETSTAT', (request, path, attrs) =>
    inTurn(request, async () => {
      const entry = await at(path, openEntry);
      const opened = pathOf(entry);
      try {
        await setAttributes(attrs, {
          truncate: (size) => truncate(opened, size),
          chmod: (mode) => chmod(opened, mode),
          chown: (uid, gid) => chown(opened, uid, gid),
          utimes: (atime, mtime) => utimes(opened, atime, mtime),
        });
      } finally {
        await entry.close();
      }
    }),
  );
  sftp.on('REMOVE', (request, path) => inTurn(request, () => atEntry(path, unlink)));
  sftp.on('RENAME', (request, from, to) =>
    inTurn(request, () => atEntry(from, (old) => atEntry(to, (taken) => renameWithoutReplacing(old, taken)))),
  );
  sftp.on('REALPATH', (request, path) =>
    inTurn(request, async () => {
      // Clients ask for paths that do not exist yet; the answer is then the path without its dots.
      const place = await view.find(path).catch(() => undefined);
      await place?.release();
      return (asked) => sftp.name(asked, [nameOnly(place?.path ?? view.absolute(path))]);
    }),
  );
  sftp.on('READLINK', (request, path) =>
    inTurn(request, async () => {
      const target = await atEntry(path, (outside) => readlink(outside));
      return (asked) => sftp.name(asked, [nameOnly(target)]);
    }),
  );
  // The types name the two the other way round; the library turns OpenSSH's order into that of the protocol.
  sftp.on('SYMLINK', (request, linkPath, targetPath) =>
    inTurn(request, () => atEntry(linkPath, (outside) => symlink(targetPath, outside))),
  );
}

/** The library's SFTP stream cannot send an exit status, and `scp` fails without one. */
function sayExitStatus(sftp: SFTPWrapper): void {
  const { _protocol: protocol, outgoing } = sftp as unknown as {
    _protocol: { exitStatus(channel: number, status: number): void };
    outgoing: { readonly id: number; readonly state: string };
  };
  if (outgoing.state === 'open') protocol.exitStatus(outgoing.id, 0);
}

function openFlags(flags: number): number {
  const reads = (flags & OPEN_MODE.READ) !== 0;
  const writes = (flags & OPEN_MODE.WRITE) !== 0;
  const table: readonly (readonly [number, number])[] = [
    [OPEN_MODE.APPEND, constants.O_APPEND],
    [OPEN_MODE.CREAT, constants.O_CREAT],
    [OPEN_MODE.TRUNC, constants.O_TRUNC],
    [OPEN_MODE.EXCL, constants.O_EXCL],
  ];
  const more = table.reduce((sum, [bit, flag]) => ((flags & bit) === 0 ? sum : sum | flag), 0);
  // Opening a FIFO that has no other end would otherwise hold a thread of the emulator.
  const access = reads && writes ? constants.O_RDWR : writes ? constants.O_WRONLY : constants.O_RDONLY;
  return access | more | constants.O_NONBLOCK | constants.O_NOCTTY | constants.O_NOFOLLOW;
}

/** Version 3 of the protocol refuses a new name that is taken. A link makes that one step for files. */
async function renameWithoutReplacing(from: string, to: string): Promise<void> {
  if ((await lstat(from)).isFile()) {
    const isLinked = await link(from, to).then(
      () => true,
      (error: unknown) => {
        if (codeOf(error) === 'EEXIST') throw error;
        // A file system without links, such as a bucket.
        return false;
      },
    );
    if (isLinked) return unlink(from);
  }
  const taken = await lstat(to).catch(() => undefined);
  if (taken !== undefined) throw new Error('the new name is taken');
  await rename(from, to);
}

async function within<T>(
  view: FileView,
  path: string,
  keepLast: boolean,
  use: (outside: string) => Promise<T>,
): Promise<T> {
  const place = await view.find(path, keepLast);
  try {
    return await use(place.outside);
  } finally {
    await place.release();
  }
}

/** An entry of a folder with its attributes; empty when it has disappeared meanwhile. */
async function listed(
  view: FileView,
  folder: { readonly file: FileHandle; readonly path: string },
  name: string,
): Promise<SftpName[]> {
  try {
    const stats = await (name === '..'
      ? within(view, posix.dirname(folder.path), false, (outside) => lstat(outside))
      : lstat(`${pathOf(folder.file)}/${name}`));
    return [entryOf(name, stats)];
  } catch {
    return [];
  }
}

function statusOf(error: unknown): number {
  switch (codeOf(error)) {
    case 'ENOENT':
    case 'ENOTDIR':
    case 'ELOOP':
      return STATUS_CODE.NO_SUCH_FILE;
    case 'EACCES':
    case 'EPERM':
      return STATUS_CODE.PERMISSION_DENIED;
    default:
      return STATUS_CODE.FAILURE;
  }
}

/** Without the path outside the host, which Node's messages of the system carry. */
function messageOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return codeOf(error) === undefined ? text : (text.split(',')[0] ?? text);
}

interface SftpName {
  readonly filename: string;
  readonly longname: string;
  readonly attrs: Attributes;
}

/** An entry that is only named, as REALPATH and READLINK answer it. */
function nameOnly(filename: string): SftpName {
  // The library takes an entry without attributes; its types do not.
  return { filename, longname: filename, attrs: {} as Attributes };
}

/** An entry of a listing. */
function entryOf(name: string, stats: Stats): SftpName {
  return { filename: name, longname: longName(name, stats), attrs: attributesOf(stats) };
}

/** Attributes as the protocol has them: times in whole seconds. */
function attributesOf(stats: Stats): Attributes {
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
async function setAttributes(
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
