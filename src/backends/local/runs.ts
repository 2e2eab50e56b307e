// Looking at runs on this machine: the same files and marks that remote/attempt.ts reads with a shell, read directly. A look
// at a local job is a few small reads; they are synchronous because each takes less than handing it to another thread.

import { readFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { textOf, namesFileShortage } from '../../app/errors.ts';
import type { RunSeen } from '../../core/observation.ts';
import type { Instant } from '../../core/time.ts';
import { codesOfGoingDown, exited, restartedWords } from '../../remote/attempt.ts';
import { startPatienceMs } from '../../remote/run-folder.ts';

export interface RunFolder {
  readonly attempt: number;
  readonly path: string;
  readonly mark: string;
}

interface Exit {
  readonly code: number;
  readonly endedAt: Instant;
}

/**
 * How it stands with that run. Nothing counts as older than `leaptAt`, when the clock was last put forward: nobody has been
 * silent, or has been starting, for so long. Throws when a file is there and cannot be read: then nothing is known.
 */
export function lookAtRun(folder: RunFolder, bootId: string, now: Instant, leaptAt: Instant = -Infinity): RunSeen {
  const { attempt, path } = folder;
  const exit = readExit(path);
  if (exit !== undefined) return endedBy(folder, exit, bootId);
  const launcher = readPid(path);
  if (launcher !== undefined) {
    if (!isAlive(launcher, bootId)) {
      // It may have ended between the two questions.
      const exitNow = readExit(path);
      if (exitNow !== undefined) return endedBy(folder, exitNow, bootId);
      if (findMarked(folder.mark).length === 0) {
        const restarted = launcher.bootId !== bootId;
        return vanished(
          attempt,
          restarted ? restartedWords : 'its processes were killed from outside, and no exit code was written',
        );
      }
    }
    const outputAt = modifiedAt(join(path, 'log')) ?? launcher.startedAt;
    return {
      attempt,
      state: 'running',
      startedAt: launcher.startedAt,
      outputAt: Math.max(launcher.startedAt, outputAt, leaptAt),
    };
  }
  if (isThere(join(path, 'never'))) return vanished(attempt, 'it was stopped before it had begun');
  const since = Math.max(modifiedAt(path) ?? now, leaptAt);
  if (now - since < startPatienceMs || findMarked(folder.mark).length > 0) return { attempt, state: 'starting', since };
  return vanished(attempt, 'its start was cut in the middle, and nothing ran');
}

/** As that exit says, unless the machine ended it on its own way down. */
function endedBy({ attempt, path }: RunFolder, { code, endedAt }: Exit, bootId: string): RunSeen {
  const launcher = codesOfGoingDown.includes(code) ? readPid(path) : undefined;
  if (launcher !== undefined && launcher.bootId !== bootId) return vanished(attempt, restartedWords);
  const failure = code === 0 && isThere(join(path, 'failure')) ? readLine(join(path, 'failure')) : undefined;
  return { ...exited(attempt, code, endedAt), ...(failure !== undefined && failure !== '' && { failure }) };
}

/** True when nothing of it is alive and nothing more will be written. */
export function isOver(folder: RunFolder, bootId: string, now: Instant): boolean {
  const run = lookAtRun(folder, bootId, now);
  return run.state === 'exited' || run.state === 'vanished';
}

export function attemptsBelow(root: string): readonly number[] {
  return namesIn(root)
    .map((name) => /^attempt_(\d+)$/u.exec(name)?.[1])
    .filter((number) => number !== undefined)
    .map(Number)
    .toSorted((a, b) => a - b);
}

function readExit(path: string): Exit | undefined {
  const file = join(path, 'exit');
  // A program that runs has none, and an error that is thrown and caught takes ten times as long as this question.
  if (!isThere(file)) return undefined;
  const words = readLine(file)?.trimEnd().split(' ');
  return words?.length === 2 ? { code: Number(words[0]), endedAt: Number(words[1]) } : undefined;
}

interface Launcher {
  readonly pid: number;
  readonly ticks: string;
  readonly bootId: string;
  readonly startedAt: Instant;
}

function readPid(path: string): Launcher | undefined {
  const words = readLine(join(path, 'pid'))?.split(' ');
  if (words?.length !== 4) return undefined;
  const [pid = '', ticks = '', bootId = '', startedAt = ''] = words;
  return { pid: Number(pid), ticks, bootId, startedAt: Number(startedAt) };
}

/** A number alone says nothing: it may be somebody else's by now, or the machine may have been started anew. */
function isAlive(launcher: Launcher, bootId: string): boolean {
  if (launcher.bootId !== bootId) return false;
  const words = statOf(String(launcher.pid));
  if (words === undefined || words[0] === 'Z' || words[0] === 'X') return false;
  return words[19] === launcher.ticks;
}

/** The processes that carry exactly that mark. */
export function findMarked(mark: string): readonly number[] {
  const wanted = `JOBMAN_RUN=${mark}`;
  const found: number[] = [];
  for (const name of namesIn('/proc')) {
    if (!/^\d+$/u.test(name)) continue;
    const environment = environmentOf(name);
    if (environment.includes(wanted) && environment.split('\0').includes(wanted)) found.push(Number(name));
  }
  return found;
}

/** Empty for what cannot be read: somebody else's, or gone. */
function environmentOf(pid: string): string {
  try {
    // While a process becomes another program its environment is empty for a moment. A few that never had one (the
    // kernel's own, and programs started with none) are asked again in vain.
    for (let turn = 0; turn < 20; turn += 1) {
      const environment = readFileSync(`/proc/${pid}/environ`, 'latin1');
      if (environment !== '' || (turn === 0 && isWithoutMemory(pid))) return environment;
    }
    return '';
  } catch (error) {
    // Without file descriptors nothing is known of any process: an answer would call running ones ended.
    if (namesFileShortage(textOf(error))) throw error;
    return '';
  }
}

/** True for the kernel's own threads and for what waits only for its parent to ask how it ended. */
function isWithoutMemory(pid: string): boolean {
  const words = statOf(pid);
  // PF_KTHREAD of the kernel's include/linux/sched.h.
  return words === undefined || words[0] === 'Z' || words[0] === 'X' || (Number(words[6]) & 0x00200000) !== 0;
}

/** The fields of proc_pid_stat(5) from the third on, which is the state: the name before it may hold anything. */
function statOf(pid: string): readonly string[] | undefined {
  return readText(`/proc/${pid}/stat`)
    ?.replace(/^.*\) /su, '')
    .split(' ');
}

function vanished(attempt: number, detail: string): RunSeen {
  return { attempt, state: 'vanished', detail };
}

export function namesIn(folder: string): readonly string[] {
  return isThere(folder) ? (ifThere(() => readdirSync(folder)) ?? []) : [];
}

export function isThere(path: string): boolean {
  return modifiedAt(path) !== undefined;
}

function modifiedAt(path: string): Instant | undefined {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat === undefined ? undefined : Math.floor(stat.mtimeMs);
}

/** A line with its end, without it; undefined when the file is not there or the line is not complete. */
export function readLine(path: string): string | undefined {
  const text = readText(path);
  return text?.endsWith('\n') === true ? text.slice(0, -1) : undefined;
}

function readText(path: string): string | undefined {
  return ifThere(() => readFileSync(path, 'utf8'));
}

/** Undefined when it is not there, which is an answer; anything else that goes wrong is thrown. */
function ifThere<Value>(read: () => Value): Value | undefined {
  try {
    return read();
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    // A process that ends while its folder in /proc is read answers ESRCH.
    if (code === 'ENOENT' || code === 'ESRCH' || code === 'ENOTDIR') return undefined;
    throw error;
  }
}
