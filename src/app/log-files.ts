// Log files: our copies of what a job's programs print, the notes about its life, and the copies of its record. All calls are
// synchronous: for a line or a small file, handing it to a thread costs ten times the work.

import { eventJson, jsonText, recordJson, outline } from './json.ts';
import { randomUUID } from 'node:crypto';
import {
  appendFileSync,
  closeSync,
  fstatSync,
  openSync,
  readlinkSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, relative } from 'node:path';
import type { Job } from '../core/job.ts';
import type { WorkerId } from '../core/spec.ts';
import { phaseOf } from '../core/phase.ts';
import type { Instant } from '../core/time.ts';
import { workerText, inertWord } from './figures.ts';
import { fileError } from './errors.ts';
import { attemptFile, folderOf, newestLink, noteFile, stepFile } from './job-folder.ts';
import { fileModeIn, makeFolder } from './files.ts';
import type { LogFiles, StoredEvent } from './ports.ts';

/** How much of the end of `events.jsonl` is read to find its last line; a line is a few hundred bytes. */
const tailBytes = 64 * 1024;

/** `history` answers the events of a job after a number: the copy takes from there what a crash has swallowed. */
export function createLogFiles(given: {
  readonly home: string;
  readonly history: (id: string, after: number) => Promise<readonly StoredEvent[]>;
}): LogFiles {
  const { home, history } = given;
  return {
    length: async (job, attempt, worker) => sizeOf(attemptFile(folderOf(home, job), attempt, worker)),

    async append(job, attempt, worker, chunk) {
      const folder = folderOf(home, job);
      const path = attemptFile(folder, attempt, worker);
      await guarded(path, () => {
        const wasEmpty = appendTo(path, chunk);
        if (wasEmpty) leadTo(newestLink(folder, worker), path, attempt);
      });
    },

    async last(job, attempt, worker, most) {
      return readEnd(attemptFile(folderOf(home, job), attempt, worker), most) ?? new Uint8Array(0);
    },

    async note(job, log, at, line) {
      const path = noteFile(folderOf(home, job), log);
      await guarded(path, () => appendTo(path, noteLine(at, line)));
    },

    async step(job, step, worker, chunk) {
      const path = stepFile(folderOf(home, job), step, worker);
      await guarded(path, () => {
        if (chunk.length > 0) appendTo(path, chunk);
        else if ((statSync(path, { throwIfNoEntry: false })?.size ?? 0) === 0) appendTo(path, silentStep(step, worker));
      });
    },

    async mirror(job) {
      const folder = folderOf(home, job);
      await guarded(folder, async () => {
        makeFolder(folder);
        writeWhole(join(folder, 'job.json'), `${jsonText(jobCopy(job), 2)}\n`);
        await addEvents(join(folder, 'events.jsonl'), (after) => history(job.id, after));
      });
    },
  };
}

function writeWhole(path: string, text: string): void {
  // The client and the controller may write the same copy at the same moment.
  const unfinished = `${path}.${randomUUID()}`;
  try {
    writeFileSync(unfinished, text, { mode: fileModeIn(dirname(path)) });
    renameSync(unfinished, path);
  } catch (error) {
    rmSync(unfinished, { force: true });
    throw error;
  }
}

function jobCopy(job: Job): object {
  const { spec, ...life } = job;
  return { ...recordJson(life), phase: phaseOf(job), spec: outline(spec) };
}

/** An absent log would leave open whether the step ran. */
function silentStep(step: string, worker: WorkerId): Uint8Array {
  return Buffer.from(`-- step ${step} is done on ${workerText(worker)}; it printed nothing\n`);
}

function noteLine(at: Instant, line: string): Uint8Array {
  const stamp = new Date(at).toISOString().replace(/\.\d+Z$/, 'Z');
  // People read it with `cat`, and it holds what clouds and clusters have answered.
  return Buffer.from(`${stamp} ${inertWord(line.trim().replaceAll(/\s*\n\s*/g, ' '))}\n`);
}

async function addEvents(path: string, after: (seq: number) => Promise<readonly StoredEvent[]>): Promise<void> {
  const held = lastSeq(readEnd(path, tailBytes));
  const missing = await after(held ?? 0);
  const lines = missing.map(({ seq, event }) => `${jsonText(eventJson(seq, event))}\n`).join('');
  if (held === undefined) writeWhole(path, lines);
  else if (lines !== '') appendTo(path, Buffer.from(lines));
}

function lastSeq(end: Uint8Array | undefined): number | undefined {
  const text = Buffer.from(end ?? new Uint8Array(0)).toString('utf8');
  // A line without its end was cut by a crash or a full disk.
  if (!text.endsWith('\n')) return undefined;
  try {
    const line: unknown = JSON.parse(text.slice(text.lastIndexOf('\n', text.length - 2) + 1));
    const seq = typeof line === 'object' && line !== null && 'seq' in line ? line.seq : undefined;
    return typeof seq === 'number' ? seq : undefined;
  } catch {
    return undefined;
  }
}

function appendTo(path: string, chunk: Uint8Array): boolean {
  const file = openToAppend(path);
  try {
    const wasEmpty = fstatSync(file).size === 0;
    appendFileSync(file, chunk);
    return wasEmpty;
  } finally {
    closeSync(file);
  }
}

function openToAppend(path: string): number {
  try {
    return openSync(path, 'a', fileModeIn(dirname(path)));
  } catch (error) {
    if (!isMissing(error)) throw error;
    makeFolder(dirname(path));
    return openSync(path, 'a', fileModeIn(dirname(path)));
  }
}

function leadTo(link: string, path: string, attempt: number): void {
  const target = relative(dirname(link), path);
  const newest = Number(/^attempt_(\d+)\//.exec(leadsTo(link))?.[1] ?? 0);
  if (newest >= attempt) return;
  const unfinished = `${link}.${randomUUID()}`;
  symlinkSync(target, unfinished);
  renameSync(unfinished, link);
}

function leadsTo(link: string): string {
  try {
    return readlinkSync(link);
  } catch {
    return '';
  }
}

function readEnd(path: string, most: number): Uint8Array | undefined {
  let file: number;
  try {
    file = openSync(path, 'r');
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw fileError(path, error);
  }
  try {
    const { size } = fstatSync(file);
    const length = Math.min(size, most);
    const bytes = new Uint8Array(length);
    return bytes.subarray(0, readSync(file, bytes, 0, length, size - length));
  } finally {
    closeSync(file);
  }
}

function sizeOf(path: string): number {
  try {
    return statSync(path).size;
  } catch (error) {
    if (isMissing(error)) return 0;
    throw fileError(path, error);
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ENOENT';
}

async function guarded<T>(path: string, operation: () => T | Promise<T>): Promise<T> {
  try {
    return await operation();
  } catch (error) {
    throw fileError(path, error);
  }
}
