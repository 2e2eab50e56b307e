// Job files: reads the files of jobs in a home on this machine.

import { existsSync, readdirSync, watch } from 'node:fs';
import { hostname } from 'node:os';
import { basename, dirname } from 'node:path';
import { fileStateOf, readFilePart, readPieces } from './files.ts';
import { arrivalsFile, attemptFolder, folderOf, noteFile, outputFile, stepFile } from './job-folder.ts';
import type { Blobs, JobFile, JobFiles } from '../app/ports.ts';
import { workdirCopiesIn } from './workdir-copies.ts';
import type { Job } from '../core/model/job.ts';
import type { WorkerId } from '../core/model/spec.ts';
import { second, type Duration } from '../core/model/time.ts';

const refreshInterval: Duration = 2 * second;

interface SharedFiles {
  /** As in `workdirCopiesIn`. */
  readonly openBlobs: () => Promise<Pick<Blobs, 'read'>>;
  /** As in `JobFiles`; null if no other server has any. */
  readonly refresh: ((job: Job) => Promise<void>) | null;
}

export function createJobFiles(home: string, shared?: SharedFiles): JobFiles {
  const pathOf = (job: Job, file: JobFile): string => pathIn(folderOf(home, job), file);
  const refresh = shared?.refresh ?? null;
  return {
    refresh: refresh ?? (async () => undefined),
    stateOf: (job, file) => fileStateOf(pathOf(job, file)),
    read: (job, file, from, maxBytes) => readFilePart(pathOf(job, file), from, maxBytes),
    pieces: (job, file, onRead) => readPieces(pathOf(job, file), onRead),
    watchLogs(job, attempt, call) {
      const stop = watchFolder(attemptFolder(folderOf(home, job), attempt), call);
      if (refresh === null) return stop;
      // Each adds the bytes that other servers have stored, which calls back.
      const timer = setInterval(() => void refresh(job).catch(() => undefined), refreshInterval);
      timer.unref();
      return () => {
        clearInterval(timer);
        stop?.();
      };
    },
    folderOf(job) {
      const folder = folderOf(home, job);
      return { folder: { host: hostname(), path: folder }, hasFiles: existsSync(folder) };
    },
    workdirs: workdirCopiesIn(home, shared?.openBlobs),
    workersWith(job, of) {
      const folder = folderOf(home, job);
      if ('step' in of) return workersOf(stepFile(folder, of.step, 'controller'));
      return workersOf(outputFile(folder, { ...of, worker: 'controller' }));
    },
  };
}

/** Null without output yet, with too many watches, or on a file system without them. */
function watchFolder(folder: string, call: () => void): (() => void) | null {
  try {
    const watcher = watch(folder, { persistent: false }, call);
    watcher.on('error', () => undefined);
    return () => watcher.close();
  } catch {
    return null;
  }
}

function pathIn(folder: string, file: JobFile): string {
  switch (file.kind) {
    case 'note':
      return noteFile(folder, file.log);
    case 'step':
      return stepFile(folder, file.step, file.worker);
    case 'output':
      return outputFile(folder, file);
    case 'arrivals':
      return arrivalsFile(outputFile(folder, file));
  }
}

/** The workers with a file like that one of the controller. */
function workersOf(example: string): readonly WorkerId[] {
  const [front = '', back = ''] = basename(example).split('controller');
  let names: readonly string[];
  try {
    names = readdirSync(dirname(example));
  } catch {
    return [];
  }
  const workers = names
    .filter((name) => name.startsWith(front) && name.endsWith(back))
    .map((name) => name.slice(front.length, -back.length))
    .map((name): WorkerId | undefined => (name === 'controller' ? name : /^\d+$/.test(name) ? Number(name) : undefined))
    .filter((worker) => worker !== undefined);
  return workers.toSorted(
    (one, other) => Number(one === 'controller') - Number(other === 'controller') || Number(one) - Number(other),
  );
}
