// Paths of jobman's own files.

import { existsSync, readFileSync } from 'node:fs';
import { isAbsolute, join, resolve } from 'node:path';
import { databaseVariable } from '../app/database-url.ts';
import { exitCode, isFileMissing, JobmanError } from '../app/errors.ts';
import { fileError } from '../app/file-errors.ts';
import { quote } from '../catalogue/shell.ts';
import { isGroupShared, packageFolder, settingsFile } from '../files/files.ts';
import { localFoldersOf } from '../files/job-folder.ts';
import type { Io } from '../app/services.ts';
import type { DatabaseAddress } from '../store/open-database.ts';

/** `$JOBMAN_HOME` as an absolute path; `~/.jobman` when it is not set. */
export function homeOf(io: Io): string {
  const named = io.env['JOBMAN_HOME'];
  if (named === undefined || named === '') return join(io.userHome, '.jobman');
  return isAbsolute(named) ? named : resolve(io.cwd, named);
}

/** The settings file that `$JOBMAN_SETTINGS` names, as an absolute path. The flag `--settings` replaces it. */
export function namedSettings(io: Pick<Io, 'env' | 'cwd'>): string | undefined {
  const named = io.env['JOBMAN_SETTINGS'] ?? '';
  return named === '' ? undefined : resolve(io.cwd, named);
}

/** The built template, which an administrator may have edited, else that of the source; null without both. */
export function templateFile(entry: string): string | null {
  const root = packageFolder(entry);
  const candidates = [join(root, 'dist/settings.json'), join(root, 'src/app/cluster/settings.template.json')];
  return candidates.find((candidate) => existsSync(candidate)) ?? null;
}

/** The built dashboard, for a browser. */
export function dashboardFolder(entry: string): string {
  return join(packageFolder(entry), 'dist/dashboard');
}

/** Exists while a home is being restored, with the path of the backup. */
export function restoringMarker(home: string): string {
  return join(home, 'restoring');
}

/**
 * The database of a home: a server's, or the file `state.db`. Throws JobmanError for unreadable settings, and for a home of which
 * only a part is restored, unless `mayBeIncomplete`.
 */
export function databaseOf(
  { io, home }: { readonly io: Pick<Io, 'env'>; readonly home: string },
  { mayBeIncomplete = false } = {},
): DatabaseAddress {
  const backup = mayBeIncomplete ? null : readIfPresent(restoringMarker(home));
  if (backup !== null)
    throw new JobmanError(`A backup is being restored into ${home}. Nothing was changed.`, exitCode.conflict, [
      `If the restore has failed or was killed, repeat it: jobman restore ${quote(backup.trim())}`,
    ]);
  const url = databaseUrl(io.env, home);
  return url === null ? { file: databaseFile(home) } : { url };
}

function readIfPresent(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (isFileMissing(error)) return null;
    throw fileError(path, error);
  }
}

/** Null for a database in the home. Reads only the text of the settings: their table would slow every command. */
function databaseUrl(env: Io['env'], home: string): string | null {
  const variable = env[databaseVariable] ?? '';
  if (variable !== '') return variable;
  const path = settingsFile(home);
  const text = readIfPresent(path);
  if (text === null || !text.includes('"database"')) return null;
  try {
    const { database } = JSON.parse(text.replace(/^\uFEFF/, '')) as { readonly database?: unknown };
    return typeof database === 'string' ? database : null;
  } catch {
    throw new JobmanError(`${path} is not JSON, so its database is unknown. Nothing was changed.`, exitCode.usage, [
      'To see the mistake: jobman settings',
    ]);
  }
}

/** False if no settings file can name it. Reads only their texts: the table of settings would slow every command. */
export function mayNameData(home: string, explicit: string | undefined): boolean {
  return [settingsFile(home), ...(explicit === undefined ? [] : [explicit])].some((path) => {
    try {
      return /"data"/.test(readFileSync(path, 'utf8'));
    } catch {
      return false;
    }
  });
}

export function databaseFile(home: string): string {
  return join(home, 'state.db');
}

/** False if no command has created the database yet. A server is always asked. */
export function hasDatabase(address: DatabaseAddress): boolean {
  return 'url' in address || existsSync(address.file);
}

/** True if the home has files of a job with that id: a restored or new database may count from a smaller number. */
export function hasJobFiles(home: string): (id: string, owner: string) => boolean {
  return (id, owner) => localFoldersOf(home, owner, id).some((folder) => existsSync(folder));
}

/** Exists once a job was submitted to a cluster from this home. */
export function submittedMarker(home: string): string {
  return join(home, 'submitted');
}

/** The servers and tokens of this login. In a home that a group shares, each login has a file of its own. */
export function contextsFile(home: string, uid: number): string {
  return join(home, isGroupShared(home) ? `servers-${uid}.json` : 'servers.json');
}

/** False if the file names no current context. Reads only its text: the code that checks it would slow every command. */
export function mayHaveCurrentContext(file: string): boolean {
  if (!existsSync(file)) return false;
  try {
    const { current } = JSON.parse(readFileSync(file, 'utf8')) as { readonly current?: unknown };
    return current !== null;
  } catch {
    return true;
  }
}
