// Version check: a command reads the file of the last check, and starts the next one in a process of its own.

import { spawn } from 'node:child_process';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { JobmanError, textOf } from '../app/errors.ts';
import { fileModeIn, makeFolder, settingsFile } from '../app/files.ts';
import type { Io, Services } from '../app/services.ts';
import type { SettingsFiles } from '../app/settings.ts';
import {
  everyLeast,
  everyUsual,
  isAbout,
  isLookDue,
  lookWord,
  versionNotesIn,
  versionNotesText,
  versionNotice,
  type VersionNotes,
} from '../app/version-check.ts';
import { minute, type Duration } from '../core/time.ts';
import { createHttpClient } from '../http/client.ts';
import { NoReply } from '../http/reply.ts';
import { parseDuration } from '../manifest/durations.ts';

/** How long a look may take. */
const lookMost: Duration = 2 * minute;

/** The older jobman's name of it, in the same folder. */
function notesFile(home: string): string {
  return join(home, 'last_update_check.json');
}

/**
 * The sentence about a newer version that was seen; null where there is none. Starts a look when it is time for one and the
 * settings say where. Throws nothing and waits for nothing: a command must not suffer from it.
 */
export function newerVersion(services: Services): string | null {
  const { io, home } = services;
  const file = notesFile(home);
  const notes = readNotes(file);
  let repository: string | null = null;
  try {
    const files = services.settingsFiles();
    repository = repositoryIn(files);
    if (repository !== null && isDue(notes, repository, io)) {
      noteStart(file, notes, repository, io);
      start(io, home, files.named);
    }
  } catch {
    // Without a check, the version of the last one is reported.
  }
  // `-s` may name another repository than the one of the last look, or none.
  const isOfThis = notes !== undefined && isAbout(notes, repository);
  return (isOfThis ? versionNotice(notes, io.version) : undefined) ?? null;
}

/** True if a check is due. Notes about another repository are useless, but they cause at most one check a minute. */
function isDue(notes: VersionNotes | undefined, repository: string, io: Io): boolean {
  return isLookDue(
    notes === undefined || isAbout(notes, repository) ? notes : { ...notes, every: everyLeast },
    io.now(),
  );
}

function readNotes(file: string): VersionNotes | undefined {
  try {
    return versionNotesIn(readFileSync(file, 'utf8'));
  } catch {
    return undefined;
  }
}

/**
 * The repository that the last of the files names, as it is written there; null for none. It is found in the text, because parsing
 * the settings takes longer than most commands.
 */
function repositoryIn({ home, named, template }: SettingsFiles): string | null {
  let found: string | null = null;
  for (const path of [template, settingsFile(home), named]) {
    if (path === null || path === undefined) continue;
    try {
      const value = repositoryPattern.exec(readFileSync(path, 'utf8'))?.[1];
      if (value !== undefined) found = JSON.parse(value) as string | null;
    } catch {
      // A file that cannot be read names nothing; the command that reads the settings says so.
    }
  }
  return found === '' ? null : found;
}

/** The section has no objects in it. */
const repositoryPattern = /"newVersion"\s*:\s*\{[^{}]*?"repository"\s*:\s*(null|"(?:[^"\\]|\\.)*")/;

/** Records the start of a check, so that a failing one is not repeated at once. */
function noteStart(file: string, notes: VersionNotes | undefined, repository: string, io: Io): void {
  // A version that was seen in another repository is forgotten.
  const before = notes !== undefined && isAbout(notes, repository) ? notes : noNotes;
  makeFolder(dirname(file));
  writeNotes(file, { ...before, repository, lastCheck: io.now() }, io.pid);
}

const noNotes: VersionNotes = {
  lastCheck: 0,
  remoteVersion: null,
  every: everyUsual,
  message: null,
  failed: null,
  repository: null,
};

/** Whole or not at all: another command may be reading it. */
function writeNotes(file: string, notes: VersionNotes, pid: number): void {
  const draft = `${file}.${pid}`;
  writeFileSync(draft, versionNotesText(notes), { mode: fileModeIn(dirname(draft)) });
  renameSync(draft, file);
}

function start(io: Io, home: string, named: string | undefined): void {
  const [program = '', ...before] = io.launcher;
  const child = spawn(program, [...before, lookWord, ...(named === undefined ? [] : [named])], {
    cwd: '/',
    env: { ...io.env, JOBMAN_HOME: home } as NodeJS.ProcessEnv,
    stdio: 'ignore',
    detached: true,
  });
  child.on('error', () => undefined);
  child.unref();
}

/** The check itself, in a process of its own: writes what it found or why it failed; the version of an earlier check stays. */
export async function lookForVersion(services: Services): Promise<void> {
  const { io, home } = services;
  const file = notesFile(home);
  const seen = repositoryIn(services.settingsFiles());
  const notes = readNotes(file);
  const before = notes === undefined || (seen !== null && !isAbout(notes, seen)) ? noNotes : notes;
  const write = (found: Partial<VersionNotes>): void =>
    writeNotes(file, { ...before, repository: seen, failed: null, ...found, lastCheck: io.now() }, io.pid);
  try {
    const { repository, packageJsonPath, customMessage, check } = (await services.clusterSettings()).settings
      .newVersion;
    const rest = { every: parseDuration(check) ?? everyUsual, message: customMessage };
    if (repository === null) {
      write({ ...rest, remoteVersion: null });
      return;
    }
    const { remoteVersion } = await import('../app/version-source.ts');
    try {
      const signal = AbortSignal.timeout(lookMost);
      const fetch = (address: string, bytes: number): Promise<Buffer> => fetched(io, address, bytes, signal);
      const wanted = packageJsonPath ?? 'package.json';
      const found = await remoteVersion({ repository, packageJsonPath: wanted, fetch, signal });
      write({ ...rest, remoteVersion: found });
    } catch (error) {
      write({ ...rest, failed: textOf(error) });
    }
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    write({ failed: error.message });
  }
}

/** The content at that address, of at most so many bytes; follows redirections. Throws an Error with a sentence for people. */
export async function fetched(
  { env }: Pick<Io, 'env'>,
  address: string,
  bytes: number,
  signal: AbortSignal,
): Promise<Buffer> {
  const limits = { answer: lookMost, whole: lookMost, bytes };
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
    throw new Error(`${address} leads from one address to the next`);
  } finally {
    client.close();
  }
}
