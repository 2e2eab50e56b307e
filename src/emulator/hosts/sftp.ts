/**
 * The SFTP server of a host (version 3, as in OpenSSH), for machines without OpenSSH's sftp-server. It serves the files
 * that the host's commands see (file-view.ts).
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
import { codeOf, createFileView, openEntry, openFolder, fdPathOf, type FileView } from './file-view.ts';

const { OPEN_MODE, STATUS_CODE } = ssh2.utils.sftp;

/** The largest answer to one READ; OpenSSH's server has the same limit. */
const maxRead = 255 * 1024;

/** Folder entries per answer. With long names, the answer stays below the client's limit of 256 KiB. */
const entriesPerReply = 200;

/** Open files and folders per client. All hosts share the emulator's limit of open files. */
const maxHandles = 200;

type OpenHandle =
  | { readonly kind: 'file'; readonly file: FileHandle }
  | { readonly kind: 'folder'; readonly file: FileHandle; readonly path: string; readonly names: string[] };

/** Sends the reply of one request. Without one, the reply is the status OK. */
type SendReply = (request: number) => void;

interface SftpSession {
  readonly sftp: SFTPWrapper;
  readonly view: FileView;
  /** Answers one request after the other: the protocol requires that order for requests about one file. */
  readonly enqueue: (request: number, answer: () => Promise<SendReply | void>) => void;
  /** Resolves a path and acts on it. `use` must not follow the last name, which may have become a symbolic link. */
  readonly withPath: <T>(path: string, use: (fdPath: string) => Promise<T>) => Promise<T>;
  /** Does the same on a symbolic link itself. */
  readonly withEntry: <T>(path: string, use: (fdPath: string) => Promise<T>) => Promise<T>;
  readonly openHandle: (make: () => Promise<OpenHandle>) => Promise<SendReply>;
  /** Throws when the handle is not open or of another kind. */
  readonly getHandle: <K extends OpenHandle['kind']>(handle: Buffer, kind: K) => Extract<OpenHandle, { kind: K }>;
  readonly close: (handle: Buffer) => Promise<void>;
  readonly closeAll: () => void;
}

/** `home` is a path inside the host's `root`. A test passes a `view` that changes the tree at the worst time. */
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

function openSession(sftp: SFTPWrapper, view: FileView): SftpSession {
  const handles = new Map<number, OpenHandle>();
  let lastHandle = 0;
  let queue: Promise<void> = Promise.resolve();
  let isOver = false;
  const done: SendReply = (request) => sftp.status(request, STATUS_CODE.OK);
  const numberOf = (handle: Buffer): number => (handle.length === 4 ? handle.readUInt32BE() : 0);

  return {
    sftp,
    view,
    enqueue(request, answer) {
      queue = queue
        .then(async () => ((await answer()) ?? done)(request))
        .catch((error: unknown) => sftp.status(request, statusOf(error), messageOf(error)));
    },
    withPath: (path, use) => withResolvedPath(view, path, false, use),
    withEntry: (path, use) => withResolvedPath(view, path, true, use),
    async openHandle(make) {
      if (handles.size >= maxHandles) throw new Error('too many open files');
      const made = await make();
      lastHandle += 1;
      handles.set(lastHandle, made);
      const handle = Buffer.alloc(4);
      handle.writeUInt32BE(lastHandle);
      return (request) => sftp.handle(request, handle);
    },
    getHandle<K extends OpenHandle['kind']>(handle: Buffer, kind: K) {
      const found = handles.get(numberOf(handle));
      if (found?.kind !== kind) throw new Error(`not an open ${kind}`);
      return found as Extract<OpenHandle, { kind: K }>;
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
        sendExitStatus(sftp);
        sftp.end();
        for (const { file } of handles.values()) await file.close().catch(() => undefined);
        handles.clear();
      });
    },
  };
}

