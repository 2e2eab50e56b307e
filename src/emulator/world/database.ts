/**
 * The emulator's tables in one SQLite file. Records change in memory, and `commit` writes all changes in one
 * transaction before a client learns of them. The file stays locked while it is open, because two emulators on one
 * folder would overwrite each other's changes.
 */
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { EmulatorError } from '../contract.ts';

/** Records of one kind by key. To change a record, put a new one. */
export interface Table<T> {
  get(key: string): T | undefined;
  put(key: string, record: T): void;
  remove(key: string): void;
  values(): T[];
}

export interface Database {
  table<T>(name: string): Table<T>;
  commit(): void;
  close(): void;
}

/** Increase it when the format of the records changes. */
const schemaVersion = 2;

/** Throws EmulatorError when another emulator has it, the schema version differs, or it cannot be read. */
export function openDatabase(stateDir: string): Database {
  const path = join(stateDir, 'cloud.db');
  const unusable = (error: unknown): EmulatorError =>
    new EmulatorError(
      500,
      `The emulator's state, ${path}, cannot be used: ${error instanceof Error ? error.message : String(error)}. ` +
        'Move it away to start with an empty emulator, or name another state folder.',
      { cause: error },
    );
  let sqlite: DatabaseSync;
  try {
    sqlite = new DatabaseSync(path);
  } catch (error) {
    throw unusable(error);
  }
  try {
    sqlite.exec('PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;');
    // The first write takes the lock, and exclusive mode keeps it until the file is closed.
    sqlite.exec(
      'BEGIN EXCLUSIVE; CREATE TABLE IF NOT EXISTS record (table_name TEXT, key TEXT, value TEXT, PRIMARY KEY (table_name, key)) WITHOUT ROWID; COMMIT;',
    );
  } catch (error) {
    sqlite.close();
    if (error instanceof Error && /lock|busy/i.test(error.message)) {
      throw new EmulatorError(
        409,
        `Another emulator is running on ${stateDir}. Stop it, or name another state folder.`,
        {
          cause: error,
        },
      );
    }
    throw unusable(error);
  }
  const found = Number(sqlite.prepare('PRAGMA user_version').get()?.['user_version'] ?? 0);
  // A new file has version 0.
  if (found !== 0 && found !== schemaVersion) {
    sqlite.close();
    const [age, advice] =
      found > schemaVersion
        ? ['a later', 'Use that one']
        : ['an earlier', 'Move it away to start with an empty emulator'];
    throw new EmulatorError(
      500,
      `${path} was written by ${age} emulator (version ${String(found)} of its schema; this one knows ${String(schemaVersion)}). ` +
        `${advice}, or name another state folder.`,
    );
  }
  sqlite.exec(`PRAGMA user_version = ${String(schemaVersion)}`);

  const read = sqlite.prepare('SELECT key, value FROM record WHERE table_name = ?');
  const write = sqlite.prepare('INSERT OR REPLACE INTO record (table_name, key, value) VALUES (?, ?, ?)');
  const erase = sqlite.prepare('DELETE FROM record WHERE table_name = ? AND key = ?');
  const pending: (() => void)[] = [];

  return {
    table<T>(name: string): Table<T> {
      const records = new Map<string, T>();
      for (const row of read.all(name)) records.set(String(row['key']), JSON.parse(String(row['value'])) as T);
      const changedKeys = new Set<string>();
      const trackChange = (key: string): void => {
        if (changedKeys.size === 0) {
          pending.push(() => {
            for (const changed of changedKeys) {
              const record = records.get(changed);
              if (record === undefined) erase.run(name, changed);
              else write.run(name, changed, JSON.stringify(record));
            }
            changedKeys.clear();
          });
        }
        changedKeys.add(key);
      };
      return {
        get: (key) => records.get(key),
        put(key, record) {
          records.set(key, record);
          trackChange(key);
        },
        remove(key) {
          if (records.delete(key)) trackChange(key);
        },
        values: () => [...records.values()],
      };
    },
    commit() {
      if (pending.length === 0) return;
      sqlite.exec('BEGIN IMMEDIATE');
      try {
        for (const flush of pending.splice(0)) flush();
        sqlite.exec('COMMIT');
      } catch (error) {
        sqlite.exec('ROLLBACK');
        throw error;
      }
    },
    close: () => sqlite.close(),
  };
}
