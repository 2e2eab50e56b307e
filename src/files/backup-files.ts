// Backup files: the files of a home within a backup, which is a file of SQLite. src/store/rows.ts has its rows.

import { createHash } from 'node:crypto';
import {
  closeSync,
  constants,
  existsSync,
  lstatSync,
  openSync,
  readdirSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeSync,
  type Dirent,
} from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { exitCode, JobmanError } from '../app/errors.ts';
import { fileError } from '../app/file-errors.ts';
import { fileModeIn, makeFolder, readPieces, readRegularFile, settingsFile } from './files.ts';

/** The folders with the data of people and jobs. The rest of a home belongs to its machine: programs, locks, logs of jobman. */
const savedTops = ['jobs', 'blobs', 'clusters', 'secrets', 'ssh', 'settings.json', 'home-id'];

/** Folders that an empty home does not have. */
const usedFolders = ['jobs', 'blobs', 'clusters', 'secrets', 'ssh'];

/** Secrets, which anyone who reads the backup could use. */
const isSecret = (path: string): boolean => /^(?:secrets\/|jobs\/[^/]+\/[^/]+\/secrets\/|ssh\/id_[^/.]+$)/.test(path);

const isLink = (target: string): boolean => /^attempt_\d+\/[^/]+$/.test(target);

export interface SavedFiles {
  readonly files: number;
  readonly bytes: number;
  /** Secrets that are not in the backup. */
  readonly secretsLeftOut: number;
}

const tables = `
  create table backup_file (path text primary key, link text, changed_at integer, size integer, digest text);
  create table backup_piece (path text, seq integer, bytes blob, primary key (path, seq)) without rowid;
  create table backup_about (key text primary key, value text not null)`;

/** Adds the files of these jobs and of the home to the backup. A file that vanishes meanwhile is left out. */
export async function saveFiles(
  backup: string,
  home: string,
  given: {
    readonly jobs: ReadonlySet<string>;
    readonly withSecrets: boolean;
    readonly about: Readonly<Record<string, string>>;
  },
): Promise<SavedFiles> {
  const db = new DatabaseSync(backup);
  try {
    db.exec(tables);
    const addFile = db.prepare('insert into backup_file (path, link, changed_at, size, digest) values (?, ?, ?, ?, ?)');
    const addPiece = db.prepare('insert into backup_piece (path, seq, bytes) values (?, ?, ?)');
    let [files, bytes, secretsLeftOut] = [0, 0, 0];
    db.exec('begin');
    for (const { path, entry } of entriesOf(home, given.jobs)) {
      if (!given.withSecrets && isSecret(path)) {
        secretsLeftOut += 1;
        continue;
      }
      const full = join(home, path);
      const changedAt = lstatSync(full, { throwIfNoEntry: false })?.mtimeMs;
      if (changedAt === undefined) continue;
      if (entry.isSymbolicLink()) {
        const target = readlinkSync(full);
        if (isLink(target)) addFile.run(path, target, changedAt, null, null);
        continue;
      }
      const hash = createHash('sha256');
      let [seq, size] = [0, 0];
      for await (const piece of contentOf(home, path)) {
        addPiece.run(path, seq, piece);
        hash.update(piece);
        seq += 1;
        size += piece.length;
      }
      addFile.run(path, null, changedAt, size, hash.digest('hex'));
      files += 1;
      bytes += size;
    }
    const addAbout = db.prepare('insert into backup_about (key, value) values (?, ?)');
    for (const [key, value] of Object.entries(given.about)) addAbout.run(key, value);
    db.exec('commit');
    // Without a second file, so that it can be copied and read anywhere.
    db.exec('pragma journal_mode = delete');
    return { files, bytes, secretsLeftOut };
  } finally {
    db.close();
  }
}

function* entriesOf(
  home: string,
  jobs: ReadonlySet<string>,
): Iterable<{ readonly path: string; readonly entry: Dirent }> {
  for (const top of readdirSync(home, { withFileTypes: true })) {
    if (!savedTops.includes(top.name)) continue;
    if (top.isFile()) yield { path: top.name, entry: top };
    // A link leads to the folder that servers share.
    if (statSync(join(home, top.name), { throwIfNoEntry: false })?.isDirectory() !== true) continue;
    for (const entry of readdirSync(join(home, top.name), { recursive: true, withFileTypes: true })) {
      const path = relative(home, join(entry.parentPath, entry.name));
      const [, , job] = path.split('/');
      // Jobs that were created after the rows were read.
      if (top.name === 'jobs' && !jobs.has(job ?? '')) continue;
      if (entry.isFile() || entry.isSymbolicLink()) yield { path, entry };
    }
  }
}

