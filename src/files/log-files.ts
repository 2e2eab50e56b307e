// Log files: our copies of a job's output, notes about the job, and copies of its data. All calls are synchronous: for
// a line or a small file, a thread costs ten times the work.

import { formatWorker } from '../core/model/spec.ts';
import { jsonText, specOutline } from '../app/json.ts';
import { randomUUID } from 'node:crypto';
import { readlinkSync, renameSync, statSync, symlinkSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import type { Job } from '../core/model/job.ts';
import type { WorkerId } from '../core/model/spec.ts';
import { phaseOf } from '../core/decide/phase.ts';
import { formatArrivals } from '../core/model/arrival-times.ts';
import type { Instant } from '../core/model/time.ts';
import { escapeLine } from '../app/format.ts';
import { isFileMissing } from '../app/errors.ts';
import { fileError } from '../app/file-errors.ts';
import { arrivalsFile, attemptFile, folderOf, newestLink, noteFile, outputFile, stepFile } from './job-folder.ts';
import { appendToFile, makeFolder, readFileEnd, writeAtomically, writeFileAt } from './files.ts';
import type { CopiedOutput, LogFiles, StoredEvent } from '../app/ports.ts';

const tailBytes = 64 * 1024;

/** `history` returns a job's events after a number. The copy takes from it the events that a crash has lost. */
export function createLogFiles(given: {
  readonly home: string;
  readonly history: (id: string, after: number) => Promise<readonly StoredEvent[]>;
}): LogFiles {
  const { home, history } = given;
  return {
    length: async (job, output) => sizeOf(pathOf(home, job, output)),

    async append(job, output, chunk, at) {
      const path = pathOf(home, job, output);
      await withFileErrors(path, () => {
        const wasEmpty = at === undefined ? appendToFile(path, chunk) : writeFileAt(path, chunk, at);
        if (wasEmpty && output.file === 'log')
          updateNewestLink(newestLink(folderOf(home, job), output.worker), path, output.attempt);
      });
    },

    async recordArrivals(job, output, arrivals) {
      const path = arrivalsFile(pathOf(home, job, output));
      await withFileErrors(path, () => void appendToFile(path, Buffer.from(formatArrivals(arrivals))));
    },

    async readEnd(job, attempt, worker, maxBytes) {
      return readFileEnd(attemptFile(folderOf(home, job), attempt, worker), maxBytes)?.bytes ?? new Uint8Array(0);
    },

    async note(job, log, at, line) {
      const path = noteFile(folderOf(home, job), log);
      await withFileErrors(path, () => appendToFile(path, noteLine(at, line)));
    },

    async appendStepLog(job, step, worker, chunk) {
      const path = stepFile(folderOf(home, job), step, worker);
      await withFileErrors(path, () => {
        if (chunk.length > 0) appendToFile(path, chunk);
        else if ((statSync(path, { throwIfNoEntry: false })?.size ?? 0) === 0)
          appendToFile(path, emptyStepNote(step, worker));
      });
    },

    store: async () => undefined,

    async mirror(job) {
      const folder = folderOf(home, job);
      await withFileErrors(folder, async () => {
        makeFolder(folder);
        writeAtomically(join(folder, 'job.json'), `${jsonText(jobCopy(job), 2)}\n`);
        await addEvents(join(folder, 'events.jsonl'), (after) => history(job.id, after));
      });
    },
  };
}

function pathOf(home: string, job: Job, output: CopiedOutput): string {
  return outputFile(folderOf(home, job), output);
}

function jobCopy(job: Job): object {
  const { spec, ...life } = job;
  return { ...life, phase: phaseOf(job), spec: specOutline(spec) };
}

/** Without a log it would be unknown if the step ran. */
function emptyStepNote(step: string, worker: WorkerId): Uint8Array {
  return Buffer.from(`-- step ${step} is done on ${formatWorker(worker)}; it printed nothing\n`);
}

function noteLine(at: Instant, line: string): Uint8Array {
  const stamp = new Date(at).toISOString().replace(/\.\d+Z$/, 'Z');
  // People read it with `cat`, and it contains answers of clouds and clusters.
  return Buffer.from(`${stamp} ${escapeLine(line.trim().replaceAll(/\s*\n\s*/g, ' '))}\n`);
}

async function addEvents(path: string, after: (seq: number) => Promise<readonly StoredEvent[]>): Promise<void> {
  const lastWritten = lastSeq(readFileEnd(path, tailBytes)?.bytes.toString('utf8') ?? '');
  const missing = await after(lastWritten ?? 0);
  const lines = missing.map(({ seq, event }) => `${jsonText({ seq, ...event })}\n`).join('');
  if (lastWritten === undefined) writeAtomically(path, lines);
  else if (lines !== '') appendToFile(path, Buffer.from(lines));
}

function lastSeq(text: string): number | undefined {
  if (!text.endsWith('\n')) return undefined;
  try {
    const line: unknown = JSON.parse(text.slice(text.lastIndexOf('\n', text.length - 2) + 1));
    const seq = typeof line === 'object' && line !== null && 'seq' in line ? line.seq : undefined;
    return typeof seq === 'number' ? seq : undefined;
  } catch {
    return undefined;
  }
}

function updateNewestLink(link: string, path: string, attempt: number): void {
  const target = relative(dirname(link), path);
  const newest = Number(/^attempt_(\d+)\//.exec(linkTarget(link))?.[1] ?? 0);
  if (newest >= attempt) return;
  const unfinished = `${link}.${randomUUID()}`;
  symlinkSync(target, unfinished);
  renameSync(unfinished, link);
}

function linkTarget(link: string): string {
  try {
    return readlinkSync(link);
  } catch {
    return '';
  }
}

function sizeOf(path: string): number {
  try {
    return statSync(path).size;
  } catch (error) {
    if (isFileMissing(error)) return 0;
    throw fileError(path, error);
  }
}

async function withFileErrors<T>(path: string, operation: () => T | Promise<T>): Promise<T> {
  try {
    return await operation();
  } catch (error) {
    throw fileError(path, error);
  }
}
