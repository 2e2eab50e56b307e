// import: the folders of the TPU manager before this one come along.

import { lstatSync, readdirSync, readSync, realpathSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { exitCode, JobmanError, usageError } from '../../app/errors.ts';
import { countText } from '../../app/figures.ts';
import { withRegularFile } from '../../app/files.ts';
import type { ImportLine } from '../../lab/import-data.ts';
import {
  oldJobFolders,
  planJobsImport,
  type FolderDoor,
  type JobsImport,
  type JobsPlan,
  type OldJobFolder,
} from '../../lab/import-jobs.ts';
import type { FilesTarget, LabServices } from '../../lab/lab.ts';
import type { FileDoor } from '../../manifest/files.ts';
import { loadManifest } from '../../manifest/parse.ts';
import { formatProblems } from '../../schema/problems.ts';
import type { Cli } from '../context.ts';
import { disk } from '../disk.ts';
import { showImport } from '../render/import-lines.ts';

export async function importJobs(
  cli: Cli,
  flags: { readonly apply?: boolean | undefined },
  path: string,
): Promise<number> {
  const { io } = cli;
  const folder = realPath(resolve(io.cwd, path));
  const door = folderDoor(folder);
  const folders = oldJobFolders(folder, door);
  if (folders === null) throw noFolder(folder, door);
  const isMeant = flags.apply === true;
  const plan = planJobsImport(folders, await partsOf(cli, folder, door));
  const lines = isMeant ? [...plan.lines, ...(await takeOver(cli, folder, plan))] : plan.lines;
  showImport(cli, lines, isMeant);
  return exitCode.ok;
}

/**
 * Records the jobs in one transaction, and copies their files afterwards; returns what is to be said in addition to the plan. Files
 * that an earlier import could not copy are copied now.
 */
async function takeOver(cli: Cli, root: string, plan: JobsPlan): Promise<readonly ImportLine[]> {
  // main.ts hands in services with the lab; this command needs the part of the record that takes past jobs.
  const services = cli.services as LabServices;
  const lab = await services.lab();
  try {
    const ids = await lab.record.together(async (one) => {
      const given: string[] = [];
      for (const { past } of plan.taken) given.push(await one.addPastJob(past));
      return given;
    });
    const home = await services.labHome();
    const lines: ImportLine[] = [];
    const copy = async (job: FilesTarget, from: OldJobFolder, what: string): Promise<void> => {
      try {
        const missing = await home.takeFiles(job, root, from);
        for (const says of missing) lines.push({ kind: 'note', what, says: `not copied: ${says}` });
      } catch (error) {
        if (!(error instanceof JobmanError)) throw error;
        lines.push({ kind: 'note', what, says: `its logs were not copied: ${error.message}` });
      }
    };
    for (const [index, { from, past, what }] of plan.taken.entries()) {
      const id = ids[index] ?? '';
      lines.push({ kind: 'note', what, says: `it is job ${id} here` });
      await copy({ id, owner: past.owner, isNew: true }, from, what);
    }
    for (const { from, id, owner, what } of plan.known) await copy({ id, owner, isNew: false }, from, what);
    return lines;
  } finally {
    await lab.close();
  }
}

async function partsOf({ io, services }: Cli, root: string, door: FolderDoor): Promise<JobsImport> {
  const [settings, client] = await Promise.all([services.settings(), services.client()]);
  const { rows } = await client.list({ all: true });
  const here = new Map(rows.map(({ id, user, name, createdAt }) => [[user, name, createdAt].join(' '), id]));
  return {
    owner: io.user,
    now: io.now(),
    idHere: ({ owner, name, createdAt }) => here.get([owner, name, createdAt].join(' ')) ?? null,
    read(config) {
      if (door.text(config) === null) return 'its config.yaml is missing or not a regular file';
      const result = loadManifest({
        file: config,
        cwd: dirname(config),
        sets: [],
        home: io.userHome,
        // The manifests are other people's: what they name must not bring files and variables of this login into the record.
        env: { HOME: io.userHome, USER: io.user, LOGNAME: io.user },
        door: below(root),
        project: settings.tpu.project,
        purpose: 'check',
      });
      if ('cluster' in result) return 'it is a job of a Kubernetes cluster';
      if (!('problems' in result)) return { spec: result.spec, text: result.text ?? '' };
      const [first = '', ...others] = formatProblems('config.yaml', result.problems);
      const more =
        others.length === 0 ? '' : ` (and ${countText(others.length, 'problem')} more: jobman validate ${config})`;
      return `its manifest cannot be read: ${first}${more}`;
    },
  };
}

/** The files of `root` as a manifest's: no links, and nothing outside. */
function below(root: string): FileDoor {
  const outside = 'it is outside the imported folder';
  return {
    look(path) {
      const look = disk.look(path);
      return look.kind === 'absent' || (path.startsWith(`${root}/`) && realPath(path) === path)
        ? look
        : { kind: 'unreadable', detail: outside };
    },
    read(path, most) {
      try {
        return withRegularFile(root, path, (file, size) => {
          const bytes = new Uint8Array(Math.min(size, most + 1));
          return { bytes: bytes.subarray(0, readSync(file, bytes)) };
        });
      } catch {
        return { detail: outside };
      }
    },
  };
}

/** Links above the folder, and the folder itself as a link, are the caller's own. */
function realPath(folder: string): string {
  try {
    return realpathSync(folder);
  } catch {
    return folder;
  }
}

function noFolder(folder: string, door: FolderDoor): JobmanError {
  const isFile = door.changedAt(folder) !== null && door.names(folder) === null;
  if (isFile) {
    return usageError(`${folder} is a file, and not the folder jobs/ of the TPU manager.`, [
      `The data.json of the tpu command: tpu import ${folder}`,
    ]);
  }
  if (door.names(folder) === null) return new JobmanError(`There is no folder ${folder}.`, exitCode.notFound);
  return usageError(
    `${folder} is no jobs/ of the TPU manager: it has neither .jobman nor .state, nor a folder of a job (000001).`,
  );
}

/** Bytes at the end of a file that are read: a job reports its result in its last lines. */
const textMost = 4 * 1024 * 1024;

/** Follows no links below `root`, and reads regular files only. */
const folderDoor = (root: string): FolderDoor => ({
  names(folder) {
    try {
      return realpathSync(folder) === folder ? readdirSync(folder).toSorted() : null;
    } catch {
      return null;
    }
  },
  text(path) {
    try {
      return withRegularFile(root, path, (file, size) => {
        const length = Math.min(size, textMost);
        const bytes = new Uint8Array(length);
        const got = readSync(file, bytes, 0, length, size - length);
        return Buffer.from(bytes.subarray(0, got)).toString('utf8');
      });
    } catch {
      return null;
    }
  },
  changedAt(path) {
    try {
      const facts = lstatSync(path);
      return facts.isFile() || facts.isDirectory() ? Math.round(facts.mtimeMs) : null;
    } catch {
      return null;
    }
  },
});
