// Version check: a command reads the result of the last check, and starts the next one in a separate process.

import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { LoadedClusterSettings } from '../app/cluster/settings.ts';
import { messageOf } from '../app/errors.ts';
import { makeFolder, settingsFile, writeAtomically } from '../files/files.ts';
import type { Io, Services } from '../app/services.ts';
import type { SettingsFiles } from '../app/settings.ts';
import {
  defaultCheckInterval,
  isCheckDue,
  checkVersionArgument,
  parseVersionNotes,
  versionNotice,
  type VersionNotes,
} from '../app/version-check.ts';
import { minute, type Duration } from '../core/model/time.ts';
import { createHttpClient } from '../http/client.ts';
import { NoReply } from '../http/reply.ts';
import { parseDuration } from '../manifest/durations.ts';

const checkTimeout: Duration = 2 * minute;

function lastCheckFile(home: string): string {
  return join(home, 'last_update_check.json');
}

/** Reads the result of the last check, and starts a check if one is due. Never throws or waits. */
export function newerVersion(services: Services): string | null {
  const { io, home } = services;
  const files = services.settingsFiles();
  const repository = repositoryIn(files);
  if (repository === null) return null;
  const file = lastCheckFile(home);
  const notes = readNotes(file, repository);
  try {
    if (isCheckDue(notes, io.now())) {
      makeFolder(home);
      // Before the check, so that a failing one is not repeated at once.
      writeAtomically(file, JSON.stringify({ ...notes, repository, lastCheck: io.now() }));
      startCheck(io, home, files.explicit);
    }
  } catch {
    // Without a check, the version of the last one is reported.
  }
  return versionNotice(notes, io.version);
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

/** Like `newerVersion`, without starting a check. */
export function knownNewerVersion(services: Services): string | null {
  const repository = repositoryIn(services.settingsFiles());
  return repository === null
    ? null
    : versionNotice(readNotes(lastCheckFile(services.home), repository), services.io.version);
}

/** The section contains no objects. */
const repositoryPattern = /"newVersion"\s*:\s*\{[^{}]*?"repository"\s*:\s*(null|"(?:[^"\\]|\\.)*")/;

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
  const repository = repositoryIn(services.settingsFiles());
  const found: Partial<Mutable<VersionNotes>> = { lastError: null };
  try {
    const { newVersion } = (await services.clusterSettings()).settings;
    found.intervalMs = parseDuration(newVersion.check) ?? defaultCheckInterval;
    found.message = newVersion.customMessage;
    found.remoteVersion = await remoteVersionOf(io, newVersion);
  } catch (error) {
    found.lastError = messageOf(error);
  }
  const notes = { ...readNotes(file, repository), repository, ...found, lastCheck: io.now() };
  writeAtomically(file, JSON.stringify(notes));
}

type Mutable<T> = { -readonly [Name in keyof T]: T[Name] };
type SourceSettings = LoadedClusterSettings['settings']['newVersion'];

async function remoteVersionOf(io: Io, { repository, packageJsonPath }: SourceSettings): Promise<string | null> {
  if (repository === null) return null;
  const { remoteVersion } = await import('../files/version-source.ts');
  const signal = AbortSignal.timeout(checkTimeout);
  const fetch = (address: string, bytes: number): Promise<Buffer> => download(io, address, bytes, signal);
  return remoteVersion({ repository, packageJsonPath: packageJsonPath ?? 'package.json', fetch, signal });
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

function readNotes(file: string, repository: string | null): VersionNotes {
  let text = '';
  try {
    text = readFileSync(file, 'utf8');
  } catch {
    // Without notes the source was never checked.
  }
  return parseVersionNotes(text, repository);
}
