// The lines of some logs around a position. Only this window is in memory; it grows at both ends as a person scrolls, and
// follows the end of the logs.

import type { LogRef } from '../../app/client.ts';
import { isErrorLine, timeOfLine } from '../../app/log-text.ts';
import { lineStart, type ReadPart } from '../../app/find-line.ts';
import { linesAfter, linesBefore, type LinesRead, type LogLine } from './lines.ts';
import { appendEntries, type Entry, type Row } from './rows.ts';

export interface WindowLog {
  readonly ref: LogRef;
  readonly read: ReadPart;
}

export interface Position {
  /** The number of the log in the window. */
  readonly log: number;
  readonly offset: number;
}

/** The part of one log that is in the window. */
interface Part {
  /** The beginning of its first line, and the end of its last complete one. */
  from: number;
  to: number;
  /** The size of the log, as far as it is known. */
  size: number;
  isComplete: boolean;
  /** Lines that were read and are outside the window. */
  above: readonly Entry[];
  below: readonly Entry[];
}

/** Lines in memory, of all logs together. */
export const maxLines = 20_000;
/** While only the end is shown. */
const followedLines = 6_000;
/** The bytes of one step, of all logs together. */
const stepBytes = 256 * 1024;
const minBytes = 4 * 1024;
/** At one end of a log, to see whether its lines have times. */
const sampleBytes = 16 * 1024;

interface State {
  readonly logs: readonly WindowLog[];
  readonly now: () => number;
  /** Of one read of each log. */
  readonly blockBytes: number;
  readonly isFolded: boolean;
  rows: Row[];
  parts: Part[];
  /** At the opening. */
  sizes: readonly number[];
  openedAt: number;
  /** True if every line has a time, so that the lines of all logs have an order. */
  isTimed: boolean;
  /** Logs of very different sizes are compared from their ends. */
  isSimilar: boolean;
  /** Counts the openings, so that an older read has no effect. */
  generation: number;
}

export type LogWindow = ReturnType<typeof createLogWindow>;

/** `now`: a clock that does not go back. Every method that reads rejects if the server does not answer; what was read stays. */
export function createLogWindow(logs: readonly WindowLog[], fold: boolean, now: () => number) {
  const state: State = {
    logs,
    now,
    blockBytes: Math.max(minBytes, Math.ceil(stepBytes / Math.max(1, logs.length))),
    isFolded: fold && logs.length > 1,
    rows: [],
    parts: [],
    sizes: logs.map(({ ref }) => ref.size),
    openedAt: now(),
    isTimed: false,
    isSimilar: true,
    generation: 0,
  };
  return {
    rows: (): readonly Row[] => state.rows,
    isAtStart: (): boolean =>
      state.parts.length > 0 && state.parts.every(({ from, above }) => from === 0 && above.length === 0),
    isAtEnd: (): boolean => state.parts.length > 0 && state.parts.every((_, log) => !hasMore(state, log)),
    isComplete: (): boolean => state.parts.length > 0 && state.parts.every(({ isComplete }) => isComplete),
    sizeOf: (log: number): number => known(state, log),
    /** The share of the bytes before the row, from 0 to 1. */
    shareOf(row: Row): number {
      const [entry] = row.entries;
      return entry === undefined ? 1 : entry.line.from / Math.max(1, known(state, entry.log));
    },
    /** The offset of each log at this row: the beginning of its next line. */
    offsetsOf(row: number): readonly number[] {
      const found = new Map<number, number>();
      for (let index = Math.max(0, row); index < state.rows.length && found.size < state.logs.length; index += 1)
        for (const { log, line } of state.rows[index]?.entries ?? []) if (!found.has(log)) found.set(log, line.from);
      return state.logs.map((_, log) => found.get(log) ?? state.parts[log]?.to ?? 0);
    },
    /** The row with the line; -1 outside the window. */
    rowOf: ({ log, offset }: Position): number =>
      state.rows.findIndex(({ entries }) =>
        entries.some((entry) => entry.log === log && entry.line.from <= offset && offset < entry.line.to),
      ),
    async openEnd(): Promise<void> {
      await sample(state, true);
      if (await begin(state, state.sizes)) {
        await up(state);
        await down(state);
      }
    },
    async openStart(): Promise<void> {
      await sample(state, false);
      if (
        await begin(
          state,
          state.logs.map(() => 0),
        )
      )
        await down(state);
    },
    /** The lines around a position. */
    async openAt(position: Position): Promise<void> {
      if (state.parts.length === 0) await sample(state, false);
      if (await begin(state, await offsetsAt(state, position))) {
        await up(state);
        await down(state);
      }
    },
    up: (): Promise<boolean> => up(state),
    down: (): Promise<boolean> => down(state),
    /** Reads what is new at the end. False without anything. */
    async grow(): Promise<boolean> {
      let isNew = false;
      while (state.parts.some((_, log) => hasMore(state, log)) && (await down(state))) {
        isNew = true;
        if (state.rows.length > maxLines) break;
      }
      return isNew;
    },
    /** A log has this size now. True if it became shorter, so that everything must be read again. */
    setSize(log: number, size: number): boolean {
      const part = state.parts[log];
      if (part === undefined) return false;
      const isShorter = size < part.to;
      part.size = isShorter ? size : Math.max(part.size, size);
      if (isShorter) state.sizes = state.sizes.with(log, size);
      return isShorter;
    },
    /** Forgets lines at one end, because there are too many. Returns the number of rows. */
    trim: (end: 'top' | 'bottom'): number => trim(state, end),
    trimFollowed: (): number => trim(state, 'top', followedLines),
  };
}

