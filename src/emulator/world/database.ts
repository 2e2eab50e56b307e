/**
 * The emulator's memory: shelves of records, kept in one SQLite file. Records are changed in memory and written together
 * by `commit`, so a change is there as a whole or not at all, and it is there before anybody is told of it.
 * The file stays locked while it is open: two emulators on one folder would each undo what the other did.
 */
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { EmulatorRefusal } from '../contract.ts';

/** Records of one kind by key. Records are values: to change one, put another in its place. */
export interface Shelf<T> {
  get(key: string): T | undefined;
  put(key: string, record: T): void;
  remove(key: string): void;
  values(): T[];
}

export interface Database {
  shelf<T>(name: string): Shelf<T>;
  /** Writes every change since the last commit, in one transaction. */
  commit(): void;
  close(): void;
}

const layout = 1;

/**
 * Opens or makes the state in that folder, which is there. Throws a sentence when another emulator has it, it is of a later
 * layout, or its file cannot be read.
 */
export function openDatabase(stateDir: string): Database {
  const path = join(stateDir, 'cloud.db');
  const unusable = (error: unknown): EmulatorRefusal =>
    new EmulatorRefusal(
      409,
      `The state of the cloud, ${path}, cannot be used: ${error instanceof Error ? error.message : String(error)}. ` +
        'Move it away to begin with an empty cloud, or name another state folder.',
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
    // The lock is taken by the first write and, in exclusive mode, kept until the file is closed.
    sqlite.exec(
      'BEGIN EXCLUSIVE; CREATE TABLE IF NOT EXISTS record (shelf TEXT, key TEXT, value TEXT, PRIMARY KEY (shelf, key)) WITHOUT ROWID; COMMIT;',
    );
  } catch (error) {
    sqlite.close();
    if (error instanceof Error && /lock|busy/i.test(error.message)) {
      throw new EmulatorRefusal(
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
  if (found > layout) {
    sqlite.close();
    throw new EmulatorRefusal(
      409,
      `${path} was written by a later emulator (layout ${String(found)}, this one knows ${String(layout)}). ` +
        'Use that one, or name another state folder.',
    );
  }
  sqlite.exec(`PRAGMA user_version = ${String(layout)}`);

  const read = sqlite.prepare('SELECT key, value FROM record WHERE shelf = ?');
  const write = sqlite.prepare('INSERT OR REPLACE INTO record (shelf, key, value) VALUES (?, ?, ?)');
  const erase = sqlite.prepare('DELETE FROM record WHERE shelf = ? AND key = ?');
  const pending: (() => void)[] = [];

  return {
    shelf<T>(name: string): Shelf<T> {
      const records = new Map<string, T>();
      for (const row of read.all(name)) records.set(String(row['key']), JSON.parse(String(row['value'])) as T);
      const dirty = new Set<string>();
      const note = (key: string): void => {
        if (dirty.size === 0) {
          pending.push(() => {
            for (const changed of dirty) {
              const record = records.get(changed);
              if (record === undefined) erase.run(name, changed);
              else write.run(name, changed, JSON.stringify(record));
            }
            dirty.clear();
          });
        }
        dirty.add(key);
      };
      return {
        get: (key) => records.get(key),
        put(key, record) {
          records.set(key, record);
          note(key);
        },
        remove(key) {
          if (records.delete(key)) note(key);
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
