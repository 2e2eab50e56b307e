// Prints logs, once or as they grow. Memory is limited to a few blocks per log; a slow reader slows the reading.

import { logBlockSize, type JobLog } from '../../app/job-source.ts';
import type { LogLabel } from '../../app/log-text.ts';
import type { Stream } from '../../app/services.ts';
import {
  decode,
  formatBody,
  createSplitter,
  formatPrefix,
  formatJson,
  type LineRules,
  type Piece,
  type SplitRules,
  type Splitter,
} from './lines.ts';
import { createQueue, type LineSource, lookahead, mergeLines } from './merge.ts';
import { rawBytes } from '../output.ts';
import { escapeForTerminal, escapeLine } from '../../app/format.ts';
import type { Instant } from '../../core/model/time.ts';

export interface LogRules extends LineRules {
  readonly grep?: RegExp | undefined;
  /** Of each log that is not new, only the last lines that match `grep`. */
  readonly lastMatches?: number | undefined;
}

export interface LogStream {
  /** Gives the column of labels its final width from the first line on. */
  expect(labels: readonly LogLabel[]): void;
  /** Does nothing for a log that the stream has already. */
  add(log: JobLog): void;
  /**
   * Calls `before` ahead of the first text. `behind`: more is available, call again. Stops early if the output is
   * closed.
   */
  pump(now: Instant, before?: () => void): Promise<'current' | 'behind'>;
  finish(now: Instant, before?: () => void): Promise<void>;
  /** Such as a progress bar, for a terminal to show below. */
  partial(): readonly { readonly label: LogLabel | null; readonly text: string }[];
}

const maxTerminalLine = 4 * 1024;
const maxPipeLine = 1024 * 1024;
const writeSize = 64 * 1024;
/** Limit for one call of `pump`: a program may print faster than the reader reads. */
const maxPumpBytes = 8 * 1024 * 1024;
/** Time that a line waits for an equal one of other workers. */
const patience = 300;

interface Source extends LineSource {
  readonly log: JobLog;
  readonly splitter: Splitter;
  offset: number;
  /** The last matches until the log is read to its present end. */
  held: Piece[] | null;
}

/** Empty if there are no bytes now. */
export type ReadLog = (log: JobLog, from: number, maxBytes: number) => Promise<Uint8Array>;

