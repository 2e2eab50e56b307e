// Log reading: only the new bytes of a log, and what was read is kept in a file for each user. That file may be lost or
// overwritten at any time: then a little more of some logs is read.

import {
  closeSync,
  fstatSync,
  openSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { asFileName } from '../app/job-folder.ts';
import { fileModeIn, makeFolder } from '../app/files.ts';
import { lastCharacters, type LogPhase, type LogSoFar, nothingRead, readOn } from '../core/log-lines.ts';

/** The limit of new bytes that are read at once; nobody reads more of a log anyway. */
const newMost = 1024 * 1024;

const bytesMost = 4;

/**
 * The knowledge of that log now; `before` is null at first. `bounds`: characters at the end of a new log, and of the kept tail. A log that cannot be read leaves what was known; one that is shorter
 * than it was is another one.
 */
export function readLog(
  path: string,
  before: LogSoFar | null,
  bounds: { readonly first: number; readonly tail: number },
): LogSoFar {
  // Asked first, because of most logs nothing is new, and to find out by opening one that is not there takes longer.
  const seen = sizeOf(path);
  if (seen === undefined || seen === before?.offset) return before ?? nothingRead;
  let file: number;
  try {
    file = openSync(path, 'r');
  } catch {
    return before ?? nothingRead;
  }
  try {
    const { size } = fstatSync(file);
    const known = before === null || size < before.offset ? null : before;
    if (known !== null && size === known.offset) return known;
    const wanted = known === null ? bounds.first * bytesMost : Math.min(size - known.offset, newMost);
    const from = Math.max(known?.offset ?? 0, size - wanted);
    const { text, used } = readText(file, from, size - from);
    const isGapless = known !== null ? from === known.offset : from === 0;
    const soFar = isGapless ? (known ?? nothingRead) : { ...(known ?? nothingRead), unfinished: '', tail: '' };
    const read = known === null ? lastCharacters(text, bounds.first) : text;
    return readOn(soFar, read, from + used, bounds.tail);
  } catch {
    return before ?? nothingRead;
  } finally {
    closeSync(file);
  }
}

function sizeOf(path: string): number | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false })?.size;
  } catch {
    return undefined;
  }
}

/** The text of those bytes, without a character that has only begun; the bytes that it takes. */
function readText(file: number, from: number, length: number): { readonly text: string; readonly used: number } {
  const bytes = Buffer.alloc(length);
  const read = bytes.subarray(0, readSync(file, bytes, 0, length, from));
  const whole = read.subarray(0, read.length - begun(read));
  return { text: whole.toString('utf8'), used: whole.length };
}

function begun(bytes: Uint8Array): number {
  for (let back = 1; back < bytesMost && back <= bytes.length; back += 1) {
    const byte = bytes[bytes.length - back] ?? 0;
    // A byte within a character: its first one is further back.
    if (byte >= 0x80 && byte < 0xc0) continue;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}

/** Raise this when what is kept gets another form: an older file is then none. */
const form = 1;

/** The logs of that user as they were kept, by attempt. Never throws, also when it writes changes. */
export function openLogCache(home: string, user: string) {
  const path = join(home, 'cache', `check-${asFileName(user)}.json`);
  const before = readCache(path);
  let now: ReadonlyMap<string, LogSoFar> = before;
  return {
    of: (attempt: string): LogSoFar | null => now.get(attempt) ?? null,
    take(logs: ReadonlyMap<string, LogSoFar>): void {
      now = new Map([...logs].filter(([, { offset }]) => offset > 0));
    },
    write(): void {
      const isSame = now.size === before.size && [...now].every(([name, log]) => before.get(name) === log);
      if (!isSame) writeCache(path, now);
    },
  };
}

function writeCache(path: string, logs: ReadonlyMap<string, LogSoFar>): void {
  const unfinished = `${path}.${Math.random().toString(36).slice(2)}`;
  try {
    makeFolder(dirname(path));
    writeFileSync(unfinished, JSON.stringify({ form, logs: Object.fromEntries(logs) }), {
      mode: fileModeIn(dirname(path)),
    });
    renameSync(unfinished, path);
  } catch {
    rmSync(unfinished, { force: true });
  }
}

function readCache(path: string): ReadonlyMap<string, LogSoFar> {
  try {
    const read: unknown = JSON.parse(readFileSync(path, 'utf8'));
    if (typeof read !== 'object' || read === null || !('form' in read) || read.form !== form) return new Map();
    const logs = 'logs' in read && typeof read.logs === 'object' && read.logs !== null ? read.logs : {};
    return new Map(Object.entries(logs).flatMap(([name, log]) => (isLog(log) ? [[name, log]] : [])));
  } catch {
    return new Map();
  }
}

function isLog(log: unknown): log is LogSoFar {
  if (typeof log !== 'object' || log === null) return false;
  const { offset, phase, trouble, unfinished, tail } = log as Partial<Record<keyof LogSoFar, unknown>>;
  return (
    typeof offset === 'number' &&
    Number.isSafeInteger(offset) &&
    isPhase(phase) &&
    (trouble === null || typeof trouble === 'string') &&
    typeof unfinished === 'string' &&
    typeof tail === 'string'
  );
}

function isPhase(phase: unknown): phase is LogPhase {
  if (typeof phase !== 'object' || phase === null || !('kind' in phase)) return false;
  const { kind } = phase;
  if (kind === 'running') return 'epoch' in phase && typeof phase.epoch === 'string';
  return ['unknown', 'staging', 'initializing', 'compiling', 'sampling'].includes(String(kind));
}
