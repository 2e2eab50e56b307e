import type { V1Job } from '@kubernetes/client-node';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { pluralize } from '../../app/format.ts';
import { readTextFile, type FileReader, localPath } from '../../manifest/files.ts';
import { isKubernetesFile, readJobFile } from '../../manifest/kubernetes.ts';
import { maxManifestBytes } from '../../manifest/parse.ts';
import { formatProblems } from '../../schema/problems.ts';
import type { Cli } from '../context.ts';
import { disk } from '../disk.ts';
import { problemJson } from '../manifest-file.ts';

export type SubmittedFile = { readonly job: V1Job } | { readonly files: FileReader };

/** Reads the file once: it may be a pipe. Returns `files` for any file but a Job. Throws JobmanError. */
export function readSubmittedFile({ io }: Cli, file: string): SubmittedFile {
  if (file === '') return { files: disk };
  const path = localPath(file.startsWith('~') ? `./${file}` : file, io.cwd, io.userHome);
  const { kind } = disk.inspect(path);
  if (kind !== 'file' && kind !== 'stream') return { files: disk };
  const content = disk.read(path, maxManifestBytes);
  const files: FileReader = {
    inspect: (at) => disk.inspect(at),
    read: (at, most) => (at === path ? content : disk.read(at, most)),
  };
  const read = readTextFile(files, path, maxManifestBytes);
  if ('reason' in read || !isKubernetesFile(read.text)) return { files };
  const found = readJobFile(read.text);
  if ('job' in found) return { job: found.job as V1Job };
  const lines = formatProblems(file, found.problems);
  throw new JobmanError(
    `Nothing was submitted: the Job has ${pluralize(lines.length, 'problem')}.`,
    exitCode.usage,
    lines,
    { errorCode: 'invalid_manifest', problems: found.problems.map((problem) => problemJson(file, problem)) },
  );
}