function known({ sizes, parts }: State, log: number): number {
  return Math.max(sizes[log] ?? 0, parts[log]?.size ?? 0);
}

/** Without times, the order of a line is its share of the log, because workers do the same work. New lines are last. */
function orderOf(state: State, log: number, line: LogLine): number {
  if (state.logs.length === 1) return line.to;
  const size = state.sizes[log] ?? 0;
  if (line.to > size) return 1 + (state.now() - state.openedAt);
  return state.isSimilar ? line.to / size : line.to - size;
}

function entriesOf(state: State, log: number, lines: readonly LogLine[]): readonly Entry[] {
  let last = Number.NEGATIVE_INFINITY;
  const first = state.isTimed
    ? (lines.map(({ text }) => timeOfLine(text)).find((time) => time !== null) ?? null)
    : null;
  return lines.map((line) => {
    const own = state.isTimed ? timeOfLine(line.text) : orderOf(state, log, line);
    last = Math.max(last, own ?? first ?? last);
    return { log, line, at: last === Number.NEGATIVE_INFINITY ? 0 : last, continues: own === null };
  });
}

function note(part: Part, { end, isComplete }: LinesRead): void {
  part.size = end;
  part.isComplete = isComplete;
}

/** Begins at these lines. Has no effect if another position is requested meanwhile. */
async function begin(state: State, offsets: readonly number[]): Promise<boolean> {
  state.generation += 1;
  const own = state.generation;
  const starts = await Promise.all(
    state.logs.map(async ({ read }, log) => ((offsets[log] ?? 0) === 0 ? 0 : lineStart(read, offsets[log] ?? 0))),
  );
  if (own !== state.generation) return false;
  state.rows = [];
  state.parts = starts.map((start, log) => ({
    from: start,
    to: start,
    size: known(state, log),
    isComplete: false,
    above: [],
    below: [],
  }));
  return true;
}

async function sample(state: State, end: boolean): Promise<void> {
  state.sizes = state.logs.map((_, log) => known(state, log));
  state.openedAt = state.now();
  state.isSimilar = Math.min(...state.sizes.filter((one) => one > 0)) * 2 >= Math.max(...state.sizes);
  if (state.logs.length < 2) return;
  const samples = await Promise.all(
    state.logs.map(async ({ read }, log) => {
      const size = state.sizes[log] ?? 0;
      return (await (end ? linesBefore(read, size, sampleBytes) : linesAfter(read, 0, sampleBytes))).lines;
    }),
  );
  state.isTimed = samples.every((sampled) => {
    // The lines of an error have no times.
    const error = sampled.findIndex(({ text }) => isErrorLine(text));
    const lines = error > 0 ? sampled.slice(0, error) : sampled;
    const times = lines.filter(({ text }) => timeOfLine(text) !== null).length;
    return lines.length === 0 || times * 2 >= lines.length;
  });
}

/** Reads before the window. False at the beginning of all logs. */
async function up(state: State): Promise<boolean> {
  const own = state.generation;
  const read = await Promise.all(
    state.parts.map(async (part, log): Promise<readonly Entry[]> => {
      if (part.above.length > 0 || part.from === 0) return part.above;
      const source = state.logs[log];
      if (source === undefined) return [];
      const answer = await linesBefore(source.read, part.from, state.blockBytes);
      if (own === state.generation) part.size = Math.max(part.size, answer.end);
      return entriesOf(state, log, answer.lines);
    }),
  );
  if (own !== state.generation || read.every((entries) => entries.length === 0)) return false;
  // A log with more before its first line may have lines that belong above those of the others.
  const limit = Math.max(
    ...read.map((entries) => {
      const [first] = entries;
      return first === undefined || first.line.from === 0 ? Number.NEGATIVE_INFINITY : first.at;
    }),
  );
  const added = read.map((entries, log) => {
    const cut = entries.findIndex(({ at }) => at >= limit);
    const count = cut < 0 ? entries.length : cut;
    const part = state.parts[log];
    if (part !== undefined) {
      part.above = entries.slice(0, count);
      part.from = entries[count]?.line.from ?? part.from;
    }
    return entries.slice(count);
  });
  const before: Row[] = [];
  appendEntries(before, added, state.isFolded);
  state.rows = [...before, ...state.rows];
  return true;
}

