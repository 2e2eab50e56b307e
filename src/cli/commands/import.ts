// Takes over the job folders of the earlier TPU manager.

import { lstatSync, readdirSync, readSync, realpathSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { exitCode, JobmanError, usageError } from '../../app/errors.ts';
import { pluralize } from '../../app/format.ts';
import { upload } from '../../app/upload.ts';
import { withRegularFile } from '../../files/files.ts';
import type { ImportLine } from '../../lab/import-old-data.ts';
import {
  readOldJobFolders,
  planJobsImport,
  type FolderReader,
  type JobsImportOptions,
  type JobsImportPlan,
  type OldJobFolder,
} from '../../lab/import-job-folders.ts';
import type { JobFilesTarget, LabServices } from '../../lab/lab.ts';
import type { FileReader } from '../../manifest/files.ts';
import { loadManifest } from '../../manifest/parse.ts';
import { formatProblems } from '../../schema/problems.ts';
import type { Cli } from '../context.ts';
import { disk } from '../disk.ts';
import { printImport } from '../render/import-lines.ts';

export async function importJobs(
  cli: Cli,
  flags: { readonly apply?: boolean | undefined },
  path: string,
): Promise<number> {
  const { io } = cli;
  const folder = realPath(resolve(io.cwd, path));
  const reader = createFolderReader(folder);
  const folders = readOldJobFolders(folder, reader);
  if (folders === null) throw missingFolderError(folder, reader);
  const isApplied = flags.apply === true;
  const plan = planJobsImport(folders, await importOptions(cli, folder, reader));
  const lines = isApplied ? [...plan.lines, ...(await applyImport(cli, folder, plan))] : plan.lines;
  printImport(cli, lines, isApplied);
  return exitCode.ok;
}

/** Also copies files that an earlier import could not copy. Returns the lines to print after the plan. */
async function applyImport(cli: Cli, root: string, plan: JobsImportPlan): Promise<readonly ImportLine[]> {
  // main.ts passes services with the lab; this command needs the lab's store, which can add past jobs.
  const services = cli.services as LabServices;
  const lab = await services.lab();
  try {
    await upload(
      await services.client(),
      plan.imports.flatMap(({ contents }) => contents),
    );
    const ids = await lab.localStore().applyChanges(plan.imports.map(({ job }) => ({ kind: 'add_job', job })));
    const home = await services.labHome();
    const lines: ImportLine[] = [];
    const copy = async (job: JobFilesTarget, from: OldJobFolder, what: string): Promise<void> => {
      try {
        const missing = await home.copyJobFiles(job, root, from);
        for (const message of missing) lines.push({ kind: 'note', subject: what, message: `not copied: ${message}` });
      } catch (error) {
        if (!(error instanceof JobmanError)) throw error;
        lines.push({ kind: 'note', subject: what, message: `its logs were not copied: ${error.message}` });
      }
    };
    for (const [index, { from, job, subject }] of plan.imports.entries()) {
      const id = ids[index] ?? '';
      lines.push({ kind: 'note', subject, message: `it is job ${id} here` });
      await copy({ id, owner: job.owner, isNew: true }, from, subject);
    }
    for (const { from, id, owner, subject } of plan.existing) await copy({ id, owner, isNew: false }, from, subject);
    return lines;
  } finally {
    await lab.close();
  }
}

async function importOptions({ io, services }: Cli, root: string, reader: FolderReader): Promise<JobsImportOptions> {
  const [settings, client] = await Promise.all([services.settings(), services.client()]);
  const { user } = await client.whoAmI();
  const { rows } = await client.list({ all: true });
  const here = new Map(rows.map(({ id, owner, name, createdAt }) => [[owner, name, createdAt].join(' '), id]));
  return {
    owner: user,
    now: io.now(),
    existingId: ({ owner, name, createdAt }) => here.get([owner, name, createdAt].join(' ')) ?? null,
    readManifest(config) {
      if (reader.readText(config) === null) return 'its config.yaml is missing or not a regular file';
      const result = loadManifest({
        file: config,
        cwd: dirname(config),
        sets: [],
        home: io.userHome,
        // The manifests belong to other users: they must not bring files and variables of this login into the database.
        env: { HOME: io.userHome, USER: io.user, LOGNAME: io.user },
        files: filesBelow(root),
        project: settings.tpu.project,
        purpose: 'check',
      });
      if ('cluster' in result) return 'it is a job of a Kubernetes cluster';
      if (!('problems' in result))
        return { spec: result.spec, text: result.text ?? '', contents: result.uploads.contents };
      const [first = '', ...others] = formatProblems('config.yaml', result.problems);
      const more =
        others.length === 0 ? '' : ` (and ${pluralize(others.length, 'problem')} more: jobman validate ${config})`;
      return `its manifest cannot be read: ${first}${more}`;
    },
  };
}

/** Reads the files of a manifest: no links, and nothing outside `root`. */
function filesBelow(root: string): FileReader {
  const outside = 'it is outside the imported folder';
  return {
    inspect(path) {
      const found = disk.inspect(path);
      return found.kind === 'absent' || (path.startsWith(`${root}/`) && realPath(path) === path)
        ? found
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

function missingFolderError(folder: string, reader: FolderReader): JobmanError {
  const isFile = reader.modifiedAt(folder) !== null && reader.list(folder) === null;
  if (isFile) {
    return usageError(`${folder} is a file, not the folder jobs/ of the older TPU manager.`, [
      `The data.json of the tpu command: tpu import ${folder}`,
    ]);
  }
  if (reader.list(folder) === null) return new JobmanError(`There is no folder ${folder}.`, exitCode.notFound);
  return usageError(
    `${folder} is not the folder jobs/ of the older TPU manager: it has neither .jobman nor .state, nor a folder of a job (000001).`,
  );
}

/** A job reports its result in its last lines. */
const maxTextBytes = 4 * 1024 * 1024;

/** Follows no links below `root`, and reads regular files only. */
const createFolderReader = (root: string): FolderReader => ({
  list(folder) {
    try {
      return realpathSync(folder) === folder ? readdirSync(folder).toSorted() : null;
    } catch {
      return null;
    }
  },
  readText(path) {
    try {
      return withRegularFile(root, path, (file, size) => {
        const length = Math.min(size, maxTextBytes);
        const bytes = new Uint8Array(length);
        const got = readSync(file, bytes, 0, length, size - length);
        return Buffer.from(bytes.subarray(0, got)).toString('utf8');
      });
    } catch {
      return null;
    }
  },
  modifiedAt(path) {
    try {
      const facts = lstatSync(path);
      return facts.isFile() || facts.isDirectory() ? Math.round(facts.mtimeMs) : null;
    } catch {
      return null;
    }
  },
});
