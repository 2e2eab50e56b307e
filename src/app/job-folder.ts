// Job folder: where the files of a job are. The layout is told in ARCHITECTURE.md; nobody else puts these paths together.

import { join } from 'node:path';
import type { Job } from '../core/job.ts';
import type { WorkerId } from '../core/spec.ts';

/** `jobs/<user>/<id>` below the home of jobman. */
export function jobFolder(home: string, owner: string, id: string): string {
  return join(home, 'jobs', asFileName(owner), id);
}

export function manifestFile(folder: string): string {
  return within(folder, 'config.yaml');
}

/** The value of a secret that was taken from the environment of whoever created the job. Only its owner may read it. */
export function secretFile(folder: string, name: string): string {
  return within(folder, 'secrets', name);
}

export function logFolder(folder: string): string {
  return within(folder, 'logs');
}

export function noteFile(folder: string, log: 'job' | 'tpu'): string {
  return within(logFolder(folder), `${log}.log`);
}

export function stepFile(folder: string, step: string, worker: WorkerId): string {
  return within(logFolder(folder), `${asFileName(step)}_worker_${worker}.log`);
}

export function attemptFile(folder: string, attempt: number, worker: WorkerId): string {
  return within(logFolder(folder), `attempt_${attempt}`, `command_worker_${worker}.log`);
}

/** The symbolic link that leads to the newest attempt's. */
export function newestLink(folder: string, worker: WorkerId): string {
  return within(logFolder(folder), `command_worker_${worker}.log`);
}

export function folderOf(home: string, job: Job): string {
  return jobFolder(home, job.owner, job.id);
}

/** All that such a job leaves on this machine: its files, and where its programs run when that is here. */
export function tracesOf(home: string, owner: string, id: string): readonly string[] {
  return [jobFolder(home, owner, id), join(home, 'runs', id)];
}

/** A name that is safe as a part of a path. Two names may become one; the job's id keeps their folders apart. */
export function asFileName(name: string): string {
  if (plainName.test(name)) return name;
  const safe = name.replaceAll(/[^\p{L}\p{N}._@-]/gu, '_').replace(/^\.+/, '_');
  return safe === '' ? '_' : safe;
}

/** `join` of node:path took longer than the rest of a list. */
function within(folder: string, ...names: readonly string[]): string {
  return `${folder}/${names.join('/')}`;
}

/** Nearly every name. To prepare the pattern for all letters of Unicode takes a millisecond. */
const plainName = /^[\w@-][\w.@-]*$/;
