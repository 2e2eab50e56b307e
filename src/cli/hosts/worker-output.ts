// Output of several workers at once, with the worker's number in front. A terminal shows an equal line once for all
// workers; any other stream gets every line of every worker, byte for byte.

import type { Stream } from '../../app/services.ts';
import type { Duration, Instant } from '../../core/model/time.ts';
import type { Cli } from '../context.ts';
import { formatBody, createSplitter, formatPrefix, type LineRules, type Piece, type Splitter } from '../logs/lines.ts';
import { rawBytes } from '../output.ts';

type StreamName = 'stdout' | 'stderr';

export interface OutputDisplay {
  /** Resolves when more of that worker's output may be read. */
  write(worker: number, chunk: Uint8Array, stream: StreamName): Promise<void>;
  ended(worker: number): Promise<void>;
}

/** On a terminal it calls `clear` before it prints, to remove the status line below. */
export function createOutputDisplay(
  { io, screen }: Cli,
  workers: readonly number[],
  fold: boolean,
  clear: () => void = () => undefined,
): OutputDisplay {
  if (!io.stdout.isTerminal) return createPlainDisplay(io);
  return createFoldedDisplay({ streams: io, workers, now: () => io.now(), clear, fold, colour: screen.colour });
}

type Streams = Readonly<Record<StreamName, Stream>>;

interface FoldOptions {
  readonly streams: Streams;
  readonly workers: readonly number[];
  readonly now: () => Instant;
  readonly clear: () => void;
  readonly fold: boolean;
  readonly colour: boolean;
}

function createPlainDisplay(streams: Streams): OutputDisplay {
  const held = new Map<string, Buffer[]>();
  const newline = 10;
  function write(worker: number, stream: StreamName, lines: Buffer): void {
    const front = Buffer.from(`[${worker}] `);
    const parts: Buffer[] = [];
    for (let from = 0; from < lines.length;) {
      const found = lines.indexOf(newline, from);
      const to = found < 0 ? lines.length : found + 1;
      parts.push(front, lines.subarray(from, to));
      if (found < 0) parts.push(Buffer.from('\n'));
      from = to;
    }
    streams[stream].write(Buffer.concat(parts));
  }
  return {
    async write(worker, chunk, stream) {
      const key = `${worker} ${stream}`;
      const bytes = Buffer.from(chunk);
      const before = held.get(key) ?? [];
      const last = bytes.lastIndexOf(newline);
      if (last < 0) {
        held.set(key, [...before, bytes]);
        return;
      }
      held.set(key, last + 1 === bytes.length ? [] : [bytes.subarray(last + 1)]);
      write(worker, stream, Buffer.concat([...before, bytes.subarray(0, last + 1)]));
      await streams[stream].flush();
    },
    async ended(worker) {
      for (const stream of ['stdout', 'stderr'] as const) {
        const rest = Buffer.concat(held.get(`${worker} ${stream}`) ?? []);
        held.delete(`${worker} ${stream}`);
        if (rest.length > 0) write(worker, stream, rest);
        await streams[stream].flush();
      }
    },
  };
}

const patience: Duration = 300;

interface WorkerLines {
  readonly worker: number;
  readonly splitters: Readonly<Record<StreamName, Splitter>>;
  queue: { readonly piece: Piece; readonly stream: StreamName }[];
  hasEnded: boolean;
}

/** Folds equal lines from about the same time, escapes control sequences, splits long lines. */
function createFoldedDisplay({ streams, workers, now, clear, fold, colour }: FoldOptions): OutputDisplay {
  const rules: LineRules = { form: 'terminal', numbered: true, fold, colour };
  let timer: NodeJS.Timeout | undefined;

  const allLines = new Map<number, WorkerLines>(
    workers.map((worker) => {
      const queue: WorkerLines['queue'] = [];
      const splitter = (stream: StreamName): Splitter =>
        createSplitter({ maxBytes: 65_536, overflow: 'parts', collapse: true }, (piece) =>
          allLines.get(worker)?.queue.push({ piece, stream }),
        );
      return [
        worker,
        { worker, queue, hasEnded: false, splitters: { stdout: splitter('stdout'), stderr: splitter('stderr') } },
      ];
    }),
  );

  function drain(): void {
    clearTimeout(timer);
    for (;;) {
      const waiting = [...allLines.values()].filter(({ queue }) => queue.length > 0);
      const first = waiting.reduce<WorkerLines | undefined>(
        (one, other) => ((one?.queue[0]?.piece.at ?? Infinity) <= (other.queue[0]?.piece.at ?? 0) ? one : other),
        undefined,
      );
      const head = first?.queue[0];
      if (first === undefined || head === undefined) return;
      const same = fold
        ? waiting.filter(({ queue: [other] }) => other?.piece.text === head.piece.text && other.stream === head.stream)
        : [first];
      const mayCome = fold && [...allLines.values()].some(({ queue, hasEnded }) => queue.length === 0 && !hasEnded);
      const waited = now() - head.piece.at;
      if (mayCome && waited < patience) {
        timer = setTimeout(drain, patience - waited);
        return;
      }
      for (const lines of same) lines.queue.shift();
      clear();
      const front = formatPrefix(
        same.map(({ worker }) => worker),
        workers,
        rules,
      );
      streams[head.stream].write(rawBytes(front + formatBody(head.piece, rules)));
    }
  }

  return {
    async write(worker, chunk, stream) {
      allLines.get(worker)?.splitters[stream].push(Buffer.from(chunk), now());
      drain();
      await streams[stream].flush();
    },
    async ended(worker) {
      const lines = allLines.get(worker);
      if (lines === undefined) return;
      for (const splitter of Object.values(lines.splitters)) splitter.end(now());
      lines.hasEnded = true;
      drain();
      await streams.stdout.flush();
      await streams.stderr.flush();
    },
  };
}
