// The first error over all workers: what went wrong before everything that followed from it.

import { open } from 'node:fs/promises';
import type { LogFile } from '../../app/client.ts';
import { matchPattern } from '../../core/patterns.ts';
import type { WorkerId } from '../../core/spec.ts';
import { timeOf } from './fold.ts';
import { createSplitter, type Piece } from './split.ts';

/** The first error in a worker's log, with the lines around it. */
export interface FoundError {
  readonly worker: WorkerId | null;
  /** From 1. */
  readonly line: number;
  /** The lines before it, it, and those after it. */
  readonly pieces: readonly Piece[];
  /** The time that the line itself says, or that of the nearest line before it that says one; null where none does. */
  readonly time: string | null;
}

const linesBefore = 3;
const linesAfter = 20;
const blockSize = 64 * 1024;
/** Of a longer line only its beginning is looked at. */
const lineMost = 4 * 1024;

/**
 * One error a worker at most, the first of all in front. By the times that their lines say, where each says one; else by the
 * worker that the job ended of, as the evidence has it, and then in the order of the files: clocks of files say nothing.
 */
export async function firstErrors(
  files: readonly LogFile[],
  evidence: WorkerId | undefined,
): Promise<readonly FoundError[]> {
  const found: FoundError[] = [];
  for (const file of files) {
    const error = await firstErrorOf(file);
    if (error !== null) found.push(error);
  }
  const times = found.map(({ time }) => time);
  // Two forms of time cannot be compared as they stand.
  if (times.every((time) => time !== null && time.length === times[0]?.length)) {
    return found.toSorted((one, other) => (one.time ?? '').localeCompare(other.time ?? ''));
  }
  return found.toSorted((one, other) => Number(other.worker === evidence) - Number(one.worker === evidence));
}

/** Patterns of errors: those that recovery uses, and those of Python, C++ and the kernel. */
const signs =
  /^\s*Traceback \(most recent call last\)|\b[A-Z]\w*(?:Error|Exception)\b(?::|$)|\b(?:FATAL|CRITICAL|ERROR)\b|^panic: |Segmentation fault|\(core dumped\)|^F\d{4} /;

/** True of a line that says that something is wrong. */
function isError(text: string): boolean {
  return signs.test(text) || matchPattern(text) !== undefined;
}

async function firstErrorOf({ path, worker }: LogFile): Promise<FoundError | null> {
  const recent: Piece[] = [];
  const pieces: Piece[] = [];
  let count = 0;
  let line = 0;
  let time: string | null = null;
  const splitter = createSplitter({ most: lineMost, longer: 'cut', collapse: true }, (piece) => {
    count += 1;
    if (line > 0) {
      if (pieces.length <= linesAfter + recent.length) pieces.push(piece);
      return;
    }
    time = timeOf(piece.text) ?? time;
    if (!isError(piece.text)) {
      recent.push(piece);
      if (recent.length > linesBefore) recent.shift();
      return;
    }
    line = count;
    pieces.push(...recent, piece);
  });

  const file = await open(path);
  try {
    for (let at = 0; pieces.length <= linesAfter + recent.length;) {
      const block = Buffer.allocUnsafe(blockSize);
      const { bytesRead } = await file.read(block, 0, blockSize, at);
      if (bytesRead === 0) break;
      at += bytesRead;
      splitter.push(block.subarray(0, bytesRead), 0);
    }
    splitter.end(0);
  } finally {
    await file.close();
  }
  return line === 0 ? null : { worker, line, pieces, time };
}
