// Prints log files, once or as they grow. Memory is limited to a few blocks per file; a slow reader slows the reading.

import { type FileHandle, open } from 'node:fs/promises';
import type { LogFile } from '../../app/client.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import type { Stream } from '../../app/services.ts';
import {
  formatBody,
  createSplitter,
  formatPrefix,
  formatJson,
  type LineRules,
  type Piece,
  type SplitRules,
  type Splitter,
} from './lines.ts';
import { createQueue, type LineSource, lookahead, mergeLines, timestampOf } from './merge.ts';
import { rawBytes } from '../output.ts';
import { escapeForTerminal, escapeLine } from '../../app/format.ts';
import type { WorkerId } from '../../core/model/spec.ts';
import type { Instant } from '../../core/model/time.ts';

export interface LogRules extends LineRules {
  readonly grep?: RegExp | undefined;
  /** Of each file that exists at the beginning. With `grep` but without `follow`: the last matches. */
  readonly tail?: number | undefined;
  readonly follow: boolean;
  /** Only lines that begin with a time from then on, and the lines after them that begin with none. */
  readonly since?: Instant | undefined;
}

export interface LogStream {
  /** Gives the column of worker numbers its final width from the first line on. */
  expect(workers: readonly WorkerId[]): void;
  /** `isFirst`: `tail` applies. False if the file does not exist yet. Throws JobmanError without read permission. */
  add(file: LogFile, isFirst: boolean): Promise<boolean>;
  /**
   * Calls `before` ahead of the first text. `behind`: more is available, call again. Stops early if the output is
   * closed.
   */
  pump(now: Instant, before?: () => void): Promise<'nothing' | 'some' | 'behind'>;
  finish(now: Instant, before?: () => void): Promise<boolean>;
  /** Such as a progress bar, for a terminal to show below. */
  partial(): readonly { readonly worker: WorkerId | null; readonly text: string }[];
  close(): Promise<void>;
}

const maxTerminalLine = 4 * 1024;
const maxPipeLine = 1024 * 1024;
const blockSize = 64 * 1024;
const writeSize = 64 * 1024;
/** Limit for one call of `pump`: a program may print faster than the reader reads. */
const maxPumpBytes = 8 * 1024 * 1024;
/** Time that a line waits for an equal one of other workers. */
const patience = 300;

interface Source extends LineSource {
  readonly file: FileHandle;
  readonly path: string;
  readonly job: string;
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
  const fold = rules.fold && lastMatches === null;
  const printer = createPrinter(stdout, rules, () => sources);

  let isRecent = rules.since === undefined;

  function emit(from: readonly Source[], piece: Piece): void {
    if (rules.since !== undefined) {
      const time = Date.parse(timestampOf(piece.text) ?? '');
      if (!Number.isNaN(time)) isRecent = time >= rules.since;
      if (!isRecent) return;
    }
    if (rules.grep !== undefined && !rules.grep.test(piece.text)) return;
    // Without folding each line has one source.
    const [source] = from;
    if (lastMatches === null || source === undefined) return printer.put(from, piece);
    const matches = lastMatches.get(source) ?? [];
    matches.push(piece);
    if (matches.length > (rules.tail ?? 0)) matches.shift();
    lastMatches.set(source, matches);
  }