function serveFiles({ sftp, enqueue, withPath, openHandle, getHandle, close }: SftpSession): void {
  const fileOf = (handle: Buffer): FileHandle => getHandle(handle, 'file').file;
  sftp.on('OPEN', (request, path, flags, attrs) =>
    enqueue(request, () =>
      openHandle(async () => {
        const mode = (attrs.mode ?? 0o666) & 0o777;
        return { kind: 'file', file: await withPath(path, (fdPath) => open(fdPath, openFlags(flags), mode)) };
      }),
    ),
  );
  sftp.on('CLOSE', (request, handle) => enqueue(request, () => close(handle)));
  sftp.on('READ', (request, handle, offset, length) =>
    enqueue(request, async () => {
      const size = Math.min(length, maxRead);
      const { buffer, bytesRead } = await fileOf(handle).read(Buffer.allocUnsafe(size), 0, size, offset);
      return (requestId) =>
        bytesRead === 0 ? sftp.status(requestId, STATUS_CODE.EOF) : sftp.data(requestId, buffer.subarray(0, bytesRead));
    }),
  );
  sftp.on('WRITE', (request, handle, offset, data) =>
    enqueue(request, async () => {
      const file = fileOf(handle);
      for (let written = 0; written < data.length;) {
        written += (await file.write(data, written, data.length - written, offset + written)).bytesWritten;
      }
    }),
  );
  sftp.on('FSTAT', (request, handle) =>
    enqueue(request, async () => {
      const attrs = attributesOf(await fileOf(handle).stat());
      return (requestId) => sftp.attrs(requestId, attrs);
    }),
  );
  sftp.on('FSETSTAT', (request, handle, attrs) => enqueue(request, async () => setAttributes(attrs, fileOf(handle))));
}

function serveFolders({ sftp, view, enqueue, withEntry, openHandle, getHandle }: SftpSession): void {
  sftp.on('OPENDIR', (request, path) =>
    enqueue(request, () =>
      openHandle(async () => {
        const resolved = await view.resolve(path);
        let file: FileHandle;
        try {
          file = await openFolder(resolved.fdPath);
        } finally {
          await resolved.release();
        }
        try {
          return { kind: 'folder', file, path: resolved.path, names: ['.', '..', ...(await readdir(fdPathOf(file)))] };
        } catch (error) {
          await file.close();
          throw error;
        }
      }),
    ),
  );
  sftp.on('READDIR', (request, handle) =>
    enqueue(request, async () => {
      const folder = getHandle(handle, 'folder');
      const names = folder.names.splice(0, entriesPerReply);
      if (names.length === 0) return (requestId) => sftp.status(requestId, STATUS_CODE.EOF);
      const entries = await Promise.all(names.map((name) => listEntry(view, folder, name)));
      return (requestId) => sftp.name(requestId, entries.flat());
    }),
  );
  sftp.on('MKDIR', (request, path, attrs) =>
    enqueue(request, async () => {
      await withEntry(path, (fdPath) => mkdir(fdPath, (attrs.mode ?? 0o777) & 0o777));
    }),
  );
  sftp.on('RMDIR', (request, path) => enqueue(request, () => withEntry(path, (fdPath) => rmdir(fdPath))));
}

