// Log files become text on standard output, as much as there is and as it comes. Nothing is held beyond a few blocks for
// each file, and a reader that is slow slows the reading down.

import { type FileHandle, open } from 'node:fs/promises';
import type { LogFile } from '../../app/client.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import type { Stream } from '../../app/services.ts';
import {
  bodyText,
  createSplitter,
  frontText,
  jsonText,
  type LineRules,
  type Piece,
  type SplitRules,
  type Splitter,
} from './lines.ts';
import { createQueue, type Lane, lookahead, mix } from './mix.ts';
import { exactly } from '../output.ts';
import { inert, inertWord } from '../../app/figures.ts';
import type { WorkerId } from '../../core/spec.ts';
import type { Instant } from '../../core/time.ts';

export interface LogRules extends LineRules {
  readonly grep?: RegExp | undefined;
  /** The last lines of each file that is there at the beginning. With `grep`: the last matches, unless more is to come. */
  readonly tail?: number | undefined;
  readonly follow: boolean;
}

export interface LogStream {
  /** These workers will have logs here, so that the column of their numbers is wide enough from the first line on. */
  expect(workers: readonly WorkerId[]): void;
  /**
   * Begins to read a file; one that is read already is left alone. `isFirst` says that `tail` holds for it. False when
   * it is not there (yet). Throws JobmanError when it may not be read.
   */
  add(file: LogFile, isFirst: boolean): Promise<boolean>;
  /**
   * Prints what can be printed now, `before` being called once ahead of the first text. `behind`: there was more than
   * one call prints, so that whoever calls stays able to do other things as well; ask again at once. Stops early when
   * nobody reads any more.
   */
  pump(now: Instant, before?: () => void): Promise<'nothing' | 'some' | 'behind'>;
  finish(now: Instant, before?: () => void): Promise<boolean>;
  /** Lines that are begun and not ended, as a progress bar is; for a terminal to show below. */
  partial(): readonly { readonly worker: WorkerId | null; readonly text: string }[];
  close(): Promise<void>;
}

const terminalMost = 4 * 1024;
const pipeMost = 1024 * 1024;
const blockSize = 64 * 1024;
const writeSize = 64 * 1024;
/** A program may print faster than anybody reads; one call of `pump` ends after this many bytes. */
const pumpMost = 8 * 1024 * 1024;
/** Milliseconds that a line waits for an equal one of other workers. */
const patience = 300;

interface Source extends Lane {
  readonly file: FileHandle;
  readonly path: string;
  readonly attempt: number | null;
  readonly splitter: Splitter;
  offset: number;
}

export function createLogStream(stdout: Stream, rules: LogRules): LogStream {
  let sources: Source[] = [];
  let readAt: Instant = 0;
  let budget = 0;
  const lastMatches =
    rules.grep !== undefined && rules.tail !== undefined && !rules.follow ? new Map<Source, Piece[]>() : null;
  // The last matches of each worker are found out one by one.
  const fold = rules.fold && lastMatches === null;
  const printer = createPrinter(stdout, rules, () => sources);

  function emit(from: Source | readonly Source[], piece: Piece): void {
    if (rules.grep !== undefined && !rules.grep.test(piece.text)) return;
    if (lastMatches === null || !('queue' in from)) return printer.put(from, piece);
    const matches = lastMatches.get(from) ?? [];
    matches.push(piece);
    if (matches.length > (rules.tail ?? 0)) matches.shift();
    lastMatches.set(from, matches);
  }

  /** Reads until there is enough to compare, or nothing more: for now, or for good when the file is `complete`. */
  async function fill(source: Source, complete: boolean): Promise<void> {
    while (source.queue.size < lookahead && source.state !== 'ended' && budget > 0) {
      const bytes = await nextBlock(source);
      budget -= bytes.length;
      source.state = bytes.length > 0 ? 'more' : complete ? 'ended' : 'later';
      if (source.state === 'ended') source.splitter.end(readAt);
      else source.splitter.push(bytes, readAt);
      if (source.state === 'later') return;
    }
  }

  async function pumpLines(complete: boolean): Promise<void> {
    for (;;) {
      for (const source of sources) await fill(source, complete);
      const before = waitingIn(sources);
      mix(sources, { fold, patience }, readAt, emit);
      await printer.write(writeSize);
      if (stdout.closed || budget <= 0 || waitingIn(sources) === before) return;
    }
  }

  async function pumpBytes(): Promise<void> {
    for (const source of sources) {
      for (let bytes = await nextBlock(source); bytes.length > 0; bytes = await nextBlock(source)) {
        await printer.bytes(bytes);
        budget -= bytes.length;
        if (stdout.closed || budget <= 0) return;
      }
    }
  }

  async function pumpAll(now: Instant, before: (() => void) | undefined, complete: boolean): Promise<void> {
    budget = complete ? Number.POSITIVE_INFINITY : pumpMost;
    printer.begin(before);
    readAt = now;
    if (rules.form === 'raw') await pumpBytes();
    else await pumpLines(complete);
    await printer.write();
  }

  async function close(): Promise<void> {
    const closing = sources;
    sources = [];
    await Promise.all(closing.map((source) => source.file.close()));
  }

  return {
    expect: (workers) => printer.expect(workers),
    async add({ path, worker, attempt }, isFirst) {
      if (sources.some((source) => source.path === path)) return true;
      const file = await openLog(path);
      if (file === undefined) return false;
      const isWhole = rules.tail === undefined || lastMatches !== null || !isFirst;
      const offset = isWhole ? 0 : await offsetOfLast(file, rules.tail ?? 0);
      const queue = createQueue();
      const splitter = createSplitter(splitRules(rules), (piece) => queue.add(piece));
      sources.push({ worker, queue, state: 'more', file, path, attempt, splitter, offset });
      printer.widen();
      return true;
    },
    async pump(now, before) {
      await pumpAll(now, before, false);
      return budget <= 0 ? 'behind' : printer.hasPrinted() ? 'some' : 'nothing';
    },
    async finish(now, before) {
      await pumpAll(now, before, true);
      for (const [source, pieces] of lastMatches ?? []) for (const piece of pieces) printer.put(source, piece);
      lastMatches?.clear();
      await printer.end();
      await close();
      return printer.hasPrinted();
    },
    partial: () =>
      sources.flatMap(({ worker, splitter }) => {
        const pending = splitter.pending();
        return pending === '' ? [] : [{ worker, text: inertWord(inert(pending, false)) }];
      }),
    close,
  };
}

