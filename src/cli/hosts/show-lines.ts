// Output of several workers at once, as lines with the worker in front. On a terminal a line that several print is
// drawn once for all of them; elsewhere every line of every worker is written, byte for byte.

import type { Stream } from '../../app/services.ts';
import type { Duration, Instant } from '../../core/time.ts';
import type { Cli } from '../context.ts';
import { bodyText, createSplitter, frontText, type LineRules, type Piece, type Splitter } from '../logs/lines.ts';
import { exactly } from '../output.ts';

type StreamName = 'stdout' | 'stderr';

export interface LineShow {
  /** Resolves when more may be read of that worker. */
  take(worker: number, chunk: Uint8Array, stream: StreamName): Promise<void>;
  ended(worker: number): Promise<void>;
}

/** Shows them as standard output wants it. `clear` is called before something is printed on a terminal: what is drawn below must go. */
export function showLines(
  { io, screen }: Cli,
  workers: readonly number[],
  fold: boolean,
  clear: () => void = () => undefined,
): LineShow {
  if (!io.stdout.isTerminal) return showEach(io);
  return showFolded({ streams: io, workers, now: () => io.now(), clear, fold, colour: screen.colour });
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

function showEach(streams: Streams): LineShow {
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
    async take(worker, chunk, stream) {
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

interface Lane {
  readonly worker: number;
  readonly splitters: Readonly<Record<StreamName, Splitter>>;
  queue: { readonly piece: Piece; readonly stream: StreamName }[];
  isOver: boolean;
}

/** Lines for a person: equal ones that come about together once, made harmless, long ones in parts. */
function showFolded({ streams, workers, now, clear, fold, colour }: FoldOptions): LineShow {
  const rules: LineRules = { form: 'terminal', numbered: true, fold, colour };
  let timer: NodeJS.Timeout | undefined;

  const lanes = new Map<number, Lane>(
    workers.map((worker) => {
      const queue: Lane['queue'] = [];
      const splitter = (stream: StreamName): Splitter =>
        createSplitter({ most: 65_536, longer: 'parts', collapse: true }, (piece) =>
          lanes.get(worker)?.queue.push({ piece, stream }),
        );
      return [
        worker,
        { worker, queue, isOver: false, splitters: { stdout: splitter('stdout'), stderr: splitter('stderr') } },
      ];
    }),
  );

  function drain(): void {
    clearTimeout(timer);
    for (;;) {
      const waiting = [...lanes.values()].filter(({ queue }) => queue.length > 0);
      const first = waiting.reduce<Lane | undefined>(
        (one, other) => ((one?.queue[0]?.piece.at ?? Infinity) <= (other.queue[0]?.piece.at ?? 0) ? one : other),
        undefined,
      );
      const head = first?.queue[0];
      if (first === undefined || head === undefined) return;
      const same = fold
        ? waiting.filter(({ queue: [other] }) => other?.piece.text === head.piece.text && other.stream === head.stream)
        : [first];
      const mayCome = fold && [...lanes.values()].some(({ queue, isOver }) => queue.length === 0 && !isOver);
      const waited = now() - head.piece.at;
      if (mayCome && waited < patience) {
        timer = setTimeout(drain, patience - waited);
        return;
      }
      for (const lane of same) lane.queue.shift();
      clear();
      const front = frontText(
        same.map(({ worker }) => worker),
        workers,
        rules,
      );
      streams[head.stream].write(exactly(front + bodyText(head.piece, rules)));
    }
  }

  return {
    async take(worker, chunk, stream) {
      lanes.get(worker)?.splitters[stream].push(Buffer.from(chunk), now());
      drain();
      await streams[stream].flush();
    },
    async ended(worker) {
      const lane = lanes.get(worker);
      if (lane === undefined) return;
      for (const splitter of Object.values(lane.splitters)) splitter.end(now());
      lane.isOver = true;
      drain();
      await streams.stdout.flush();
      await streams.stderr.flush();
    },
  };
}
