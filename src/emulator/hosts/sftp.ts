/**
 * The SFTP server of a host (version 3 of the protocol, as OpenSSH speaks it), in this process: a machine without
 * OpenSSH's sftp-server serves `scp` and `sftp` too. It sees the files that the host's commands see (file-view.ts).
 */
import { constants, type Dirent, type Stats } from 'node:fs';
import {
  type FileHandle,
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
} from 'node:fs/promises';
import { posix } from 'node:path';
import ssh2, { type Attributes, type SFTPWrapper } from 'ssh2';
import { codeOf, createFileView, type FileView, openEntry, openFolder, pathOf } from './file-view.ts';

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

/**
 * Serves one client until it leaves. `root` is where this process sees the host's root folder; `home` is a path inside.
 * A test gives a `view` of its own, which changes the tree at the worst time.
 */
export function serveSftp(
  sftp: SFTPWrapper,
  host: { readonly root: string; readonly home: string },
  view: FileView = createFileView(host.root, host.home),
): void {
  const handles = new Map<number, Open>();
  let lastHandle = 0;
  let queue: Promise<void> = Promise.resolve();

  /** Answers one request after the other: the protocol promises that order for requests about one file. */
  const inTurn = (request: number, answer: () => Promise<void>): void => {
    queue = queue.then(answer).catch((error: unknown) => sftp.status(request, statusOf(error), messageOf(error)));
  };
  const done = (request: number): void => sftp.status(request, STATUS_CODE.OK);
  const keep = (request: number, opened: Open): void => {
    lastHandle += 1;
    handles.set(lastHandle, opened);
    const handle = Buffer.alloc(4);
    handle.writeUInt32BE(lastHandle);
    sftp.handle(request, handle);
  };
  const refuseTooMany = (): void => {
    if (handles.size >= maxHandles) throw new Error('too many open files');
  };
  const numberOf = (handle: Buffer): number => (handle.length === 4 ? handle.readUInt32BE() : 0);
  const fileOf = (handle: Buffer): FileHandle => {
    const opened = handles.get(numberOf(handle));
    if (opened?.kind !== 'file') throw new Error('not an open file');
    return opened.file;
  };
  /** `use` gets a path whose last name must not be followed: it may have become a symbolic link. */
  const at = <T>(path: string, use: (outside: string) => Promise<T>): Promise<T> => within(view, path, false, use);
  /** The same, for what acts on a symbolic link itself. */
  const atEntry = <T>(path: string, use: (outside: string) => Promise<T>): Promise<T> => within(view, path, true, use);

  sftp.on('OPEN', (request, path, flags, attrs) =>
    inTurn(request, async () => {
      refuseTooMany();
      const mode = (attrs.mode ?? 0o666) & 0o777;
      const file = await at(path, (outside) => open(outside, openFlags(flags), mode));
      keep(request, { kind: 'file', file });
    }),
  );
  sftp.on('OPENDIR', (request, path) =>
    inTurn(request, async () => {
      refuseTooMany();
      const place = await view.find(path);
      let file: FileHandle;
      try {
        file = await openFolder(place.outside);
      } finally {
        await place.release();
      }
      try {
        const found: Dirent[] = await readdir(pathOf(file), { withFileTypes: true });
        const names = ['.', '..', ...found.map(({ name }) => name)];
        keep(request, { kind: 'folder', file, path: place.path, names });
      } catch (error) {
        await file.close();
        throw error;
      }
    }),
  );
  sftp.on('READDIR', (request, handle) =>
    inTurn(request, async () => {
      const opened = handles.get(numberOf(handle));
      if (opened?.kind !== 'folder') throw new Error('not an open folder');
      const names = opened.names.splice(0, entriesAtOnce);
      if (names.length === 0) return sftp.status(request, STATUS_CODE.EOF);
      const entries = await Promise.all(names.map((name) => listed(view, opened, name)));
      sftp.name(request, entries.flat());
    }),
  );
  sftp.on('CLOSE', (request, handle) =>
    inTurn(request, async () => {
      const opened = handles.get(numberOf(handle));
      if (opened === undefined) throw new Error('not an open file');
      handles.delete(numberOf(handle));
      await opened.file.close();
      done(request);
    }),
  );
  sftp.on('READ', (request, handle, offset, length) =>
    inTurn(request, async () => {
      const { buffer, bytesRead } = await fileOf(handle).read(
        Buffer.allocUnsafe(Math.min(length, maxRead)),
        0,
        Math.min(length, maxRead),
        offset,
      );
      if (bytesRead === 0) sftp.status(request, STATUS_CODE.EOF);
      else sftp.data(request, buffer.subarray(0, bytesRead));
    }),
  );
  sftp.on('WRITE', (request, handle, offset, data) =>
    inTurn(request, async () => {
      const file = fileOf(handle);
      for (let written = 0; written < data.length;) {
        written += (await file.write(data, written, data.length - written, offset + written)).bytesWritten;
      }
      done(request);
    }),
  );
  sftp.on('STAT', (request, path) =>
    inTurn(request, async () => sftp.attrs(request, attributesOf(await at(path, (outside) => lstat(outside))))),
  );
  sftp.on('LSTAT', (request, path) =>
    inTurn(request, async () => sftp.attrs(request, attributesOf(await atEntry(path, (outside) => lstat(outside))))),
  );
  sftp.on('FSTAT', (request, handle) =>
    inTurn(request, async () => sftp.attrs(request, attributesOf(await fileOf(handle).stat()))),
  );
  sftp.on('SETSTAT', (request, path, attrs) =>
    inTurn(request, async () => {
      const entry = await at(path, openEntry);
      try {
        const opened = pathOf(entry);
        await setAttributes(attrs, {
          truncate: (size) => truncate(opened, size),
          chmod: (mode) => chmod(opened, mode),
          chown: (uid, gid) => chown(opened, uid, gid),
          utimes: (atime, mtime) => utimes(opened, atime, mtime),
        });
      } finally {
        await entry.close();
      }
      done(request);
    }),
  );
  sftp.on('FSETSTAT', (request, handle, attrs) =>
    inTurn(request, async () => {
      await setAttributes(attrs, fileOf(handle));
      done(request);
    }),
  );
  sftp.on('REMOVE', (request, path) =>
    inTurn(request, async () => {
      await atEntry(path, unlink);
      done(request);
    }),
  );
  sftp.on('MKDIR', (request, path, attrs) =>
    inTurn(request, async () => {
      await atEntry(path, (outside) => mkdir(outside, (attrs.mode ?? 0o777) & 0o777));
      done(request);
    }),
  );
  sftp.on('RMDIR', (request, path) =>
    inTurn(request, async () => {
      await atEntry(path, (outside) => rmdir(outside));
      done(request);
    }),
  );
  sftp.on('RENAME', (request, from, to) =>
    inTurn(request, async () => {
      await atEntry(from, (old) => atEntry(to, (taken) => renameWithoutReplacing(old, taken)));
      done(request);
    }),
  );
  sftp.on('REALPATH', (request, path) =>
    inTurn(request, async () => {
      // Clients ask for paths that do not exist yet; the answer is then the path without its dots.
      const place = await view.find(path).catch(() => undefined);
      await place?.release();
      sftp.name(request, [nameOnly(place?.path ?? view.absolute(path))]);
    }),
  );
  sftp.on('READLINK', (request, path) =>
    inTurn(request, async () => sftp.name(request, [nameOnly(await atEntry(path, (outside) => readlink(outside)))])),
  );
  // The types name the two the other way round; the library turns OpenSSH's order into that of the protocol.
  sftp.on('SYMLINK', (request, linkPath, targetPath) =>
    inTurn(request, async () => {
      await atEntry(linkPath, (outside) => symlink(targetPath, outside));
      done(request);
    }),
  );

  let isOver = false;
  const finish = (): void => {
    if (isOver) return;
    isOver = true;
    void queue.then(async () => {
      sayExitStatus(sftp);
      sftp.end();
      for (const opened of handles.values()) await opened.file.close().catch(() => undefined);
      handles.clear();
    });
  };
  sftp.on('error', finish);
  sftp.on('end', finish);
  sftp.on('close', finish);
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
    return [{ filename: name, longname: longName(name, stats), attrs: attributesOf(stats) }];
  } catch {
    return [];
  }
}

interface SftpName {
  readonly filename: string;
  readonly longname: string;
  readonly attrs: Attributes;
}

function nameOnly(filename: string): SftpName {
  // The library takes an entry without attributes; its types do not.
  return { filename, longname: filename, attrs: {} as Attributes };
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
