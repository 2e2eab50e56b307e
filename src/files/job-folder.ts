// Job folder: the paths of a job's files. ARCHITECTURE.md describes the layout; only this file builds these paths.

import { join } from 'node:path';
import { asFileName } from '../app/format.ts';
import type { Job } from '../core/model/job.ts';
import type { WorkerId } from '../core/model/spec.ts';
import type { CopiedOutput } from '../app/ports.ts';

export function jobFolder(home: string, owner: string, id: string): string {
  return join(home, 'jobs', asFileName(owner), id);
}

export function manifestFile(folder: string): string {
  return `${folder}/config.yaml`;
}

/** A secret from the environment of the job's creator. Only the owner may read it. */
export function secretFile(folder: string, name: string): string {
  return `${folder}/secrets/${name}`;
}

export function logFolder(folder: string): string {
  return `${folder}/logs`;
}

export function noteFile(folder: string, log: 'job' | 'tpu'): string {
  return `${logFolder(folder)}/${log}.log`;
}

export function stepFile(folder: string, step: string, worker: WorkerId): string {
  return `${logFolder(folder)}/${asFileName(step)}_worker_${worker}.log`;
}

export function attemptFolder(folder: string, attempt: number): string {
  return `${logFolder(folder)}/attempt_${attempt}`;
}

export function attemptFile(folder: string, attempt: number, worker: WorkerId): string {
  return `${attemptFolder(folder, attempt)}/command_worker_${worker}.log`;
}

/** The copy of the metrics that the program reports. */
function metricsFile(folder: string, attempt: number, worker: WorkerId): string {
  return `${attemptFolder(folder, attempt)}/metrics_worker_${worker}.log`;
}

/** The copy of one file of a run. */
export function outputFile(folder: string, { attempt, worker, file }: CopiedOutput): string {
  return file === 'log' ? attemptFile(folder, attempt, worker) : metricsFile(folder, attempt, worker);
}

/** The times at which the bytes of a copy arrived. */
export function arrivalsFile(copy: string): string {
  return `${copy.replace(/\.log$/, '')}.times`;
}

export function workdirsOf(jobFolder: string): string {
  return join(jobFolder, 'workdir');
}

/** Contains `files/`, `about.json`, and `changes.diff` if there are changes. Copies count from 1. */
export function workdirFolder(jobFolder: string, copy: number): string {
  return join(workdirsOf(jobFolder), String(copy));
}

export function workdirAbout(folder: string): string {
  return join(folder, 'about.json');
}

export function workdirDiff(folder: string): string {
  return join(folder, 'changes.diff');
}

export function newestLink(folder: string, worker: WorkerId): string {
  return `${logFolder(folder)}/command_worker_${worker}.log`;
}

export function folderOf(home: string, job: Job): string {
  return jobFolder(home, job.owner, job.id);
}

/** Its files, and the run folder of its local programs. */
export function localFoldersOf(home: string, owner: string, id: string): readonly string[] {
  return [jobFolder(home, owner, id), join(home, 'runs', id)];
}
