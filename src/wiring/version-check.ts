// Version check: a command reads the result of the last check, and starts the next one in a separate process.

import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { JobmanError, messageOf } from '../app/errors.ts';
import { makeFolder, settingsFile, writeAtomically } from '../app/files.ts';
import type { Io, Services } from '../app/services.ts';
import type { SettingsFiles } from '../app/settings.ts';
import {
  minCheckInterval,
  defaultCheckInterval,
  isAbout,
  isCheckDue,
  checkVersionArgument,
  parseVersionNotes,
  serializeVersionNotes,
  versionNotice,
  type VersionNotes,
} from '../app/version-check.ts';
import { minute, type Duration } from '../core/model/time.ts';
import { createHttpClient } from '../http/client.ts';
import { NoReply } from '../http/reply.ts';
import { parseDuration } from '../manifest/durations.ts';

const checkTimeout: Duration = 2 * minute;

/** The file name of an older jobman, so that both share one file. */
function lastCheckFile(home: string): string {
  return join(home, 'last_update_check.json');
}

/** Reads the result of the last check, and starts a check if one is due. Never throws or waits. */
export function newerVersion(services: Services): string | null {
  const { io, home } = services;
  const file = lastCheckFile(home);
  const notes = readNotes(file);
  let repository: string | null = null;
  try {
    const files = services.settingsFiles();
    repository = repositoryIn(files);
    if (repository !== null && isDue(notes, repository, io)) {
      recordStart(file, notes, repository, io);
      startCheck(io, home, files.explicit);
    }
  } catch {
    // Without a check, the version of the last one is reported.
  }
  // `-s` may name another repository than the last check used, or none.
  const isOfThis = notes !== undefined && isAbout(notes, repository);
  return (isOfThis ? versionNotice(notes, io.version) : undefined) ?? null;
}

/** Notes about another repository cause at most one check a minute. */
function isDue(notes: VersionNotes | undefined, repository: string, io: Io): boolean {
  return isCheckDue(
    notes === undefined || isAbout(notes, repository) ? notes : { ...notes, intervalMs: minCheckInterval },
    io.now(),
  );
}

function readNotes(file: string): VersionNotes | undefined {
  try {
    return parseVersionNotes(readFileSync(file, 'utf8'));
  } catch {
    return undefined;
  }
}

/** Searches the text, because parsing takes longer than most commands. The last file wins. */
function repositoryIn({ home, explicit, template }: SettingsFiles): string | null {
  let found: string | null = null;
  for (const path of [template, settingsFile(home), explicit]) {
    if (path === null || path === undefined) continue;
    try {
      const value = repositoryPattern.exec(readFileSync(path, 'utf8'))?.[1];
      if (value !== undefined) found = JSON.parse(value) as string | null;
    } catch {
      // An unreadable file names no repository; the command that reads the settings reports it.
    }
  }
  return found === '' ? null : found;
}

/** The section contains no objects. */
const repositoryPattern = /"newVersion"\s*:\s*\{[^{}]*?"repository"\s*:\s*(null|"(?:[^"\\]|\\.)*")/;

/** A failing check is not repeated at once. */
function recordStart(file: string, notes: VersionNotes | undefined, repository: string, io: Io): void {
  const before = notes !== undefined && isAbout(notes, repository) ? notes : noNotes;
  makeFolder(dirname(file));
  writeAtomically(file, serializeVersionNotes({ ...before, repository, lastCheck: io.now() }));
}

const noNotes: VersionNotes = {
  lastCheck: 0,
  remoteVersion: null,
  intervalMs: defaultCheckInterval,
  message: null,
  lastError: null,
  repository: null,
};

function startCheck(io: Io, home: string, named: string | undefined): void {
  const [program = '', ...before] = io.launcher;
  const child = spawn(program, [...before, checkVersionArgument, ...(named === undefined ? [] : [named])], {
    cwd: '/',
    env: { ...io.env, JOBMAN_HOME: home } as NodeJS.ProcessEnv,
    stdio: 'ignore',
    detached: true,
  });
  child.on('error', () => undefined);
  child.unref();
}

/** Runs in a separate process. A failed check keeps the version of an earlier one. */
export async function checkVersion(services: Services): Promise<void> {
  const { io, home } = services;
  const file = lastCheckFile(home);
  const seen = repositoryIn(services.settingsFiles());
  const notes = readNotes(file);
  const before = notes === undefined || (seen !== null && !isAbout(notes, seen)) ? noNotes : notes;
  const write = (found: Partial<VersionNotes>): void =>
    writeAtomically(
      file,
      serializeVersionNotes({ ...before, repository: seen, lastError: null, ...found, lastCheck: io.now() }),
    );
  try {
    const { repository, packageJsonPath, customMessage, check } = (await services.clusterSettings()).settings
      .newVersion;
    const rest = { intervalMs: parseDuration(check) ?? defaultCheckInterval, message: customMessage };
    if (repository === null) {
      write({ ...rest, remoteVersion: null });
      return;
    }
    const { remoteVersion } = await import('../app/version-source.ts');
    try {
      const signal = AbortSignal.timeout(checkTimeout);
      const fetch = (address: string, bytes: number): Promise<Buffer> => download(io, address, bytes, signal);
      const wanted = packageJsonPath ?? 'package.json';
      const found = await remoteVersion({ repository, packageJsonPath: wanted, fetch, signal });
      write({ ...rest, remoteVersion: found });
    } catch (error) {
      write({ ...rest, lastError: messageOf(error) });
    }
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    write({ lastError: error.message });
  }
}

/** Downloads at most `bytes` bytes; follows redirections. Throws an Error with a message for users. */
export async function download(
  { env }: Pick<Io, 'env'>,
  address: string,
  bytes: number,
  signal: AbortSignal,
): Promise<Buffer> {
  const limits = { answer: checkTimeout, total: checkTimeout, bytes };
  const client = createHttpClient({ env, limits });
  let url = address;
  try {
    for (let hop = 0; hop < 5; hop += 1) {
      const reply = await client.request({ url, signal });
      if (reply instanceof NoReply) throw new Error(`${url} did not answer: ${reply.message}`);
      const { location } = reply.headers;
      if (reply.status < 300) return reply.bytes;
      if (reply.status >= 400 || location === undefined) throw new Error(`${url} answered ${reply.status}`);
      url = new URL(location, url).href;
    }
    throw new Error(`${address} redirects too often`);
  } finally {
    client.close();
  }
}
