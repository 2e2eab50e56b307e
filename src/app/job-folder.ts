// Job folder: the paths of a job's files. ARCHITECTURE.md describes the layout; only this file builds these paths.

import { join } from 'node:path';
import type { Job } from '../core/model/job.ts';
import type { WorkerId } from '../core/model/spec.ts';
import type { CopiedOutput } from './ports.ts';

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

function attemptFolder(folder: string, attempt: number): string {
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

/** A safe path component. Two names may give the same one; the job's id keeps their folders apart. */
export function asFileName(name: string): string {
  if (safeNamePattern.test(name)) return name;
  const sanitized = name.replaceAll(/[^\p{L}\p{N}._@-]/gu, '_').replace(/^\.+/, '_');
  return sanitized === '' ? '_' : sanitized;
}

/** Matches nearly every name. Compiling the pattern for all Unicode letters takes a millisecond. */
const safeNamePattern = /^[\w@-][\w.@-]*$/;
