// Prints logs, once or as they grow. Memory is limited to a few blocks per log; a slow reader slows the reading.

import type { Client, LogRef } from '../../app/client.ts';
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
  /** Of each log that exists at the beginning. With `grep` but without `follow`: the last matches. */
  readonly tail?: number | undefined;
  readonly follow: boolean;
  /** Only lines that begin with a time from then on, and the lines after them that begin with none. */
  readonly since?: Instant | undefined;
}

export interface LogStream {
  /** Gives the column of worker numbers its final width from the first line on. */
  expect(workers: readonly WorkerId[]): void;
  /** `isFirst`: `tail` applies. False if the stream has it already. Throws JobmanError if it cannot be read. */
  add(log: LogRef, isFirst: boolean): Promise<boolean>;
  /**
   * Calls `before` ahead of the first text. `behind`: more is available, call again. Stops early if the output is
   * closed.
   */
  pump(now: Instant, before?: () => void): Promise<'nothing' | 'some' | 'behind'>;
  finish(now: Instant, before?: () => void): Promise<boolean>;
  /** Such as a progress bar, for a terminal to show below. */
  partial(): readonly { readonly worker: WorkerId | null; readonly text: string }[];
}

const maxTerminalLine = 4 * 1024;
const maxPipeLine = 1024 * 1024;
const blockSize = 256 * 1024;
const tailBlockSize = 64 * 1024;
const writeSize = 64 * 1024;
/** Limit for one call of `pump`: a program may print faster than the reader reads. */
const maxPumpBytes = 8 * 1024 * 1024;
/** Time that a line waits for an equal one of other workers. */
const patience = 300;

interface Source extends LineSource {
  readonly log: LogRef;
  readonly splitter: Splitter;
  offset: number;
}

export type LogReader = Pick<Client, 'readLog'>;

export function createLogStream(client: LogReader, stdout: Stream, rules: LogRules): LogStream {
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

  /** Reads enough to compare, or until no data is left; with `complete` that is the end of the log. */
  async function fill(source: Source, complete: boolean): Promise<void> {
    while (source.queue.size < lookahead && source.state !== 'ended' && budget > 0) {
      const bytes = await nextBlock(client, source);
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
      for (;;) {
        const bytes = await nextBlock(client, source);
        if (bytes.length === 0) break;
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

  return {
    expect: (workers) => printer.expect(workers),
    async add(log, isFirst) {
      if (sources.some((source) => source.log.job === log.job && source.log.id === log.id)) return false;
      const isWhole = rules.tail === undefined || lastMatches !== null || !isFirst;
      const offset = isWhole ? 0 : await offsetOfLast(client, log, rules.tail ?? 0);
      const queue = createQueue();
      const splitter = createSplitter(splitRules(rules), (piece) => queue.add(piece));
      sources.push({ worker: log.worker, queue, state: 'more', log, splitter, offset });
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
      sources = [];
      return printer.hasPrinted();
    },
    partial: () =>
      sources.flatMap(({ worker, splitter }) => {
        const pending = splitter.pending();
        return pending === '' ? [] : [{ worker, text: escapeLine(escapeForTerminal(pending, false)) }];
      }),
  };
}

/** All bytes of a log at the time of each read, in blocks. */
export async function* logBytes(client: LogReader, { job, id }: LogRef): AsyncIterable<Buffer> {
  for (let from = 0; ;) {
    const { bytes } = await client.readLog(job, id, from, blockSize);
    if (bytes.length === 0) return;
    from += bytes.length;
    yield bufferOf(bytes);
  }
}

async function nextBlock(client: LogReader, source: Source): Promise<Buffer> {
  const { job, id } = source.log;
  const { bytes } = await client.readLog(job, id, source.offset, blockSize);
  source.offset += bytes.length;
  return bufferOf(bytes);
}

/** Without a copy. */
function bufferOf({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

function splitRules(rules: LogRules): SplitRules {
  if (rules.form === 'terminal') return { maxBytes: maxTerminalLine, overflow: 'cut', collapse: true };
  return { maxBytes: maxPipeLine, overflow: 'parts', collapse: false };
}

function queuedPieces(sources: readonly Source[]): number {
  return sources.reduce((count, source) => count + source.queue.size, 0);
}

function createPrinter(stdout: Stream, rules: LineRules, logs: () => readonly Source[]) {
  let text = '';
  let printed = false;
  let announce: (() => void) | undefined;
  /** The log with an unfinished long line, which the next part continues. */
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
    const known = (): readonly WorkerId[] => [...new Set([...workersOf(logs()), ...expected])];
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
    /** From several logs if all have the piece. */
    put(from: readonly Source[], piece: Piece): void {
      recordPrinted();
      const [source] = from;
      // Two logs have unfinished long lines at the same time: each part gets a line of its own.
      if (inside !== undefined && inside !== source) text += '\n';
      const continues = inside !== undefined && inside === source;
      text +=
        rules.form === 'json' && source !== undefined
          ? formatJson(source.log, piece)
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

/** The log's end for 0 lines. Reads backwards, no more than needed. */
async function offsetOfLast(client: LogReader, { job, id, size }: LogRef, lines: number): Promise<number> {
  if (lines === 0) return size;
  let found = 0;
  for (let end = size; end > 0;) {
    const { bytes, from } = await client.readLog(
      job,
      id,
      Math.max(0, end - tailBlockSize),
      Math.min(end, tailBlockSize),
    );
    for (let at = bytes.length - 1; at >= 0; at -= 1) {
      // The newline at the end of the log ends the last line and begins none.
      if (bytes[at] !== 10 || from + at === size - 1) continue;
      found += 1;
      if (found === lines) return from + at + 1;
    }
    end = from;
  }
  return 0;
}