async function openLog(path: string): Promise<FileHandle | undefined> {
  try {
    return await open(path);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return undefined;
    throw new JobmanError(`The log cannot be read: ${message}.`, exitCode.failed, [], { cause: error });
  }
}

async function nextBlock(source: Source): Promise<Buffer> {
  const block = Buffer.allocUnsafe(blockSize);
  const { bytesRead } = await source.file.read(block, 0, blockSize, source.offset);
  source.offset += bytesRead;
  return block.subarray(0, bytesRead);
}

function splitRules(rules: LogRules): SplitRules {
  if (rules.form === 'terminal') return { most: terminalMost, longer: 'cut', collapse: true };
  return { most: pipeMost, longer: 'parts', collapse: false };
}

function waitingIn(sources: readonly Source[]): number {
  return sources.reduce((count, source) => count + source.queue.size, 0);
}

/** Puts the numbers of workers in front of lines, and writes them in large parts. */
function createPrinter(stdout: Stream, rules: LineRules, files: () => readonly Source[]) {
  let text = '';
  let printed = false;
  let announce: (() => void) | undefined;
  /** The file whose long line has come in part only, so that its next part continues the line. */
  let inside: Source | undefined;
  let expected: readonly WorkerId[] = [];
  /** The number in front of a worker's lines is made once. */
  let fronts = new Map<Source, string>();

  function say(): void {
    printed = true;
    announce?.();
    announce = undefined;
  }

  function frontOf(from: Source | readonly Source[]): string {
    if (!rules.numbered) return '';
    const known = [...new Set([...workersOf(files()), ...expected])];
    if (!('queue' in from)) return frontText(workersOf(from), known, rules);
    const front = fronts.get(from) ?? frontText(workersOf([from]), known, rules);
    fronts.set(from, front);
    return front;
  }

  /** Writes what was gathered where it is at least so much, and waits until the reader has taken it. */
  async function write(least = 1): Promise<void> {
    if (text.length < least) return;
    // The lines keep the colours of their programs, and were made harmless one by one.
    stdout.write(rules.form === 'json' ? text : exactly(text));
    text = '';
    await stdout.flush();
  }

  return {
    /** `before` is called once, ahead of the first text from now on. */
    begin(before: (() => void) | undefined): void {
      printed = false;
      announce = before;
    },
    hasPrinted: (): boolean => printed,
    /** Gathers one piece; of several files where all have printed it. */
    put(from: Source | readonly Source[], piece: Piece): void {
      if (announce !== undefined || !printed) say();
      const source = 'queue' in from ? from : from[0];
      // Long lines of two files that come in parts at the same time: each part gets a line of its own.
      if (inside !== undefined && inside !== source) text += '\n';
      const continues = inside !== undefined && inside === source;
      text +=
        rules.form === 'json'
          ? jsonText({ attempt: source?.attempt ?? null, worker: source?.worker ?? null }, piece)
          : (continues ? '' : frontOf(from)) + bodyText(piece, rules);
      inside = piece.ends || rules.form === 'json' ? undefined : source;
    },
    write,
    async bytes(bytes: Uint8Array): Promise<void> {
      say();
      stdout.write(bytes);
      await stdout.flush();
    },
    /** Ends a line that has come in part, and writes all. */
    async end(): Promise<void> {
      if (inside !== undefined) text += '\n';
      inside = undefined;
      await write();
    },
    expect(workers: readonly WorkerId[]): void {
      if (workers.length === expected.length) return;
      expected = workers;
      fronts = new Map();
    },
    widen(): void {
      fronts = new Map();
    },
  };
}

function workersOf(lanes: readonly Lane[]): readonly WorkerId[] {
  return lanes.flatMap(({ worker }) => (worker === null ? [] : [worker]));
}

/** The offset at which the last `lines` lines begin; the file's end for none. Reads from the end and no more than needed. */
async function offsetOfLast(file: FileHandle, lines: number): Promise<number> {
  const { size } = await file.stat();
  if (lines === 0) return size;
  let found = 0;
  const block = Buffer.alloc(blockSize);
  for (let end = size; end > 0;) {
    const from = Math.max(0, end - blockSize);
    const { bytesRead } = await file.read(block, 0, end - from, from);
    for (let at = bytesRead - 1; at >= 0; at -= 1) {
      // The newline at the very end closes the last line and begins none.
      if (block[at] !== 10 || from + at === size - 1) continue;
      found += 1;
      if (found === lines) return from + at + 1;
    }
    end = from;
  }
  return 0;
}
