// import: the folders of the TPU manager before this one come along.

import { closeSync, fstatSync, openSync, readdirSync, readSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { countText } from '../../app/figures.ts';
import type { ImportLine } from '../../lab/import-data.ts';
import { oldJobFolders, planJobsImport, type FolderDoor, type JobsImport } from '../../lab/import-jobs.ts';
import type { LabServices } from '../../lab/lab.ts';
import { loadManifest } from '../../manifest/parse.ts';
import { formatProblems } from '../../manifest/problems.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { disk } from '../disk.ts';
import { showImport } from '../render/import-lines.ts';

export interface ImportFlags {
  readonly apply: boolean | undefined;
}

export async function importJobs(cli: Cli, flags: ImportFlags & GlobalFlags, path: string): Promise<number> {
  const { io } = cli;
  const folder = resolve(io.cwd, path);
  const folders = oldJobFolders(folder, folderDoor);
  if (folders === null) throw noFolder(folder);
  const isMeant = flags.apply === true;
  const plan = planJobsImport(folders, await partsOf(cli));
  const lines = isMeant ? [...plan.lines, ...(await takeOver(cli, plan.taken))] : plan.lines;
  showImport(cli, lines, isMeant);
  return exitCode.ok;
}

/** Writes them down in one transaction, and copies their files behind it; answers what is to be said beside the plan. */
async function takeOver(cli: Cli, taken: ReturnType<typeof planJobsImport>['taken']): Promise<readonly ImportLine[]> {
  // What main.ts hands in has the lab beside the rest; this command needs the part of the record that takes past jobs.
  const services = cli.services as LabServices;
  const lab = await services.lab();
  try {
    const ids = await lab.record.together(async (one) => {
      const given: string[] = [];
      for (const { past } of taken) given.push(await one.addPastJob(past));
      return given;
    });
    const home = await services.labHome();
    const lines: ImportLine[] = [];
    for (const [index, { from, past, what }] of taken.entries()) {
      const id = ids[index] ?? '';
      lines.push({ kind: 'note', what, says: `it is job ${id} here` });
      try {
        await home.takeFiles({ id, owner: past.owner }, from);
      } catch (error) {
        if (!(error instanceof JobmanError)) throw error;
        lines.push({ kind: 'note', what, says: `its logs were not copied: ${error.message}` });
      }
    }
    return lines;
  } finally {
    await lab.close();
  }
}

async function partsOf({ io, services }: Cli): Promise<JobsImport> {
  const [settings, client] = await Promise.all([services.settings(), services.client()]);
  const { rows } = await client.list({ all: true });
  const here = new Set(rows.map(({ user, name, createdAt }) => [user, name, createdAt].join(' ')));
  return {
    owner: io.user,
    now: io.now(),
    isHere: ({ owner, name, createdAt }) => here.has([owner, name, createdAt].join(' ')),
    read(config) {
      if (folderDoor.changedAt(config) === null) return 'it has no config.yaml';
      const result = loadManifest({
        file: config,
        cwd: dirname(config),
        sets: [],
        home: io.userHome,
        env: io.env,
        door: disk,
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

function noFolder(folder: string): JobmanError {
  const isFile = folderDoor.changedAt(folder) !== null && folderDoor.names(folder) === null;
  if (isFile) {
    return new JobmanError(`${folder} is a file, and not the folder jobs/ of the TPU manager.`, exitCode.usage, [
      `The data.json of the tpu command: tpu import ${folder}`,
    ]);
  }
  if (folderDoor.names(folder) === null) return new JobmanError(`There is no folder ${folder}.`, exitCode.notFound);
  return new JobmanError(
    `${folder} is no jobs/ of the TPU manager: it has neither .jobman nor .state, nor a folder of a job (000001).`,
    exitCode.usage,
  );
}

/** How much of the end of a file is read: a job says how it came out in its last lines. */
const textMost = 4 * 1024 * 1024;

const folderDoor: FolderDoor = {
  names(folder) {
    try {
      return readdirSync(folder).toSorted();
    } catch {
      return null;
    }
  },
  text(path) {
    let file: number;
    try {
      file = openSync(path, 'r');
    } catch {
      return null;
    }
    try {
      const { size } = fstatSync(file);
      const length = Math.min(size, textMost);
      const bytes = new Uint8Array(length);
      const got = readSync(file, bytes, 0, length, size - length);
      return Buffer.from(bytes.subarray(0, got)).toString('utf8');
    } catch {
      return null;
    } finally {
      closeSync(file);
    }
  },
  changedAt(path) {
    try {
      return Math.round(statSync(path).mtimeMs);
    } catch {
      return null;
    }
  },
};
