// Parsers for values of flags. Each throws an Error whose message says what it expected.

import type { WorkerId } from '../core/model/spec.ts';
import { durationOf } from '../app/period-border.ts';
import type { Duration } from '../core/model/time.ts';
import { parseDollars, suggestDollars } from '../manifest/dollars.ts';

export function parseCount(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new Error('expected a whole number');
  return Number(text);
}

export function parseCountFrom(least: number): (text: string) => number {
  return (text) => {
    const count = parseCount(text);
    if (count < least) throw new Error(`expected at least ${least}`);
    return count;
  };
}

export function parseFactor(text: string): number {
  const factor = Number(text);
  if (text.trim() === '' || !Number.isFinite(factor) || factor <= 0) throw new Error('expected a number above 0');
  return factor;
}

/** `controller` is the machine that jobman runs on. */
export function parseWorker(text: string): WorkerId {
  if (text === 'controller') return text;
  if (!/^\d{1,6}$/.test(text)) throw new Error("expected a worker's number, or `controller`");
  return Number(text);
}

/** US dollars, as in a manifest. */
export function parseBudget(text: string): number {
  const amount = parseDollars(text);
  if (amount !== undefined) return amount;
  const suggestion = suggestDollars(text);
  throw new Error(
    `expected US dollars: '${suggestion ?? '50 USD'}'${suggestion === undefined ? ", or '0.50 USD'" : ''}`,
  );
}

/** `90s`, `10m`, `2h`, `1d`, `1h30m`; a plain number means seconds. */
export function parseDuration(text: string): Duration {
  const duration = durationOf(text);
  if (duration === undefined) throw new Error('expected a length of time: 90s, 10m, 2h or 1d');
  return duration;
}

export function parseDurationOr<const W extends string>(keyword: W): (text: string) => Duration | W {
  return (text) => {
    const duration = text === keyword ? keyword : durationOf(text);
    if (duration === undefined) throw new Error(`expected a length of time: 90s, 10m, 2h or 1d, or ${keyword}`);
    return duration;
  };
}

export function parsePattern(text: string): RegExp {
  try {
    return new RegExp(text, 'u');
  } catch {
    // Patterns for grep escape more than the strict form allows.
    try {
      return new RegExp(text);
    } catch (error) {
      const [, , why] = /^(.*: )?(.*)$/.exec(error instanceof Error ? error.message : '') ?? [];
      throw new Error(`not a regular expression: ${why ?? text}`, { cause: error });
    }
  }
}

/** `all`, or numbers and ranges: `0,2,4-7`. */
export type WorkerChoice = 'all' | readonly (readonly [from: number, to: number])[];

export function parseWorkers(text: string): WorkerChoice {
  if (text === 'all') return text;
  return text.split(',').map((part) => {
    const [, from, to = from] = /^(\d{1,6})(?:-(\d{1,6}))?$/.exec(part.trim()) ?? [];
    if (from === undefined || Number(to) < Number(from)) throw new Error('expected `all`, or numbers: 0,2 or 0-3,7');
    return [Number(from), Number(to)] as const;
  });
}

/** An address of another machine fails only when it is used. */
export function parseAddress(text: string): string {
  if (text === 'localhost') return '127.0.0.1';
  if (/^\d{1,3}(\.\d{1,3}){3}$/.test(text) || /^(?=.*:)[\da-f:.]+$/i.test(text)) return text;
  throw new Error('expected an address of this machine: 127.0.0.1, 0.0.0.0 or ::1');
}