function servePaths({ sftp, view, enqueue, withPath, withEntry }: SftpSession): void {
  for (const [event, find] of [
    ['STAT', withPath],
    ['LSTAT', withEntry],
  ] as const) {
    sftp.on(event, (request: number, path: string) =>
      enqueue(request, async () => {
        const attrs = attributesOf(await find(path, (fdPath) => lstat(fdPath)));
        return (requestId) => sftp.attrs(requestId, attrs);
      }),
    );
  }
  sftp.on('SETSTAT', (request, path, attrs) =>
    enqueue(request, async () => {
      const entry = await withPath(path, openEntry);
      const entryPath = fdPathOf(entry);
      try {
        await setAttributes(attrs, {
          truncate: (size) => truncate(entryPath, size),
          chmod: (mode) => chmod(entryPath, mode),
          chown: (uid, gid) => chown(entryPath, uid, gid),
          utimes: (atime, mtime) => utimes(entryPath, atime, mtime),
        });
      } finally {
        await entry.close();
      }
    }),
  );
  sftp.on('REMOVE', (request, path) => enqueue(request, () => withEntry(path, unlink)));
  sftp.on('RENAME', (request, from, to) =>
    enqueue(request, () => withEntry(from, (old) => withEntry(to, (taken) => renameWithoutReplacing(old, taken)))),
  );
  sftp.on('REALPATH', (request, path) =>
    enqueue(request, async () => {
      // Clients ask for paths that do not exist yet. The answer is then the path without its dots.
      const resolved = await view.resolve(path).catch(() => undefined);
      await resolved?.release();
      return (requestId) => sftp.name(requestId, [nameOnly(resolved?.path ?? view.absolute(path))]);
    }),
  );
  sftp.on('READLINK', (request, path) =>
    enqueue(request, async () => {
      const target = await withEntry(path, (fdPath) => readlink(fdPath));
      return (requestId) => sftp.name(requestId, [nameOnly(target)]);
    }),
  );
  // The types name the two arguments in the wrong order: the library converts OpenSSH's order into the protocol's.
  sftp.on('SYMLINK', (request, linkPath, targetPath) =>
    enqueue(request, () => withEntry(linkPath, (fdPath) => symlink(targetPath, fdPath))),
  );
}

/** The library's SFTP stream cannot send an exit status, and `scp` fails without one. */
function sendExitStatus(sftp: SFTPWrapper): void {
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
  // O_NONBLOCK: opening a FIFO without another end would block a thread of the emulator.
  const access = reads && writes ? constants.O_RDWR : writes ? constants.O_WRONLY : constants.O_RDONLY;
  return access | more | constants.O_NONBLOCK | constants.O_NOCTTY | constants.O_NOFOLLOW;
}

/** Version 3 of the protocol refuses a name that exists. For files, a hard link checks and creates it in one step. */
async function renameWithoutReplacing(from: string, to: string): Promise<void> {
  if ((await lstat(from)).isFile()) {
    const isLinked = await link(from, to).then(
      () => true,
      (error: unknown) => {
        if (codeOf(error) === 'EEXIST') throw error;
        // A file system without hard links, such as a bucket.
        return false;
      },
    );
    if (isLinked) return unlink(from);
  }
  const taken = await lstat(to).catch(() => undefined);
  if (taken !== undefined) throw new Error('the new name is taken');
  await rename(from, to);
}

async function withResolvedPath<T>(
  view: FileView,
  path: string,
  noFollow: boolean,
  use: (fdPath: string) => Promise<T>,
): Promise<T> {
  const resolved = await view.resolve(path, noFollow);
  try {
    return await use(resolved.fdPath);
  } finally {
    await resolved.release();
  }
}

async function listEntry(
  view: FileView,
  folder: { readonly file: FileHandle; readonly path: string },
  name: string,
): Promise<SftpName[]> {
  try {
    const stats = await (name === '..'
      ? withResolvedPath(view, posix.dirname(folder.path), false, (fdPath) => lstat(fdPath))
      : lstat(`${fdPathOf(folder.file)}/${name}`));
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

/** Removes the path outside the host, which Node's system messages contain. */
function messageOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return codeOf(error) === undefined ? text : (text.split(',')[0] ?? text);
}

interface SftpName {
  readonly filename: string;
  readonly longname: string;
  readonly attrs: Attributes;
}

function nameOnly(filename: string): SftpName {
  // The library accepts an entry without attributes, but its types do not.
  return { filename, longname: filename, attrs: {} as Attributes };
}

function entryOf(name: string, stats: Stats): SftpName {
  return { filename: name, longname: longName(name, stats), attrs: attributesOf(stats) };
}

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
