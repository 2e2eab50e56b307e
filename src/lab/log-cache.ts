// Log cache: what was read of logs, kept between two commands. A file of its own for each user, which may be lost, cut or written
// over by somebody else at any time: whoever reads it then reads a little more of some logs, and that is all.

import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { asFileName } from '../app/job-folder.ts';
import { fileModeIn, makeFolder } from '../app/make-folder.ts';
import type { LogPhase, LogSoFar } from '../core/phases.ts';

/** Raise this when what is kept gets another form: an older file is then none. */
const form = 1;

export interface LogCache {
  /** What was known of that attempt's log; null where nothing is. */
  of(attempt: string): LogSoFar | null;
  /** What is known now; of others than these nothing is kept. */
  take(logs: ReadonlyMap<string, LogSoFar>): void;
  /** Writes it down where anything has changed. Never throws. */
  write(): void;
}

/** What was kept for that user. Never throws. */
export function openLogCache(home: string, user: string): LogCache {
  const path = join(home, 'cache', `check-${asFileName(user)}.json`);
  const before = readCache(path);
  let now: ReadonlyMap<string, LogSoFar> = before;
  return {
    of: (attempt) => now.get(attempt) ?? null,
    take(logs) {
      now = new Map([...logs].filter(([, { offset }]) => offset > 0));
    },
    write() {
      const isSame = now.size === before.size && [...now].every(([name, log]) => before.get(name) === log);
      if (!isSame) writeCache(path, now);
    },
  };
}

function writeCache(path: string, logs: ReadonlyMap<string, LogSoFar>): void {
  const unfinished = `${path}.${Math.random().toString(36).slice(2)}`;
  try {
    makeFolder(dirname(path));
    writeFileSync(unfinished, JSON.stringify({ form, logs: Object.fromEntries(logs) }), {
      mode: fileModeIn(dirname(path)),
    });
    renameSync(unfinished, path);
  } catch {
    rmSync(unfinished, { force: true });
  }
}

function readCache(path: string): ReadonlyMap<string, LogSoFar> {
  try {
    const read: unknown = JSON.parse(readFileSync(path, 'utf8'));
    if (typeof read !== 'object' || read === null || !('form' in read) || read.form !== form) return new Map();
    const logs = 'logs' in read && typeof read.logs === 'object' && read.logs !== null ? read.logs : {};
    return new Map(Object.entries(logs).flatMap(([name, log]) => (isLog(log) ? [[name, log]] : [])));
  } catch {
    return new Map();
  }
}

function isLog(log: unknown): log is LogSoFar {
  if (typeof log !== 'object' || log === null) return false;
  const { offset, phase, trouble, unfinished, tail } = log as Partial<Record<keyof LogSoFar, unknown>>;
  return (
    typeof offset === 'number' &&
    Number.isSafeInteger(offset) &&
    isPhase(phase) &&
    (trouble === null || typeof trouble === 'string') &&
    typeof unfinished === 'string' &&
    typeof tail === 'string'
  );
}

function isPhase(phase: unknown): phase is LogPhase {
  if (typeof phase !== 'object' || phase === null || !('kind' in phase)) return false;
  const { kind } = phase;
  if (kind === 'running') return 'epoch' in phase && typeof phase.epoch === 'string';
  return ['unknown', 'staging', 'initializing', 'compiling', 'sampling'].includes(String(kind));
}
