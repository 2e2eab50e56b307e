// Output of several workers at once, with the worker's number in front. A terminal shows an equal line once for all
// workers; any other stream gets every line of every worker, byte for byte.

import type { Stream } from '../../app/services.ts';
import type { Duration } from '../../core/model/time.ts';
import type { Cli } from '../context.ts';
import { formatBody, createSplitter, formatPrefix, type LineRules, type Splitter } from '../logs/lines.ts';
import { createQueue, type LineSource, mergeLines } from '../logs/merge.ts';
import { rawBytes } from '../output.ts';

type StreamName = 'stdout' | 'stderr';

export interface OutputDisplay {
  /** Resolves when more of that worker's output may be read. */
  write(worker: number, chunk: Uint8Array, stream: StreamName): Promise<void>;
  ended(worker: number): Promise<void>;
}

/** On a terminal it calls `clear` before it prints, to remove the status line below. */
export function createOutputDisplay(
  cli: Cli,
  workers: readonly number[],
  fold: boolean,
  clear: () => void = () => undefined,
): OutputDisplay {
  return cli.io.stdout.isTerminal ? createFoldedDisplay(cli, workers, fold, clear) : createPlainDisplay(cli.io);
}

type Streams = Readonly<Record<StreamName, Stream>>;

function createPlainDisplay(streams: Streams): OutputDisplay {
  const held = new Map<string, Buffer[]>();
  const newline = 10;
  function write(worker: number, stream: StreamName, lines: Buffer): void {
    // Latin-1 keeps every byte.
    const text = lines.toString('latin1').replace(/\n$/, '').replaceAll('\n', `\n[${worker}] `);
    streams[stream].write(Buffer.from(`[${worker}] ${text}\n`, 'latin1'));
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

interface Source extends LineSource {
  readonly worker: number;
  readonly splitter: Splitter;
}

/** Folds equal lines from about the same time, escapes control sequences, splits long lines. */
function createFoldedDisplay(
  { io, screen }: Cli,
  workers: readonly number[],
  fold: boolean,
  clear: () => void,
): OutputDisplay {
  const rules: LineRules = { form: 'terminal', fold, colour: screen.colour };
  const limits = { maxBytes: 65_536, overflow: 'parts', collapse: true } as const;
  const createSource = (worker: number): Source => {
    const queue = createQueue();
    return { worker, queue, state: 'later', splitter: createSplitter(limits, (piece) => queue.add(piece)) };
  };
  const sources = { stdout: workers.map(createSource), stderr: workers.map(createSource) };
  let timer: NodeJS.Timeout | undefined;

  async function drain(): Promise<void> {
    clearTimeout(timer);
    for (const stream of ['stdout', 'stderr'] as const) {
      mergeLines(sources[stream], { fold, patience }, io.now(), (from, piece) => {
        const printed = from.map(({ worker }) => worker);
        clear();
        io[stream].write(rawBytes(formatPrefix(printed, workers, rules) + formatBody(piece, rules)));
      });
    }
    const isWaiting = [...sources.stdout, ...sources.stderr].some(({ queue }) => queue.size > 0);
    if (isWaiting) timer = setTimeout(() => void drain(), patience);
    await io.stdout.flush();
    await io.stderr.flush();
  }

  return {
    write(worker, chunk, stream) {
      sources[stream].find((one) => one.worker === worker)?.splitter.push(Buffer.from(chunk), io.now());
      return drain();
    },
    ended(worker) {
      for (const source of [...sources.stdout, ...sources.stderr].filter((one) => one.worker === worker)) {
        source.splitter.end(io.now());
        source.state = 'ended';
      }
      return drain();
    },
  };
}
