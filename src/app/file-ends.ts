// File ends: parts at the beginning and the end of a job's files, each read once.

import type { Job } from '../core/model/job.ts';
import type { WorkerId } from '../core/model/spec.ts';
import type { FilePart, JobFile, JobFiles } from './ports.ts';

/** Returns undefined if there is no file that can be read. */
export type EndReader = (file: JobFile, maxBytes: number, end?: 'first' | 'last') => FilePart | undefined;

/** Reads the ends of the files of one job, and no part of them twice. */
export function createEndReader(files: Pick<JobFiles, 'read'>, job: Job): EndReader {
  const parts = new Map<string, { readonly maxBytes: number; readonly part: FilePart | undefined }>();
  const readPart: EndReader = (file, maxBytes, end) => {
    try {
      return files.read(job, file, end === 'first' ? 0 : -maxBytes, maxBytes);
    } catch {
      return undefined;
    }
  };
  return (file, maxBytes, end = 'last') => {
    const key = `${end} ${JSON.stringify(file)}`;
    let known = parts.get(key);
    if (known === undefined || known.maxBytes < maxBytes) {
      known = { maxBytes, part: readPart(file, maxBytes, end) };
      parts.set(key, known);
    }
    const { part } = known;
    if (part === undefined || part.bytes.length <= maxBytes) return part;
    if (end === 'first') return { ...part, bytes: part.bytes.subarray(0, maxBytes) };
    const skipped = part.bytes.length - maxBytes;
    return { ...part, bytes: part.bytes.subarray(skipped), from: part.from + skipped };
  };
}

/** The log of the command. */
export function outputLog(attempt: number, worker: WorkerId): JobFile {
  return { kind: 'output', attempt, worker, file: 'log' };
}
