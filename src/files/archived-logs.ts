// Archived logs: our copies of container logs, one file per container. Each line starts with the cluster's timestamp,
// so the end of a copy is the point to continue from. A second file for that point could contradict the copy after a
// crash.

import { closeSync, existsSync, fstatSync, ftruncateSync, openSync, readdirSync, readSync, writeSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { parseInstant, second, type Instant } from '../core/model/time.ts';
import type { ArchivedLogQuery, ArchivedLogs, ClusterJob } from '../app/cluster/objects.ts';
import { lineTime, stripTimestamps } from '../app/cluster/archived-lines.ts';
import { fileError } from '../app/file-errors.ts';
import { fileModeIn, makeFolder, readFileEnd, readPieces } from './files.ts';
import { lastLineOf } from '../app/program-output.ts';

/** Contains the name for people, and the uid because another job may get the same name. */
export function archiveFolder(home: string, { name, uid }: Pick<ClusterJob, 'name' | 'uid'>): string {
  return join(home, 'clusters', `${safeName(name)}_${safeName(uid)}`);
}

/** Kubernetes names have no underscore, so each pod and container has its own path. */
export function archivedLogPath(folder: string, pod: string, container: string): string {
  return join(folder, `${safeName(pod)}_${safeName(container)}.log`);
}

/** Replaces characters that no API server's name has and that could lead to another folder. */
function safeName(text: string): string {
  return text.replaceAll(/[^A-Za-z0-9.-]/g, '-');
}

export interface ArchivedLogWriter {
  /** The last whole lines, at least two seconds of them, to continue from; empty without any. */
  readonly tail: Uint8Array;
  /** Adds timestamped lines. The first call removes a partial line that a crash left. Throws StoreError. */
  append(lines: Uint8Array): void;
  close(): void;
}

/** Throws StoreError. */
export function openArchivedLog(path: string): ArchivedLogWriter {
  return withFileErrors(path, () => {
    makeFolder(dirname(path));
    const file = openSync(path, 'a+', fileModeIn(dirname(path)));
    try {
      const { tail, completeBytes, size } = readEnd(file);
      let endsInPartialLine = size > completeBytes;
      return {
        tail,
        append(lines) {
          withFileErrors(path, () => {
            if (endsInPartialLine) ftruncateSync(file, completeBytes);
            endsInPartialLine = false;
            for (let from = 0; from < lines.length;) from += writeSync(file, lines, from);
          });
        },
        close: () => closeSync(file),
      };
    } catch (error) {
      closeSync(file);
      throw error;
    }
  });
}

const firstBlock = 64 * 1024;
const lineEnd = 0x0a;

function readEnd(file: number): { readonly tail: Uint8Array; readonly completeBytes: number; readonly size: number } {
  const { size } = fstatSync(file);
  for (let length = firstBlock; ; length *= 2) {
    const from = Math.max(0, size - length);
    const block = Buffer.alloc(size - from);
    for (let read = 0; read < block.length;) {
      const count = readSync(file, block, read, block.length - read, from + read);
      if (count === 0) break;
      read += count;
    }
    const end = block.lastIndexOf(lineEnd) + 1;
    // A block in the middle of the file begins with a partial line.
    const begin = from === 0 ? 0 : block.indexOf(lineEnd) + 1;
    const tail = block.subarray(begin, Math.max(begin, end));
    const [first, last] = [lineTime(tail, 0), lineTime(tail, tail.lastIndexOf(lineEnd, tail.length - 2) + 1)];
    const isEnough = first !== null && last !== null && Math.floor(last / second) - Math.floor(first / second) > 1;
    if (from === 0 || isEnough) return { tail, completeBytes: from + end, size };
  }
}

const lastLineBytes = 4 * 1024;

/** The newest whole line of the copy, without its timestamp; null without a copy or a line. */
function lastArchivedLine(path: string): { readonly line: string; readonly at: Instant } | null {
  let bytes: Buffer | undefined;
  try {
    bytes = readFileEnd(path, lastLineBytes)?.bytes;
  } catch {
    return null;
  }
  // The first line may be cut, and the last one may not be written completely.
  const lines = bytes?.toString('utf8').split('\n').slice(0, -1) ?? [];
  const last = lines.findLast((line) => /^\S+ \s*\S/.test(line)) ?? '';
  const space = last.indexOf(' ');
  const at = parseInstant(last.slice(0, space));
  const line = lastLineOf(last.slice(space + 1));
  return at === null || line === null ? null : { line, at };
}

/** Yields whole lines, byte for byte as printed, without timestamps; nothing for an absent file. */
export async function* readArchivedLog(
  path: string,
  { tail, since, timestamps }: ArchivedLogQuery = {},
): AsyncIterable<Uint8Array> {
  if (timestamps === true) return yield* readPieces(path);
  let partialLine: Buffer = Buffer.alloc(0);
  const last: Buffer[] = [];
  for await (const piece of readPieces(path)) {
    const bytes = partialLine.length === 0 ? piece : Buffer.concat([partialLine, piece]);
    const end = bytes.lastIndexOf(lineEnd) + 1;
    partialLine = bytes.subarray(end);
    const text = stripTimestamps(bytes.subarray(0, end), since);
    if (text.length === 0) continue;
    if (tail === undefined) yield text;
    else keepLastLines(last, text, tail);
  }
  const rest = stripTimestamps(partialLine, since);
  if (tail === undefined) {
    if (rest.length > 0) yield rest;
    return;
  }
  keepLastLines(last, rest, tail);
  yield* last;
}

function keepLastLines(blocks: Buffer[], text: Buffer, maxLines: number): void {
  if (text.length === 0) return;
  blocks.push(text);
  let remaining = maxLines;
  for (let index = blocks.length - 1; index >= 0; index -= 1) {
    const block = blocks[index] ?? Buffer.alloc(0);
    let from = block.length;
    while (remaining > 0 && from > 0) {
      from = from < 2 ? 0 : block.lastIndexOf(lineEnd, from - 2) + 1;
      remaining -= 1;
    }
    if (from > 0 || remaining === 0) {
      blocks[index] = block.subarray(from);
      blocks.splice(0, index);
      return;
    }
  }
}

export function createArchivedLogs(home: string): ArchivedLogs {
  const pathOf: (...log: Parameters<ArchivedLogs['lastLine']>) => string = ({ job }, { pod, container }) =>
    archivedLogPath(archiveFolder(home, job), pod, container);
  return {
    async list(archived) {
      const { job, pods, logs } = archived;
      const folder = archiveFolder(home, job);
      const files = listLogFiles(folder).map((name) => {
        const [pod = '', container = ''] = name.replace(/\.log$/, '').split('_');
        return { pod, container };
      });
      const ofPods = pods.flatMap(({ name, containers }) =>
        containers.map((container) => ({ pod: name, container: container.name })),
      );
      const known = new Map(logs.map((log) => [pathOf(archived, log), log]));
      for (const log of [...ofPods, ...files]) {
        const path = pathOf(archived, log);
        if (!known.has(path)) known.set(path, { ...log, state: 'open' });
      }
      return [...known].flatMap(([path, log]) => (existsSync(path) ? [log] : []));
    },
    read: (archived, log, query) => readArchivedLog(pathOf(archived, log), query),
    lastLine: (archived, log) => lastArchivedLine(pathOf(archived, log)),
    async remove({ job }) {
      const folder = archiveFolder(home, job);
      try {
        await rm(folder, { recursive: true, force: true });
      } catch (error) {
        throw fileError(folder, error);
      }
    },
  };
}

function listLogFiles(folder: string): readonly string[] {
  try {
    return readdirSync(folder).filter((name) => name.endsWith('.log'));
  } catch {
    return [];
  }
}

function withFileErrors<T>(path: string, act: () => T): T {
  try {
    return act();
  } catch (error) {
    throw fileError(path, error);
  }
}
