// The home as a folder that a group shares: sets and checks the modes.

import { randomUUID } from 'node:crypto';
import {
  chmodSync,
  chownSync,
  closeSync,
  existsSync,
  lstatSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { exitCode, JobmanError, messageOf } from '../app/errors.ts';
import { fileError } from '../app/file-errors.ts';
import { escapeLine } from '../app/format.ts';
import { attemptFile, jobFolder, logFolder, manifestFile, newestLink } from '../files/job-folder.ts';
import {
  fileModeIn,
  isGroupShared,
  makeFolder,
  readRegularFile,
  sharedFolderMode,
  withRegularFile,
} from '../files/files.ts';
import { isControllerRunning } from '../controller/lock.ts';
import { classifyLog } from '../lab/import-job-folders.ts';
import { type Lab, type LabHome, sharedMode, type WrongMode } from '../lab/lab.ts';
import type { LabStore } from '../lab/lab-store.ts';
import { directoryOf } from '../lab/users.ts';
import { runProcess } from '../remote/process.ts';

/** The working directories of this machine. */
export function createDirectories(store: Pick<LabStore, 'users'>): Pick<Lab, 'directory' | 'checkFolder'> {
  return {
    async directory(name, number) {
      const user = (await store.users()).find((one) => one.name === name);
      if (user === undefined) throw new JobmanError(`There is no user ${JSON.stringify(name)}.`, exitCode.notFound);
      const path = directoryOf(user, number);
      const script = withoutFailure(() => readRegularFile(join(path, 'ka.sh'), maxScriptBytes).toString('utf8'));
      return { path, exists: existsSync(path), hasScript: existsSync(join(path, scriptFile)), tpuScript: script };
    },
    async checkFolder(path) {
      // Of a client a path may be any text, for some of which Node throws.
      if (withoutFailure(() => statSync(path).isDirectory()) === true)
        return { hasScript: existsSync(join(path, scriptFile)) };
      throw new JobmanError(`There is no folder ${escapeLine(path)}. Nothing was changed.`, exitCode.notFound);
    },
  };
}

const scriptFile = 'staging.sh';
const maxScriptBytes = 1024 * 1024;

function withoutFailure<T>(read: () => T): T | null {
  try {
    return read();
  } catch {
    return null;
  }
}

export function createLabHome(home: string): LabHome {
  return {
    async share(group) {
      const gid = await groupIdOf(group);
      if (isControllerRunning(home)) {
        throw new JobmanError(
          `A controller is running in ${home}, and its new files would be private to its login.`,
          exitCode.conflict,
          ['First: jobman controller stop'],
        );
      }
      // A new home is private to its owner until all modes are right.
      try {
        makeFolder(home, 0o700);
      } catch (error) {
        throw fileError(home, error);
      }
      const entries = listHome(home);
      try {
        // From the inside out, so that the home opens last.
        for (const { path, mode, gid: own, wantedMode } of entries.toReversed()) {
          // A change of group clears a file's setgid bit, so it comes first.
          if (own !== gid) chownSync(path, -1, gid);
          if (mode !== wantedMode || own !== gid) chmodSync(path, wantedMode);
        }
      } catch (error) {
        throw new JobmanError(`Cannot give ${home} to the group ${group}: ${messageOf(error)}.`, exitCode.failed, [
          'You must own all its files and be a member of the group (`id -Gn` lists your groups; a new one counts from the next login).',
        ]);
      }
      return [
        `The group ${group} now shares ${home} and all new files in it.`,
        `Each login of the group sets JOBMAN_HOME=${home}. Every member can do what the login of the controller can do.`,
      ];
    },

    async saveSecret(name, value) {
      const folder = join(home, 'secrets');
      const file = join(folder, name);
      makeFolder(folder, 0o700);
      try {
        writeFileSync(file, `${value}\n`, { mode: 0o600, flag: 'wx' });
        return { file, isNew: true };
      } catch (error) {
        if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return { file, isNew: false };
        throw fileError(file, error);
      }
    },

    async copyJobFiles({ id, owner, isNew }, root, { path, logs }) {
      const folder = jobFolder(home, owner, id);
      const leftOut: string[] = [];
      const copyIn = (from: string, to: string): void => {
        if (!isNew && existsSync(to)) return;
        makeFolder(dirname(to));
        const problem = copyFile(root, from, to);
        if (problem !== null) leftOut.push(problem);
      };
      try {
        makeFolder(logFolder(folder));
        copyIn(join(path, 'config.yaml'), manifestFile(folder));
        if (existsSync(join(path, 'ips.json'))) copyIn(join(path, 'ips.json'), join(folder, 'ips.json'));
        for (const name of logs) {
          const here = classifyLog(name);
          const file = here.kind === 'command' ? attemptFile(folder, 1, here.worker) : join(logFolder(folder), name);
          copyIn(join(path, 'logs', name), file);
          if (here.kind !== 'command' || !existsSync(file)) continue;
          const link = newestLink(folder, here.worker);
          if (!existsSync(link)) symlinkSync(relative(logFolder(folder), file), link);
        }
        return leftOut;
      } catch (error) {
        throw fileError(folder, error);
      }
    },

    async loginsNamed(name) {
      if (!isGroupShared(home)) return null;
      const { exitCode: code } = await runProcess({
        argv: ['id', '-u', '--', name],
        timeoutMs: 10_000,
        maxOutputBytes: 1000,
      });
      return code === 0 ? [name] : [];
    },

    wrongModes: () => Promise.resolve(isGroupShared(home) ? findWrongModes(home) : null),
  };
}

/** The copy is complete or missing. Returns why the source cannot be read, or null. */
function copyFile(root: string, from: string, to: string): string | null {
  const unfinished = `${to}.${randomUUID()}`;
  let writeError: unknown;
  try {
    withRegularFile(root, from, (source) => {
      try {
        const target = openSync(unfinished, 'wx', fileModeIn(dirname(to)));
        try {
          const bytes = new Uint8Array(1024 * 1024);
          for (let got = readSync(source, bytes); got > 0; got = readSync(source, bytes))
            writeFileSync(target, bytes.subarray(0, got));
        } finally {
          closeSync(target);
        }
        renameSync(unfinished, to);
      } catch (error) {
        writeError = error;
        rmSync(unfinished, { force: true });
      }
    });
  } catch (error) {
    return messageOf(error);
  }
  if (writeError !== undefined) throw writeError;
  return null;
}

function findWrongModes(home: string): readonly WrongMode[] {
  const { gid: right } = statSync(home);
  return listHome(home).flatMap(({ path, mode, gid, wantedMode }): readonly WrongMode[] => {
    if (gid !== right) return [{ path, message: `of the group ${gid}, should be of ${right}` }];
    return mode === wantedMode ? [] : [{ path, message: `${octal(mode)}, should be ${octal(wantedMode)}` }];
  });
}

interface Entry {
  readonly path: string;
  readonly mode: number;
  readonly gid: number;
  readonly wantedMode: number;
}

/** The home first, and each folder before its entries. */
function listHome(home: string): readonly Entry[] {
  const entries: Entry[] = [];
  const walk = (names: readonly string[]): void => {
    const path = join(home, ...names);
    const facts = lstatSync(path, { throwIfNoEntry: false });
    // The path vanished, or is a link, which has no mode.
    if (facts === undefined || facts.isSymbolicLink()) return;
    const isFolder = facts.isDirectory();
    const mode = facts.mode & 0o7777;
    const wanted = names.length === 0 ? sharedFolderMode : sharedMode({ path: names, isFolder, mode });
    if (wanted === null) return;
    entries.push({ path, mode, gid: facts.gid, wantedMode: wanted });
    if (isFolder) for (const name of listFolder(path)) walk([...names, name]);
  };
  walk([]);
  return entries;
}

/** Empty if this login may not read it: the folder's own mode is reported. */
function listFolder(folder: string): readonly string[] {
  try {
    return readdirSync(folder).toSorted();
  } catch {
    return [];
  }
}

function octal(mode: number): string {
  return mode.toString(8).padStart(4, '0');
}

/** From the directory service, else from the system's file. */
async function groupIdOf(group: string): Promise<number> {
  if (/^\d+$/.test(group)) return Number(group);
  const { stdout } = await runProcess({
    argv: ['getent', 'group', group],
    timeoutMs: 10_000,
    maxOutputBytes: 1_000_000,
  });
  const answer = stdout.length > 0 ? Buffer.from(stdout).toString('utf8') : readFileSync('/etc/group', 'utf8');
  const line = answer.split('\n').find((one) => one.startsWith(`${group}:`));
  const gid = Number(line?.split(':')[2] ?? Number.NaN);
  if (Number.isInteger(gid)) return gid;
  throw new JobmanError(`There is no group "${group}".`, exitCode.notFound, [
    `An administrator creates one: groupadd ${group}; usermod -aG ${group} LOGIN`,
  ]);
}
