// Database file: the connections to a file of SQLite. A file can be lost, truncated or copied, which this file detects.
//
// Reads use a connection that cannot write. The first write opens the writing connection; it then serves both.

import { statSync, realpathSync } from 'node:fs';
import { dirname, basename, join } from 'node:path';
import { StoreError } from '../app/errors.ts';
import { makeHome } from '../files/files.ts';
import { refuseTruncated, toStoreError } from './database-errors.ts';
import {
  clearOnFailure,
  ensureInstallationId,
  guarded,
  migrate,
  olderVersionError,
  openedForReadingError,
  openEmpty,
  requireUsable,
  schemaVersion,
  supportedVersion,
  type Connections,
} from './database.ts';
import type { ConnectionOptions } from './open-database.ts';
import { sql, type Database } from './sql.ts';
import {
  inMemory,
  inSequence,
  needsRecovery,
  openForReading,
  openForWriting,
  disableFsync,
  type Connection,
} from './sqlite.ts';

export function connectFile(given: ConnectionOptions & { readonly file: string }): Connections {
  const { file, readOnly = false, installation, busyTimeoutMs, mayBeClosed = false, skipFsync = false } = given;
  const named = {
    name: file,
    replacement: `move ${dirname(file)} to another path or set JOBMAN_HOME to a new folder`,
  };
  let writing: Promise<Connection> | undefined;
  let reading: Promise<Connection> | undefined;
  let empty: Promise<Connection> | undefined;
  const writer = () => (writing ??= clearOnFailure(openWriter(), () => (writing = undefined)));
  async function reader(): Promise<Connection> {
    if (writing !== undefined || file === inMemory) return writer();
    // Another process may create the database meanwhile, so the empty one is not cached as `reading`.
    if (reading === undefined) refuseTruncated(file);
    if (reading === undefined && !hasContents(file)) return (empty ??= openEmpty());
    return (reading ??= clearOnFailure(openReader(), () => (reading = undefined)));
  }

  async function openWriter(): Promise<Connection> {
    if (readOnly) throw openedForReadingError(named);
    if (file !== inMemory) {
      refuseTruncated(file);
      makeHome(dirname(file));
    }
    return file === inMemory ? prepareWriter() : inSequence(file, prepareWriter);
  }

  async function prepareWriter(): Promise<Connection> {
    const db = openForWriting(file, busyTimeoutMs);
    return closeOnFailure(db, async () => {
      const version = await supportedVersion(db, named);
      // With its id: another process may read the new database at once.
      const finish = (transaction: Database) => ensureInstallationId(transaction, installation);
      if (version < schemaVersion) await migrate(db, { backUp: copyFile, finish });
      await ensureInstallationId(db, installation);
      if (file !== inMemory) await refuseCopiedHome(db, file);
      if (skipFsync) await disableFsync(db);
      if (mayBeClosed) return db;
      await requireUsable(db, named);
      return guarded(db, named);
    });
  }

  async function copyFile(): Promise<void> {
    if (file === inMemory) return;
    const { copyDatabase } = await import('./backup.ts');
    await copyDatabase(file);
  }

  async function openReader(): Promise<Connection> {
    const db = await openToRead();
    return closeOnFailure(db, async () => {
      const version = await supportedVersion(db, named);
      if (version < schemaVersion) {
        if (readOnly) throw olderVersionError(named, version, `where ${dirname(file)} is writable`);
        await writer();
      }
      return db;
    });
  }

  async function openToRead(): Promise<Connection> {
    const open = (): Connection => openForReading(file, hasContents(`${file}-wal`));
    try {
      return open();
    } catch (error) {
      if (readOnly || !needsRecovery(error)) throw error;
      await writer();
      return open();
    }
  }

  return {
    reader,
    writer,
    async snapshot(operation) {
      const db = await reader();
      await sql`begin`.execute(db);
      try {
        return await operation(db);
      } finally {
        await sql`rollback`.execute(db);
      }
    },
    requireUsable: async () => requireUsable(await reader(), named),
    toStoreError: (error) => toStoreError(file, error),
    inSequence: (work) => (file === inMemory ? work() : inSequence(file, work)),
    // Loads the wake folder on first use, because reading commands need none.
    async notify(wakeUp) {
      if (file !== inMemory) (await import('./wake-folder.ts')).notify(dirname(file), wakeUp);
    },
    listen: async (receive) => (await import('./wake-folder.ts')).listen(dirname(file), receive),
    async close() {
      const open = await Promise.allSettled([empty, reading, writing]);
      empty = reading = writing = undefined;
      for (const result of open) {
        if (result.status === 'fulfilled') result.value?.close();
      }
    },
  };
}

/** False when the file is missing. */
export function hasContents(file: string): boolean {
  return (statSync(file, { throwIfNoEntry: false })?.size ?? 0) > 0;
}

async function closeOnFailure(db: Connection, prepare: () => Promise<Connection>): Promise<Connection> {
  try {
    return await prepare();
  } catch (error) {
    db.close();
    throw error;
  }
}

/** Throws StoreError if this home is a copy of one that still exists. Records the path of a moved or restored home. */
async function refuseCopiedHome(db: Database, file: string): Promise<void> {
  const home = realpathSync(dirname(file));
  const { rows } = await sql<{ value: string }>`select value from meta where key = 'home'`.execute(db);
  const recorded = rows[0]?.value;
  if (recorded === home) return;
  if (recorded !== undefined && areTwoFiles(join(recorded, basename(file)), file))
    throw new StoreError('copied', `${home} is a copy of ${recorded}, which still exists. Nothing was changed.`, [
      `Both contain the same jobs, so each could stop the jobs of the other. Use the original: JOBMAN_HOME=${recorded}`,
      'To use the copy instead, cancel the jobs of the original, and then move the original to another path.',
    ]);
  await sql`insert into meta (key, value) values ('home', ${home})
    on conflict (key) do update set value = excluded.value`.execute(db);
}

function areTwoFiles(one: string, other: string): boolean {
  try {
    const [first, second] = [statSync(one), statSync(other)];
    return first.ino !== second.ino || first.dev !== second.dev;
  } catch {
    return false;
  }
}