export function createLogStream(readLog: ReadLog, stdout: Stream, rules: LogRules): LogStream {
  let sources: Source[] = [];
  let readAt: Instant = 0;
  let budget = 0;
  const fold = rules.fold && rules.lastMatches === undefined;
  const printer = createPrinter(stdout, rules, () => sources);

  function emit(from: readonly Source[], piece: Piece): void {
    if (rules.grep?.test(rules.form === 'raw' ? decode(Buffer.from(piece.text, 'latin1')) : piece.text) === false)
      return;
    // Without folding each line has one source.
    const [source] = from;
    if (source === undefined || source.held === null) return printer.put(from, piece);
    source.held.push(piece);
    if (source.held.length > (rules.lastMatches ?? 0)) source.held.shift();
  }

  function release(source: Source): void {
    for (const piece of source.held ?? []) printer.put([source], piece);
    source.held = null;
  }

  async function nextBlock(source: Source): Promise<Buffer> {
    const { buffer, byteOffset, byteLength } = await readLog(source.log, source.offset, logBlockSize);
    source.offset += byteLength;
    return Buffer.from(buffer, byteOffset, byteLength);
  }

  /** Reads enough to compare, or until no data is left; with `complete` that is the end of the log. */
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
      for (const source of sources) if (source.state !== 'more' && source.queue.size === 0) release(source);
      await printer.write(writeSize);
      if (stdout.closed || budget <= 0 || queuedPieces(sources) === before) return;
    }
  }

  async function pumpBytes(): Promise<void> {
    for (const source of sources) {
      for (;;) {
        const bytes = await nextBlock(source);
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
    if (rules.form === 'raw' && rules.grep === undefined) await pumpBytes();
    else await pumpLines(complete);
    await printer.write();
  }

  return {
    expect: (labels) => printer.expect(labels),
    add(log) {
      if (sources.some((source) => source.log.job === log.job && source.log.id === log.id)) return;
      const queue = createQueue();
      const splitter = createSplitter(splitRules(rules), (piece) => queue.add(piece));
      const held = rules.lastMatches === undefined || log.isNew ? null : [];
      sources.push({ queue, state: 'more', log, splitter, offset: log.from, held });
      printer.resetPrefixes();
    },
    async pump(now, before) {
      await pumpAll(now, before, false);
      return budget <= 0 ? 'behind' : 'current';
    },
    async finish(now, before) {
      await pumpAll(now, before, true);
      await printer.end();
      sources = [];
    },
    partial: () =>
      sources.flatMap(({ log: { label }, splitter }) => {
        const pending = splitter.pending();
        return pending === '' ? [] : [{ label, text: escapeLine(escapeForTerminal(pending, false)) }];
      }),
  };
}

function splitRules(rules: LogRules): SplitRules {
  if (rules.form === 'terminal') return { maxBytes: maxTerminalLine, overflow: 'cut', collapse: true };
  return { maxBytes: maxPipeLine, overflow: 'parts', collapse: false, isBinary: rules.form === 'raw' };
}

function queuedPieces(sources: readonly Source[]): number {
  return sources.reduce((count, source) => count + source.queue.size, 0);
}

function createPrinter(stdout: Stream, rules: LineRules, logs: () => readonly Source[]) {
  let text = '';
  let announce: (() => void) | undefined;
  /** The log with an unfinished long line, which the next part continues. */
  let inside: Source | undefined;
  /** True if the last log was printed without a newline at its end. */
  let isLineOpen = false;
  let expected: readonly LogLabel[] = [];
  const prefixes = new Map<unknown, string>();

  function announceText(): void {
    announce?.();
    announce = undefined;
  }

  function prefixOf(from: readonly Source[]): string {
    // Nearly every line has one source, so its key must cost nothing.
    const key = from.length === 1 ? from[0]?.log.label : labelsOf(from).join();
    const known = (): readonly LogLabel[] => [...new Set([...labelsOf(logs()), ...expected])];
    const prefix = prefixes.get(key) ?? formatPrefix(labelsOf(from), known(), rules);
    prefixes.set(key, prefix);
    return prefix;
  }

  /** Waits until the reader has taken the text. */
  async function write(least = 1): Promise<void> {
    if (text.length < least) return;
    // Raw, because each line is sanitized already and keeps its program's colours.
    stdout.write(rules.form === 'json' ? text : rules.form === 'raw' ? Buffer.from(text, 'latin1') : rawBytes(text));
    text = '';
    await stdout.flush();
  }

  return {
    begin(before: (() => void) | undefined): void {
      announce = before;
    },
    /** From several logs if all have the piece. */
    put(from: readonly Source[], piece: Piece): void {
      announceText();
      const [source] = from;
      if (isLineOpen) text += '\n';
      isLineOpen = false;
      // Two logs have unfinished long lines at the same time: each part gets a line of its own.
      if (inside !== undefined && inside !== source) text += '\n';
      const isText = rules.form === 'pipe' || rules.form === 'raw';
      const isOpen = isText && (!piece.ends || piece.isUnfinished === true);
      const continues = inside !== undefined && inside === source;
      text +=
        rules.form === 'json' && source !== undefined
          ? formatJson(source.log, piece)
          : (continues || rules.form === 'raw' ? '' : prefixOf(from)) +
            formatBody(isOpen ? { ...piece, ends: false } : piece, rules);
      inside = isOpen ? source : undefined;
    },
    write,
    async bytes(bytes: Uint8Array): Promise<void> {
      announceText();
      stdout.write(bytes);
      await stdout.flush();
    },
    async end(): Promise<void> {
      // The only log of a pod is printed byte for byte, as `kubectl logs` does.
      isLineOpen = inside?.log.pod !== null && inside?.log.label === null;
      if (inside !== undefined && !isLineOpen) text += '\n';
      inside = undefined;
      await write();
    },
    expect(labels: readonly LogLabel[]): void {
      if (labels.length === expected.length) return;
      expected = labels;
      prefixes.clear();
    },
    resetPrefixes: (): void => prefixes.clear(),
  };
}

function labelsOf(sources: readonly Source[]): readonly LogLabel[] {
  return sources.flatMap(({ log: { label } }) => label ?? []);
}
