// Backup of a home: saves its rows and files in one file, and restores them.

import { existsSync, renameSync, rmSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { exitCode, JobmanError } from '../app/errors.ts';
import { fileError } from '../app/file-errors.ts';
import { formatTimestamp } from '../app/format.ts';
import type { BackupService, Io } from '../app/services.ts';
import { takeLock } from '../controller/lock.ts';
import { openBackup, saveFiles, usedFoldersOf } from '../files/backup-files.ts';
import { makeHome, writeAtomically } from '../files/files.ts';
import { schemaVersion } from '../store/database.ts';
import { loadRows, openClosed, requireEmptyDatabase, saveRows, withSavedRows } from '../store/rows.ts';
import { databaseName } from './controller-database.ts';
import { databaseOf, hasDatabase, restoringMarker } from './paths.ts';

export function createBackupService({ io, home }: { readonly io: Io; readonly home: string }): BackupService {
  async function save(path: string, { withSecrets }: { readonly withSecrets: boolean }) {
    const file = resolve(io.cwd, path);
    if (existsSync(file))
      throw new JobmanError(`${file} exists already. Nothing was changed.`, exitCode.conflict, ['Name a new file.']);
    const database = databaseOf({ io, home });
    if (!hasDatabase(database))
      throw new JobmanError(`There is nothing to back up: ${home} has no database.`, exitCode.notFound);
    const draft = `${file}.unfinished`;
    try {
      removeDatabase(draft);
      const rows = await saveRows(database, draft);
      const about = {
        created_at: String(io.now()),
        version: io.version,
        home,
        database: await databaseName(database),
        installation: rows.installation ?? '',
      };
      const files = await saveFiles(draft, home, { jobs: rows.jobs, withSecrets, about });
      renameSync(draft, file);
      const { size } = statSync(file);
      return { file, size, jobs: rows.jobs.size, ...files, schema: schemaVersion, tables: rows.tables };
    } catch (error) {
      removeDatabase(draft);
      throw fileError(file, error);
    }
  }

  async function restore(path: string) {
    const file = resolve(io.cwd, path);
    if (!existsSync(file)) throw new JobmanError(`There is no file ${file}.`, exitCode.notFound);
    requireEmptyHome();
    const database = databaseOf({ io, home }, { mayBeIncomplete: true });
    const backup = openBackup(file);
    try {
      backup.check();
      const scratch = join(home, 'restoring.db');
      makeHome(home);
      return await withSavedRows(file, scratch, async (rows, saved) => {
        // Before the files, so that nothing changes if the database has jobs.
        await requireEmptyDatabase(database);
        const unlock = takeLock(join(home, 'controller.lock'));
        if (unlock === undefined)
          throw new JobmanError(`A controller of ${home} is running. Nothing was changed.`, exitCode.conflict, [
            'jobman controller stop',
          ]);
        try {
          const marker = restoringMarker(home);
          writeAtomically(marker, `${file}\n`);
          backup.restore(home);
          const createdAt = Number(backup.about.get('created_at'));
          await loadRows(rows, saved, database, `was restored from a backup of ${formatTimestamp(createdAt)}`);
          rmSync(marker, { force: true });
          return { file, createdAt, jobs: saved.jobs.size, ...backup.files, tables: saved.tables };
        } finally {
          unlock();
        }
      });
    } finally {
      backup.close();
    }
  }

  function requireEmptyHome(): void {
    const used = existsSync(restoringMarker(home)) ? [] : usedFoldersOf(home);
    if (used.length === 0) return;
    throw new JobmanError(
      `${home} is not empty: it has ${used.map((name) => `${name}/`).join(', ')}. Nothing was changed.`,
      exitCode.conflict,
      ['Restore into a new home: JOBMAN_HOME=FOLDER jobman restore FILE'],
    );
  }

  return { save, restore, takeOver: async () => openClosed(databaseOf({ io, home })) };
}

function removeDatabase(file: string): void {
  for (const end of ['', '-wal', '-shm', '-journal']) rmSync(file + end, { force: true });
}
