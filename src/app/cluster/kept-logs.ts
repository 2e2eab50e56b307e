// Kept logs: our copies of what containers print, one file each. Lines stand there as the cluster tells them with their moments
// in front, and that is what makes a copy its own bookmark: whoever goes on reads its end and knows what it has. There is no
// second file that could say another thing after a crash.

import { closeSync, createReadStream, fstatSync, ftruncateSync, openSync, readSync, writeSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { second, type Instant } from '../../core/time.ts';
import { fileError } from '../errors.ts';
import { fileModeIn, makeFolder } from '../files.ts';
import type { ClusterJob } from './cluster.ts';

/** The folder of a job's copies: its name for people, its uid because another job may get the name. */
export function keptFolder(home: string, { name, uid }: Pick<ClusterJob, 'name' | 'uid'>): string {
  return join(home, 'clusters', `${plain(name)}_${plain(uid)}`);
}

/** The copy of one container's log. Names of Kubernetes have no underscore, so no two are the same. */
export function keptFile(folder: string, pod: string, container: string): string {
  return join(folder, `${plain(pod)}_${plain(container)}.log`);
}

/** A name without the characters that no name of an API server has, which could lead to another folder. */
function plain(text: string): string {
  return text.replaceAll(/[^A-Za-z0-9.-]/g, '-');
}

/** A copy that is being written. */
export interface KeptWriter {
  /** The last whole lines, two seconds of them at least, by which a reader knows what it has; empty where there is nothing yet. */
  readonly tail: Uint8Array;
  /** Adds stamped lines. The first one takes the place of half a line that a crash has left. Throws StoreError. */
  append(lines: Uint8Array): void;
  close(): void;
}

/** Opens the copy for going on with it, with the folders above it. Throws StoreError. */
export function openKept(path: string): KeptWriter {
  return guarded(path, () => {
    makeFolder(dirname(path));
    const file = openSync(path, 'a+', fileModeIn(dirname(path)));
    try {
      const { tail, whole, size } = endOf(file);
      let torn = size > whole;
      return {
        tail,
        append(lines) {
          guarded(path, () => {
            if (torn) ftruncateSync(file, whole);
            torn = false;
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

function endOf(file: number): { readonly tail: Uint8Array; readonly whole: number; readonly size: number } {
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
    // The first line of a block that begins somewhere is a part of one.
    const begin = from === 0 ? 0 : block.indexOf(lineEnd) + 1;
    const tail = block.subarray(begin, Math.max(begin, end));
    const [first, last] = [stampOf(tail, 0), stampOf(tail, tail.lastIndexOf(lineEnd, tail.length - 2) + 1)];
    const isEnough = first !== null && last !== null && Math.floor(last / second) - Math.floor(first / second) > 1;
    if (from === 0 || isEnough) return { tail, whole: from + end, size };
  }
}

/** The moment in front of the line that begins there; null where there is none. */
export function stampOf(bytes: Uint8Array, from: number): Instant | null {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset + from, Math.min(40, bytes.length - from)).toString('latin1');
  const at = Date.parse(text.slice(0, text.indexOf(' ')));
  return Number.isNaN(at) ? null : at;
}

/** The part of a copy to read. */
export interface KeptLogQuery {
  readonly tail?: number;
  readonly since?: Instant;
}

/** The copy without its moments, in pieces of whole lines, byte for byte as it was printed. Nothing where there is no file. */
export async function* readKept(path: string, { tail, since }: KeptLogQuery = {}): AsyncIterable<Uint8Array> {
  let cut: Buffer = Buffer.alloc(0);
  const last: Buffer[] = [];
  try {
    for await (const piece of createReadStream(path, { highWaterMark: 1024 * 1024 })) {
      const bytes = cut.length === 0 ? (piece as Buffer) : Buffer.concat([cut, piece as Buffer]);
      const end = bytes.lastIndexOf(lineEnd) + 1;
      cut = bytes.subarray(end);
      const text = bare(bytes.subarray(0, end), since);
      if (text.length === 0) continue;
      if (tail === undefined) yield text;
      else keepLast(last, text, tail);
    }
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return;
    throw fileError(path, error);
  }
  const rest = bare(cut, since);
  if (tail === undefined) {
    if (rest.length > 0) yield rest;
    return;
  }
  keepLast(last, rest, tail);
  yield* last;
}

/** Whole lines without their moments. */
export function bareLines(lines: Uint8Array): Uint8Array {
  return bare(Buffer.from(lines.buffer, lines.byteOffset, lines.byteLength), undefined);
}

function bare(lines: Buffer, since: Instant | undefined): Buffer {
  const text = Buffer.allocUnsafe(lines.length);
  let size = 0;
  for (let from = 0; from < lines.length;) {
    const found = lines.indexOf(lineEnd, from);
    const end = found < 0 ? lines.length : found + 1;
    const gap = lines.indexOf(0x20, from);
    const begin = gap < 0 || gap >= end ? from : gap + 1;
    if (since === undefined || (stampOf(lines, from) ?? since) >= since) size += lines.copy(text, size, begin, end);
    from = end;
  }
  return text.subarray(0, size);
}

function keepLast(kept: Buffer[], text: Buffer, most: number): void {
  if (text.length === 0) return;
  kept.push(text);
  let wanted = most;
  for (let index = kept.length - 1; index >= 0; index -= 1) {
    const block = kept[index] ?? Buffer.alloc(0);
    let from = block.length;
    while (wanted > 0 && from > 0) {
      // The line that ends here begins behind the end of the one before it.
      from = from < 2 ? 0 : block.lastIndexOf(lineEnd, from - 2) + 1;
      wanted -= 1;
    }
    if (from > 0 || wanted === 0) {
      kept[index] = block.subarray(from);
      kept.splice(0, index);
      return;
    }
  }
}

/** Removes all copies of that job. Throws StoreError when they cannot be removed. */
export async function dropKept(home: string, job: Pick<ClusterJob, 'name' | 'uid'>): Promise<void> {
  const folder = keptFolder(home, job);
  try {
    await rm(folder, { recursive: true, force: true });
  } catch (error) {
    throw fileError(folder, error);
  }
}

function guarded<T>(path: string, act: () => T): T {
  try {
    return act();
  } catch (error) {
    throw fileError(path, error);
  }
}
