// Job file: a file with a whole Job object. Its content distinguishes it from a manifest of jobman.

import type { V1Job } from '@kubernetes/client-node';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { countText } from '../../app/figures.ts';
import { readText, type FileDoor, pathHere } from '../../manifest/files.ts';
import { isKubernetesFile, readJobFile } from '../../manifest/kubernetes-job.ts';
import { manifestMost } from '../../manifest/parse.ts';
import { formatProblems } from '../../schema/problems.ts';
import type { Cli } from '../context.ts';
import { disk } from '../disk.ts';

/** The Job of a file, or the door through which the file is read as a manifest. */
export type SubmittedFile = { readonly job: V1Job } | { readonly door: FileDoor };

/**
 * Reads the file once, because reading takes the content away from a pipe. It has no Job if it has no object of Kubernetes, or if it
 * cannot be read: reading it as a manifest, through `door`, says why. Throws JobmanError (usage) with every problem of a Job.
 */
export function readSubmittedFile({ io }: Cli, file: string): SubmittedFile {
  if (file === '') return { door: disk };
  const path = pathHere(file.startsWith('~') ? `./${file}` : file, io.cwd, io.userHome);
  const { kind } = disk.look(path);
  if (kind !== 'file' && kind !== 'stream') return { door: disk };
  const content = disk.read(path, manifestMost);
  const door: FileDoor = {
    look: (at) => disk.look(at),
    read: (at, most) => (at === path ? content : disk.read(at, most)),
  };
  const read = readText(door, path, manifestMost);
  if ('why' in read || !isKubernetesFile(read.text)) return { door };
  const found = readJobFile(read.text);
  if ('job' in found) return { job: found.job as V1Job };
  const lines = formatProblems(file, found.problems);
  throw new JobmanError(
    `Nothing was submitted: the Job has ${countText(lines.length, 'problem')}.`,
    exitCode.usage,
    lines,
  );
}
