// The home as a folder that a group shares: made so, and looked through.

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
import { exitCode, JobmanError, textOf, fileError } from '../app/errors.ts';
import { attemptFile, jobFolder, logFolder, manifestFile, newestLink } from '../app/job-folder.ts';
import { fileModeIn, isShared, makeFolder, sharedFolderMode, withRegularFile } from '../app/files.ts';
import { isControllerRunning } from '../controller/lock.ts';
import { logHere } from '../lab/import-jobs.ts';
import { type LabHome, sharedMode, type WrongMode } from '../lab/lab.ts';
import { runProcess } from '../remote/process.ts';

export function createLabHome(home: string): LabHome {
  return {
    async share(group) {
      const gid = await groupCalled(group);
      if (isControllerRunning(home)) {
        throw new JobmanError(
          `A controller runs in ${home}, and goes on making files that are for its own login only.`,
          exitCode.conflict,
          ['First: jobman controller stop'],
        );
      }
      // A new home is its owner's alone until all modes are right.
      makeFolder(home, 0o700);
      const entries = entriesOf(home);
      try {
        // From the inside out, so that the home opens last.
        for (const { path, mode, gid: own, wanted } of entries.toReversed()) {
          // A change of group takes the setgid bit off a file, so it comes first.
          if (own !== gid) chownSync(path, -1, gid);
          if (mode !== wanted || own !== gid) chmodSync(path, wanted);
        }
      } catch (error) {
        throw new JobmanError(
          `The system does not let you give ${home} to the group ${group}: ${textOf(error)}.`,
          exitCode.failed,
          [
            'You must own what is in it and be in that group yourself (`id -Gn` lists yours; a new one counts from the next login).',
          ],
        );
      }
      return [
        `${home} is shared by the group ${group} now, and so is all that is made in it.`,
        `Each login of the group sets JOBMAN_HOME=${home}. Whoever is in the group can do whatever the login can that runs the controller.`,
      ];
    },

    async keepSecret(name, value) {
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

    async takeFiles({ id, owner, isNew }, root, { path, logs }) {
      const folder = jobFolder(home, owner, id);
      const leftOut: string[] = [];
      const take = (from: string, to: string): void => {
        if (!isNew && existsSync(to)) return;
        makeFolder(dirname(to));
        const problem = copy(root, from, to);
        if (problem !== null) leftOut.push(problem);
      };
      try {
        makeFolder(logFolder(folder));
        take(join(path, 'config.yaml'), manifestFile(folder));
        if (existsSync(join(path, 'ips.json'))) take(join(path, 'ips.json'), join(folder, 'ips.json'));
        for (const name of logs) {
          const here = logHere(name);
          const file = here.kind === 'command' ? attemptFile(folder, 1, here.worker) : join(logFolder(folder), name);
          take(join(path, 'logs', name), file);
          if (here.kind !== 'command' || !existsSync(file)) continue;
          const link = newestLink(folder, here.worker);
          if (!existsSync(link)) symlinkSync(relative(logFolder(folder), file), link);
        }
        return leftOut;
      } catch (error) {
        throw fileError(folder, error);
      }
    },

    wrong: () => Promise.resolve(isShared(home) ? wrongIn(home) : null),
  };
}

/**
 * Copies a regular file below `root`, with the rights that a file of ours has in the folder of `to`, which gets the whole file or
 * none. Returns why it cannot be read, or null; throws what the system says when it cannot be written.
 */
function copy(root: string, from: string, to: string): string | null {
  const unfinished = `${to}.${randomUUID()}`;
  let writing: unknown;
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
        writing = error;
        rmSync(unfinished, { force: true });
      }
    });
  } catch (error) {
    return textOf(error);
  }
  if (writing !== undefined) throw writing;
  return null;
}

function wrongIn(home: string): readonly WrongMode[] {
  const { gid: right } = statSync(home);
  return entriesOf(home).flatMap(({ path, mode, gid, wanted }): readonly WrongMode[] => {
    if (gid !== right) return [{ path, says: `of the group ${gid}, should be of ${right}` }];
    return mode === wanted ? [] : [{ path, says: `${octal(mode)}, should be ${octal(wanted)}` }];
  });
}

interface Entry {
  readonly path: string;
  readonly mode: number;
  readonly gid: number;
  readonly wanted: number;
}

/** The paths that are to be the group's: the home first, and each folder before what is in it. */
function entriesOf(home: string): readonly Entry[] {
  const entries: Entry[] = [];
  const walk = (names: readonly string[]): void => {
    const path = join(home, ...names);
    const facts = lstatSync(path, { throwIfNoEntry: false });
    // The path vanished, or is a link, which has no mode of its own.
    if (facts === undefined || facts.isSymbolicLink()) return;
    const isFolder = facts.isDirectory();
    const mode = facts.mode & 0o7777;
    const wanted = names.length === 0 ? sharedFolderMode : sharedMode({ path: names, isFolder, mode });
    if (wanted === null) return;
    entries.push({ path, mode, gid: facts.gid, wanted });
    if (isFolder) for (const name of namesIn(path)) walk([...names, name]);
  };
  walk([]);
  return entries;
}

/** Empty where this login may not read: the mode of the folder is reported itself. */
function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder).toSorted();
  } catch {
    return [];
  }
}

function octal(mode: number): string {
  return mode.toString(8).padStart(4, '0');
}

/** The id of a group by its name or id: from the directory service, else from the system's file. */
async function groupCalled(group: string): Promise<number> {
  if (/^\d+$/.test(group)) return Number(group);
  const { stdout } = await runProcess({ argv: ['getent', 'group', group], timeoutMs: 10_000, outputMost: 1_000_000 });
  const answer = stdout.length > 0 ? Buffer.from(stdout).toString('utf8') : readFileSync('/etc/group', 'utf8');
  const line = answer.split('\n').find((one) => one.startsWith(`${group}:`));
  const gid = Number(line?.split(':')[2] ?? Number.NaN);
  if (Number.isInteger(gid)) return gid;
  throw new JobmanError(`This system has no group "${group}".`, exitCode.notFound, [
    `Whoever administers it makes one: groupadd ${group}; usermod -aG ${group} LOGIN`,
  ]);
}