/** Reads after the window, also a line that was unfinished. False without anything new. */
async function down(state: State): Promise<boolean> {
  const own = state.generation;
  const read = await Promise.all(
    state.parts.map(async (part, log): Promise<readonly Entry[]> => {
      const source = state.logs[log];
      if (part.below.length > 0 || source === undefined || !hasMore(state, log)) return part.below;
      const answer = await linesAfter(source.read, part.to, state.blockBytes);
      if (own !== state.generation) return [];
      note(part, answer);
      return entriesOf(state, log, answer.lines);
    }),
  );
  if (own !== state.generation || read.every((entries) => entries.length === 0)) return false;
  const limit = Math.min(
    ...read.map((entries, log) => {
      const last = entries.at(-1);
      return last === undefined || last.line.to >= (state.parts[log]?.size ?? 0) ? Number.POSITIVE_INFINITY : last.at;
    }),
  );
  const added = read.map((entries, log) => {
    const count = entries.findLastIndex(({ at }) => at <= limit) + 1;
    const taken = entries.slice(0, count);
    const part = state.parts[log];
    if (part === undefined) return taken;
    part.below = entries.slice(count);
    const last = taken.at(-1);
    if (last !== undefined) {
      dropUnfinished(state, log);
      part.to = last.line.ends || last.line.to < part.size ? last.line.to : last.line.from;
    }
    return taken;
  });
  appendEntries(state.rows, added, state.isFolded);
  return true;
}

function dropUnfinished(state: State, log: number): void {
  const from = Math.max(0, state.rows.length - 512);
  for (let index = state.rows.length - 1; index >= from; index -= 1) {
    const [entry] = state.rows[index]?.entries ?? [];
    if (entry?.log !== log || entry.line.ends || entry.line.from < (state.parts[log]?.to ?? 0)) continue;
    state.rows.splice(index, 1);
    return;
  }
}

/** True if bytes after the window exist that were not read. An unfinished line counts once it has grown. */
function hasMore(state: State, log: number): boolean {
  const part = state.parts[log];
  if (part === undefined) return false;
  const unfinished = lastOf(state, log);
  const shown = unfinished === undefined ? part.to : Math.max(part.to, unfinished.line.to);
  return part.below.length > 0 || shown < known(state, log);
}

function lastOf(state: State, log: number): Entry | undefined {
  for (let index = state.rows.length - 1; index >= Math.max(0, state.rows.length - 512); index -= 1) {
    const found = state.rows[index]?.entries.find((entry) => entry.log === log);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Forgets lines at one end, because there are too many. */
function trim(state: State, end: 'top' | 'bottom', most = maxLines): number {
  let count = state.rows.reduce((sum, { entries }) => sum + entries.length, 0);
  let dropped = 0;
  const edge = new Map<number, LogLine>();
  while (count > most && state.rows.length - dropped > 1) {
    const row = state.rows[end === 'top' ? dropped : state.rows.length - 1 - dropped];
    for (const { log, line } of row?.entries ?? []) edge.set(log, line);
    count -= row?.entries.length ?? 0;
    dropped += 1;
  }
  if (dropped === 0) return 0;
  state.rows = end === 'top' ? state.rows.slice(dropped) : state.rows.slice(0, -dropped);
  for (const [log, line] of edge) {
    const part = state.parts[log];
    if (part === undefined) continue;
    if (end === 'top') Object.assign(part, { from: line.to, above: [] });
    else Object.assign(part, { to: line.from, below: [] });
  }
  return dropped;
}

/** The offsets of the other logs at about the same position. */
async function offsetsAt(state: State, { log, offset }: Position): Promise<readonly number[]> {
  const share = offset / Math.max(1, known(state, log));
  const read = state.logs[log]?.read;
  const lines =
    state.isTimed && read !== undefined ? (await linesAfter(read, await lineStart(read, offset), minBytes)).lines : [];
  const time = lines.map(({ text }) => timeOfLine(text)).find((one) => one !== null) ?? null;
  return Promise.all(
    state.logs.map(async (other, index) => {
      if (index === log) return offset;
      const guess = Math.floor(share * known(state, index));
      return time === null ? guess : offsetOfTime(other.read, time, known(state, index), guess);
    }),
  );
}

/** Reads a few blocks of a log whose lines have times. */
async function offsetOfTime(read: ReadPart, time: number, size: number, guess: number): Promise<number> {
  let low = 0;
  let high = size;
  let at = guess;
  for (let tries = 0; tries < 24 && high - low > 2 * minBytes; tries += 1) {
    const { lines } = await linesAfter(read, await lineStart(read, at), minBytes);
    const times = lines.flatMap((line) => {
      const found = timeOfLine(line.text);
      return found === null ? [] : [{ from: line.from, time: found }];
    });
    const [first] = times;
    const last = times.at(-1);
    if (first === undefined || last === undefined) return at;
    if (first.time < time && time <= last.time) return times.find((one) => one.time >= time)?.from ?? at;
    if (first.time >= time) high = at;
    else low = at;
    at = Math.floor((low + high) / 2);
  }
  return low;
}
