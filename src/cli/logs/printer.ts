// Lines of log files on their way to standard output, with the number of their worker in front.

import type { Stream } from '../../app/services.ts';
import type { WorkerId } from '../../core/spec.ts';
import { exactly } from '../output.ts';
import { bodyText, frontText, jsonText, type LineRules } from './line.ts';
import type { Lane } from './mix.ts';
import type { Piece } from './split.ts';

/** A file that lines come from. */
export interface Origin extends Lane {
  readonly attempt: number | null;
}

export interface Printer<From extends Origin> {
  /** `before` is called once, ahead of the first text from now on. */
  begin(before: (() => void) | undefined): void;
  hasPrinted(): boolean;
  /** Gathers one piece; of several files where all have printed it. */
  put(from: From | readonly From[], piece: Piece): void;
  /** Writes what was gathered where it is at least so much, and waits until the reader has taken it. */
  write(least?: number): Promise<void>;
  /** Writes bytes as they are. */
  bytes(bytes: Uint8Array): Promise<void>;
  /** Ends a line that has come in part, and writes all. */
  end(): Promise<void>;
  /** These workers will have lines, so that the column of their numbers is wide enough. */
  expect(workers: readonly WorkerId[]): void;
  /** There are other files than before, so the column of numbers may have become wider. */
  widen(): void;
}

export function createPrinter<From extends Origin>(
  stdout: Stream,
  rules: LineRules,
  files: () => readonly From[],
): Printer<From> {
  let text = '';
  let printed = false;
  let announce: (() => void) | undefined;
  /** The file whose long line has come in part only, so that its next part continues the line. */
  let inside: From | undefined;
  let expected: readonly WorkerId[] = [];
  /** The number in front of a worker's lines is made once. */
  let fronts = new Map<From, string>();

  function say(): void {
    printed = true;
    announce?.();
    announce = undefined;
  }

  function frontOf(from: From | readonly From[]): string {
    if (!rules.numbered) return '';
    const known = [...new Set([...workersOf(files()), ...expected])];
    if (!('queue' in from)) return frontText(workersOf(from), known, rules);
    const front = fronts.get(from) ?? frontText(workersOf([from]), known, rules);
    fronts.set(from, front);
    return front;
  }

  async function write(least = 1): Promise<void> {
    if (text.length < least) return;
    // The lines keep the colours of their programs, and were made harmless one by one.
    stdout.write(rules.form === 'json' ? text : exactly(text));
    text = '';
    await stdout.flush();
  }

  return {
    begin(before) {
      printed = false;
      announce = before;
    },
    hasPrinted: () => printed,
    put(from, piece) {
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
    async bytes(bytes) {
      say();
      stdout.write(bytes);
      await stdout.flush();
    },
    async end() {
      if (inside !== undefined) text += '\n';
      inside = undefined;
      await write();
    },
    expect(workers) {
      if (workers.length === expected.length) return;
      expected = workers;
      fronts = new Map();
    },
    widen() {
      fronts = new Map();
    },
  };
}

function workersOf(lanes: readonly Lane[]): readonly WorkerId[] {
  return lanes.flatMap(({ worker }) => (worker === null ? [] : [worker]));
}