/** The settings without their database: a restored home must not use that of the original. */
async function* contentOf(home: string, path: string): AsyncIterable<Uint8Array> {
  if (path !== 'settings.json') {
    yield* readPieces(join(home, path));
    return;
  }
  const text = readRegularFile(settingsFile(home)).toString('utf8');
  try {
    const { database: _, ...others } = JSON.parse(text) as Record<string, unknown>;
    yield Buffer.from(`${JSON.stringify(others, null, 2)}\n`);
  } catch {
    yield Buffer.from('{}\n');
  }
}

export interface OpenBackup {
  readonly about: ReadonlyMap<string, string>;
  readonly files: SavedFiles;
  /** Throws JobmanError if a file has other bytes than when it was saved, or a path outside of a home. */
  check(): void;
  /** Writes the files. Safe to repeat. Keeps settings that are there. */
  restore(home: string): void;
  close(): void;
}

interface FileRow {
  readonly path: string;
  readonly link: string | null;
  readonly changed_at: number;
  readonly size: number | null;
  readonly digest: string | null;
}

/** Throws JobmanError if the file is no complete backup. */
export function openBackup(backup: string): OpenBackup {
  const db = new DatabaseSync(backup, { readOnly: true });
  const allFiles = (): readonly FileRow[] =>
    db.prepare('select * from backup_file order by path').all() as unknown as readonly FileRow[];
  const piecesOf = (path: string): Iterable<Uint8Array> => {
    const pieces = db.prepare('select bytes from backup_piece where path = ? order by seq').iterate(path);
    return pieces.map((row) => (row as unknown as { readonly bytes: Uint8Array }).bytes);
  };
  const about = new Map<string, string>();
  try {
    for (const row of db.prepare('select key, value from backup_about').all())
      about.set(String(row['key']), String(row['value']));
  } catch (error) {
    db.close();
    throw new JobmanError(`${backup} is no complete backup of jobman. Nothing was changed.`, exitCode.usage, [], {
      cause: error,
    });
  }
  const found = allFiles().filter(({ link }) => link === null);
  return {
    about,
    files: {
      files: found.length,
      bytes: found.reduce((sum, { size }) => sum + (size ?? 0), 0),
      secretsLeftOut: Number(about.get('secrets_left_out') ?? 0),
    },
    check() {
      const damaged = allFiles().filter(({ path, link, digest }) => {
        const [top = ''] = path.split('/');
        if (!savedTops.includes(top) || path.split('/').some((name) => ['', '.', '..'].includes(name))) return true;
        if (link !== null) return !isLink(link);
        const hash = createHash('sha256');
        for (const piece of piecesOf(path)) hash.update(piece);
        return hash.digest('hex') !== digest;
      });
      if (damaged.length === 0) return;
      const [first, ...others] = damaged;
      const more = others.length === 0 ? '' : ` and ${others.length} more`;
      throw new JobmanError(`${backup} is damaged: ${first?.path}${more}. Nothing was changed.`, exitCode.failed);
    },
    restore(home) {
      for (const { path, link, changed_at: changedAt } of allFiles()) {
        const full = join(home, path);
        if (path === 'settings.json' && existsSync(full)) continue;
        try {
          makeFolder(dirname(full), isSecret(path) ? 0o700 : undefined);
          rmSync(full, { force: true });
          if (link !== null) symlinkSync(link, full);
          else writeFile(full, piecesOf(path), isSecret(path) ? 0o600 : fileModeIn(dirname(full)));
          if (link === null) utimesSync(full, changedAt / 1000, changedAt / 1000);
        } catch (error) {
          throw fileError(full, error);
        }
      }
    },
    close: () => db.close(),
  };
}

function writeFile(path: string, pieces: Iterable<Uint8Array>, mode: number): void {
  const file = openSync(path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW, mode);
  try {
    for (const piece of pieces) for (let at = 0; at < piece.length;) at += writeSync(file, piece, at);
  } finally {
    closeSync(file);
  }
}

/** The folders of a home that is in use. */
export function usedFoldersOf(home: string): readonly string[] {
  return usedFolders.filter((name) => existsSync(join(home, name)));
}
