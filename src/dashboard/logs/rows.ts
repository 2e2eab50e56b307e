// Rows: the lines of several logs in one order. If equal lines are folded, a row has the equal lines of several logs.

import { digitsKey, foldKey, foldLines } from '../../app/log-text.ts';
import type { LogLine } from './lines.ts';

/** A line of one of the logs. */
export interface Entry {
  /** The number of the log in its window. */
  readonly log: number;
  readonly line: LogLine;
  /** The order among the lines of all logs; grows within a log. */
  readonly at: number;
  /** A line without a time of a log with times, such as those of a traceback. It belongs to the line before it. */
  readonly continues: boolean;
}

export interface Row {
  /** In the order of their arrival; at most one of each log. */
  readonly entries: Entry[];
  readonly logs: Set<number>;
  readonly at: number;
  /** Without the numbers that may differ; empty if rows are not folded. */
  readonly key: string;
  readonly digits: string;
  /** True if the lines differ in more than decimal numbers. */
  isMixed: boolean;
  /** Shows each of its lines. */
  isOpen: boolean;
}

/** In rows. Equal lines that are further apart are not folded. */
const lookahead = 64;
/** The same for lines that differ only in their numbers. */
const similarLookahead = 8;

/**
 * Adds the lines of some logs after the rows, each log's in its order. A line joins the next row with an equal line of other
 * logs if `fold` is true, and otherwise gets a row in the order of `at`.
 */
export function appendEntries(rows: Row[], byLog: readonly (readonly Entry[])[], fold: boolean): void {
  const begin = Math.max(0, rows.length - 2 * lookahead);
  let region = rows.splice(begin);
  const lastRows = new Map<number, Row>();
  for (const row of region) for (const log of row.logs) lastRows.set(log, row);
  for (const entries of byLog) {
    const [first] = entries;
    if (first !== undefined) region = merge(region, entries, lastRows.get(first.log), fold);
  }
  for (const row of region) rows.push(row);
}

/** `last`: the row with the log's newest line. */
function merge(rows: readonly Row[], entries: readonly Entry[], last: Row | undefined, fold: boolean): Row[] {
  const begin = last === undefined ? 0 : rows.indexOf(last) + 1;
  const added = entries.map((entry) => rowOf(entry, fold));
  const matches = fold ? matchesOf(rows, added, begin) : [];
  // A line without a match is before the next one with a match.
  const bounds: number[] = [];
  for (let index = added.length - 1, bound = rows.length; index >= 0; index -= 1) {
    bound = matches[index] ?? bound;
    bounds[index] = bound;
  }
  const merged = rows.slice(0, begin);
  let next = begin;
  added.forEach((row, index) => {
    const match = matches[index];
    const bound = bounds[index] ?? rows.length;
    while (next < bound && (match !== undefined || (rows[next]?.at ?? 0) <= row.at)) {
      const earlier = rows[next];
      if (earlier !== undefined) merged.push(earlier);
      next += 1;
    }
    const same = match === undefined ? undefined : rows[match];
    if (same === undefined) {
      merged.push(row);
      return;
    }
    if (same.key !== row.key) same.isMixed = true;
    join(same, row);
    merged.push(same);
    next = bound + 1;
  });
  for (const row of rows.slice(next)) merged.push(row);
  return merged;
}

function rowOf(entry: Entry, fold: boolean): Row {
  const { text } = entry.line;
  const [key, digits] = fold ? [foldKey(text), digitsKey(text)] : ['', ''];
  return { entries: [entry], logs: new Set([entry.log]), at: entry.at, key, digits, isMixed: false, isOpen: false };
}

/** For each line the index of the row that it joins. */
function matchesOf(rows: readonly Row[], added: readonly Row[], begin: number): readonly (number | undefined)[] {
  let from = begin;
  let before = rows[begin - 1];
  return added.map((row) => {
    const found = isWhole(row) ? matchOf(rows, row, from, before) : undefined;
    if (found !== undefined) from = found + 1;
    before = found === undefined ? row : rows[found];
    return found;
  });
}

/** An equal line is preferred to one with other numbers, such as those of the next step. `before`: the row of the log's line before. */
function matchOf(rows: readonly Row[], row: Row, from: number, before: Row | undefined): number | undefined {
  let similar: number | undefined;
  for (let index = from; index < Math.min(rows.length, from + lookahead); index += 1) {
    const other = rows[index];
    if (other === undefined || !isWhole(other)) continue;
    if (row.entries[0]?.continues === true && before !== undefined && !follows(other, before)) continue;
    if (other.key === row.key) return index;
    if (similar === undefined && index < from + similarLookahead && other.digits === row.digits) similar = index;
  }
  return row.digits === '' ? undefined : similar;
}

/** True if the lines of the row come directly after those of the row before. */
function follows({ entries: [entry] }: Row, before: Row): boolean {
  return before.entries.some(({ log, line }) => log === entry?.log && line.to === entry.line.from);
}

function isWhole({ entries }: Row): boolean {
  return entries[0]?.line.ends === true;
}

function join(row: Row, other: Row): void {
  for (const entry of other.entries) row.entries.push(entry);
  for (const log of other.logs) row.logs.add(log);
}

/** The line that a closed row shows. */
export function rowText({ entries, isMixed }: Row): string {
  const [first, ...others] = entries;
  if (first === undefined) return '';
  if (others.every(({ line }) => line.text === first.line.text)) return first.line.text;
  return foldLines(
    entries.map(({ line }) => line.text),
    isMixed ? 'any' : 'decimal',
  );
}
