// Reads only the new bytes of a log and stores its progress in one file for each user. That file may be lost or
// overwritten at any time: then more of some logs is read again.

import { closeSync, fstatSync, openSync, readFileSync, readSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { asFileName } from '../app/job-folder.ts';
import { makeFolder, writeAtomically } from '../app/files.ts';
import { lastCharacters, type LogScan, emptyLogScan, continueScan } from '../core/model/log-lines.ts';

/** Limit of new bytes in one read. Earlier output is skipped, because users do not read more. */
const maxNewBytes = 1024 * 1024;

const maxCharacterBytes = 4;

/** Scans the new part of a log. `bounds` are in characters: `first` at the end of a new log, `tail` to keep. */
export function readLog(
  path: string,
  before: LogScan | null,
  bounds: { readonly first: number; readonly tail: number },
): LogScan {
  // Check the size before opening: most logs have nothing new, and opening a missing file takes longer.
  const currentSize = sizeOf(path);
  if (currentSize === undefined || currentSize === before?.offset) return before ?? emptyLogScan;
  let file: number;
  try {
    file = openSync(path, 'r');
  } catch {
    return before ?? emptyLogScan;
  }
  try {
    const { size } = fstatSync(file);
    const known = before === null || size < before.offset ? null : before;
    if (known !== null && size === known.offset) return known;
    const wanted = known === null ? bounds.first * maxCharacterBytes : Math.min(size - known.offset, maxNewBytes);
    const from = Math.max(known?.offset ?? 0, size - wanted);
    const { text, used } = readText(file, from, size - from);
    const isGapless = known !== null ? from === known.offset : from === 0;
    const soFar = isGapless ? (known ?? emptyLogScan) : { ...(known ?? emptyLogScan), unfinished: '', tail: '' };
    const read = known === null ? lastCharacters(text, bounds.first) : text;
    return continueScan(soFar, read, from + used, bounds.tail);
  } catch {
    return before ?? emptyLogScan;
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

/** Decodes the bytes without an incomplete last character. `used` is the number of bytes decoded. */
function readText(file: number, from: number, length: number): { readonly text: string; readonly used: number } {
  const bytes = Buffer.alloc(length);
  const read = bytes.subarray(0, readSync(file, bytes, 0, length, from));
  const whole = read.subarray(0, read.length - incompleteBytes(read));
  return { text: whole.toString('utf8'), used: whole.length };
}

function incompleteBytes(bytes: Uint8Array): number {
  for (let back = 1; back < maxCharacterBytes && back <= bytes.length; back += 1) {
    const byte = bytes[bytes.length - back] ?? 0;
    if (byte >= 0x80 && byte < 0xc0) continue;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}

/** Raise this number if the format changes. Files with another version are ignored. */
const cacheVersion = 1;

/** The stored scans of the user's logs by attempt. Never throws, also when it writes. */
export function openLogCache(home: string, user: string) {
  const path = join(home, 'cache', `check-${asFileName(user)}.json`);
  const before = readCache(path);
  let now: ReadonlyMap<string, LogScan> = before;
  return {
    get: (attempt: string): LogScan | null => now.get(attempt) ?? null,
    replace(logs: ReadonlyMap<string, LogScan>): void {
      now = new Map([...logs].filter(([, { offset }]) => offset > 0));
    },
    write(): void {
      const isSame = now.size === before.size && [...now].every(([name, log]) => before.get(name) === log);
      if (!isSame) writeCache(path, now);
    },
  };
}

function writeCache(path: string, logs: ReadonlyMap<string, LogScan>): void {
  try {
    makeFolder(dirname(path));
    writeAtomically(path, JSON.stringify({ version: cacheVersion, logs: Object.fromEntries(logs) }));
  } catch {
    // The next process reads the logs again.
  }
}

function readCache(path: string): ReadonlyMap<string, LogScan> {
  try {
    // Only this module writes the file, so a file of this version has these fields.
    const { version, logs } = JSON.parse(readFileSync(path, 'utf8')) as {
      version: number;
      logs: Record<string, LogScan>;
    };
    return new Map(version === cacheVersion ? Object.entries(logs) : []);
  } catch {
    return new Map();
  }
}