  /** Reads enough to compare, or until no data is left; with `complete` that is the end of the file. */
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
      const before = queuedPieces(sources);
      mergeLines(sources, { fold, patience }, readAt, emit);
      await printer.write(writeSize);
      if (stdout.closed || budget <= 0 || queuedPieces(sources) === before) return;
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
    budget = complete ? Number.POSITIVE_INFINITY : maxPumpBytes;
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
    async add({ path, job, worker, attempt }, isFirst) {
      if (sources.some((source) => source.path === path)) return true;
      const file = await openLog(path);
      if (file === undefined) return false;
      const isWhole = rules.tail === undefined || lastMatches !== null || !isFirst;
      const offset = isWhole ? 0 : await offsetOfLast(file, rules.tail ?? 0);
      const queue = createQueue();
      const splitter = createSplitter(splitRules(rules), (piece) => queue.add(piece));
      sources.push({ worker, queue, state: 'more', file, path, job, attempt, splitter, offset });
      printer.resetPrefixes();
      return true;
    },
    async pump(now, before) {
      await pumpAll(now, before, false);
      return budget <= 0 ? 'behind' : printer.hasPrinted() ? 'some' : 'nothing';
    },
    async finish(now, before) {
      await pumpAll(now, before, true);
      for (const [source, pieces] of lastMatches ?? []) for (const piece of pieces) printer.put([source], piece);
      lastMatches?.clear();
      await printer.end();
      await close();
      return printer.hasPrinted();
    },
    partial: () =>
      sources.flatMap(({ worker, splitter }) => {
        const pending = splitter.pending();
        return pending === '' ? [] : [{ worker, text: escapeLine(escapeForTerminal(pending, false)) }];
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
  if (rules.form === 'terminal') return { maxBytes: maxTerminalLine, overflow: 'cut', collapse: true };
  return { maxBytes: maxPipeLine, overflow: 'parts', collapse: false };
}

function queuedPieces(sources: readonly Source[]): number {
  return sources.reduce((count, source) => count + source.queue.size, 0);
}

function createPrinter(stdout: Stream, rules: LineRules, files: () => readonly Source[]) {
  let text = '';
  let printed = false;
  let announce: (() => void) | undefined;
  /** The file with an unfinished long line, which the next part continues. */
  let inside: Source | undefined;
  let expected: readonly WorkerId[] = [];
  const prefixes = new Map<unknown, string>();

  function recordPrinted(): void {
    printed = true;
    announce?.();
    announce = undefined;
  }

  function prefixOf(from: readonly Source[]): string {
    if (!rules.numbered) return '';
    // Nearly every line has one source, so its key must cost nothing.
    const key = from.length === 1 ? from[0]?.worker : workersOf(from).join();
    const known = (): readonly WorkerId[] => [...new Set([...workersOf(files()), ...expected])];
    const prefix = prefixes.get(key) ?? formatPrefix(workersOf(from), known(), rules);
    prefixes.set(key, prefix);
    return prefix;
  }

  /** Waits until the reader has taken the text. */
  async function write(least = 1): Promise<void> {
    if (text.length < least) return;
    // Raw, because each line is sanitized already and keeps its program's colours.
    stdout.write(rules.form === 'json' ? text : rawBytes(text));
    text = '';
    await stdout.flush();
  }

  return {
    begin(before: (() => void) | undefined): void {
      printed = false;
      announce = before;
    },
    hasPrinted: (): boolean => printed,
    /** From several files if all have printed the piece. */
    put(from: readonly Source[], piece: Piece): void {
      recordPrinted();
      const [source] = from;
      // Two files have unfinished long lines at the same time: each part gets a line of its own.
      if (inside !== undefined && inside !== source) text += '\n';
      const continues = inside !== undefined && inside === source;
      text +=
        rules.form === 'json' && source !== undefined
          ? formatJson(source, piece)
          : (continues ? '' : prefixOf(from)) + formatBody(piece, rules);
      inside = piece.ends || rules.form === 'json' ? undefined : source;
    },
    write,
    async bytes(bytes: Uint8Array): Promise<void> {
      recordPrinted();
      stdout.write(bytes);
      await stdout.flush();
    },
    async end(): Promise<void> {
      if (inside !== undefined) text += '\n';
      inside = undefined;
      await write();
    },
    expect(workers: readonly WorkerId[]): void {
      if (workers.length === expected.length) return;
      expected = workers;
      prefixes.clear();
    },
    resetPrefixes: (): void => prefixes.clear(),
  };
}

function workersOf(sources: readonly LineSource[]): readonly WorkerId[] {
  return sources.flatMap(({ worker }) => (worker === null ? [] : [worker]));
}

/** The file's end for 0 lines. Reads backwards, no more than needed. */
async function offsetOfLast(file: FileHandle, lines: number): Promise<number> {
  const { size } = await file.stat();
  if (lines === 0) return size;
  let found = 0;
  const block = Buffer.alloc(blockSize);
  for (let end = size; end > 0;) {
    const from = Math.max(0, end - blockSize);
    const { bytesRead } = await file.read(block, 0, end - from, from);
    for (let at = bytesRead - 1; at >= 0; at -= 1) {
      // The newline at the end of the file ends the last line and begins none.
      if (block[at] !== 10 || from + at === size - 1) continue;
      found += 1;
      if (found === lines) return from + at + 1;
    }
    end = from;
  }
  return 0;
}
