// Observes runs on this machine by the files and markers that remote/attempt.ts reads with a shell. Reads are
// synchronous: each takes less time than passing it to another thread.

import { readFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { messageOf, mentionsDescriptorShortage } from '../../app/errors.ts';
import type { RunStatus } from '../../core/model/observation.ts';
import type { Instant } from '../../core/model/time.ts';
import { shutdownExitCodes, exitedRun, restartedMessage } from '../../remote/attempt.ts';
import { startTimeoutMs } from '../../remote/run-folder.ts';

export interface RunFolder {
  readonly attempt: number;
  readonly path: string;
  readonly marker: string;
}

interface Exit {
  readonly code: number;
  readonly endedAt: Instant;
}

/**
 * `clockJumpedAt` is the last forward jump of the clock: silence and start times begin there at the earliest. Throws
 * for an existing file that cannot be read, because the state is then unknown.
 */
export function observeRun(
  folder: RunFolder,
  bootId: string,
  now: Instant,
  clockJumpedAt: Instant = -Infinity,
): RunStatus {
  const { attempt, path } = folder;
  const exit = readExit(path);
  if (exit !== undefined) return runFromExit(folder, exit, bootId);
  const launcher = readLauncher(path);
  if (launcher !== undefined) {
    if (!isAlive(launcher, bootId)) {
      // The run may have ended between the two reads.
      const exitNow = readExit(path);
      if (exitNow !== undefined) return runFromExit(folder, exitNow, bootId);
      if (findMarkedProcesses(folder.marker).length === 0) {
        const hasRestarted = launcher.bootId !== bootId;
        return vanishedRun(
          attempt,
          hasRestarted ? restartedMessage : 'another program killed its processes, so there is no exit code',
        );
      }
    }
    const outputAt = modifiedAt(join(path, 'log')) ?? launcher.startedAt;
    return {
      attempt,
      state: 'running',
      startedAt: launcher.startedAt,
      outputAt: Math.max(launcher.startedAt, outputAt, clockJumpedAt),
    };
  }
  if (exists(join(path, 'never'))) return vanishedRun(attempt, 'it was stopped before it started');
  const since = Math.max(modifiedAt(path) ?? now, clockJumpedAt);
  if (now - since < startTimeoutMs || findMarkedProcesses(folder.marker).length > 0)
    return { attempt, state: 'starting', since };
  return vanishedRun(attempt, 'its start was interrupted before the command ran');
}

function runFromExit({ attempt, path }: RunFolder, { code, endedAt }: Exit, bootId: string): RunStatus {
  const launcher = shutdownExitCodes.includes(code) ? readLauncher(path) : undefined;
  if (launcher !== undefined && launcher.bootId !== bootId) return vanishedRun(attempt, restartedMessage);
  const failure = code === 0 && exists(join(path, 'failure')) ? readCompleteLine(join(path, 'failure')) : undefined;
  return { ...exitedRun(attempt, code, endedAt), ...(failure !== undefined && failure !== '' && { failure }) };
}

/** True if no process of the run is alive and no output will follow. */
export function hasEnded(folder: RunFolder, bootId: string, now: Instant): boolean {
  const run = observeRun(folder, bootId, now);
  return run.state === 'exited' || run.state === 'vanished';
}

export function attemptNumbersIn(root: string): readonly number[] {
  return listFolder(root)
    .map((name) => /^attempt_(\d+)$/u.exec(name)?.[1])
    .filter((number) => number !== undefined)
    .map(Number)
    .toSorted((a, b) => a - b);
}

function readExit(path: string): Exit | undefined {
  const file = join(path, 'exit');
  // A running program has no such file, and an exception costs ten times as much as this check.
  if (!exists(file)) return undefined;
  const fields = readCompleteLine(file)?.trimEnd().split(' ');
  return fields?.length === 2 ? { code: Number(fields[0]), endedAt: Number(fields[1]) } : undefined;
}

interface LauncherProcess {
  readonly pid: number;
  readonly startTicks: string;
  readonly bootId: string;
  readonly startedAt: Instant;
}

function readLauncher(path: string): LauncherProcess | undefined {
  const fields = readCompleteLine(join(path, 'pid'))?.split(' ');
  if (fields?.length !== 4) return undefined;
  const [pid = '', startTicks = '', bootId = '', startedAt = ''] = fields;
  return { pid: Number(pid), startTicks, bootId, startedAt: Number(startedAt) };
}

/** The process id alone is no proof: it may be reused, or the machine may have been restarted. */
function isAlive(launcher: LauncherProcess, bootId: string): boolean {
  if (launcher.bootId !== bootId) return false;
  const fields = readProcessStat(String(launcher.pid));
  if (fields === undefined || fields[0] === 'Z' || fields[0] === 'X') return false;
  return fields[19] === launcher.startTicks;
}

export function findMarkedProcesses(marker: string): readonly number[] {
  const wanted = `JOBMAN_RUN=${marker}`;
  const found: number[] = [];
  for (const name of listFolder('/proc')) {
    if (!/^\d+$/u.test(name)) continue;
    const environment = environmentOf(name);
    if (environment.includes(wanted) && environment.split('\0').includes(wanted)) found.push(Number(name));
  }
  return found;
}

function environmentOf(pid: string): string {
  try {
    // During exec the environment is empty for a short time, so read again. Processes without one cost these retries.
    for (let tries = 0; tries < 20; tries += 1) {
      const environment = readFileSync(`/proc/${pid}/environ`, 'latin1');
      if (environment !== '' || (tries === 0 && hasNoMemory(pid))) return environment;
    }
    return '';
  } catch (error) {
    // Without file descriptors the state is unknown; an empty answer would report running processes as ended.
    if (mentionsDescriptorShortage(messageOf(error))) throw error;
    return '';
  }
}

function hasNoMemory(pid: string): boolean {
  const fields = readProcessStat(pid);
  // PF_KTHREAD of the kernel's include/linux/sched.h.
  return fields === undefined || fields[0] === 'Z' || fields[0] === 'X' || (Number(fields[6]) & 0x00200000) !== 0;
}

/** The fields of proc_pid_stat(5) from the third (the state) on. The name before it may contain anything. */
function readProcessStat(pid: string): readonly string[] | undefined {
  return readText(`/proc/${pid}/stat`)
    ?.replace(/^.*\) /su, '')
    .split(' ');
}

function vanishedRun(attempt: number, detail: string): RunStatus {
  return { attempt, state: 'vanished', detail };
}

export function listFolder(folder: string): readonly string[] {
  return exists(folder) ? (undefinedIfMissing(() => readdirSync(folder)) ?? []) : [];
}

export function exists(path: string): boolean {
  return modifiedAt(path) !== undefined;
}

function modifiedAt(path: string): Instant | undefined {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat === undefined ? undefined : Math.floor(stat.mtimeMs);
}

/** The first line without its end; undefined for a missing file or an incomplete line. */
export function readCompleteLine(path: string): string | undefined {
  const text = readText(path);
  return text?.endsWith('\n') === true ? text.slice(0, -1) : undefined;
}

function readText(path: string): string | undefined {
  return undefinedIfMissing(() => readFileSync(path, 'utf8'));
}

/** Undefined for a missing file; throws for every other error. */
function undefinedIfMissing<Value>(read: () => Value): Value | undefined {
  try {
    return read();
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    // A process that ends while its folder in /proc is read answers ESRCH.
    if (code === 'ENOENT' || code === 'ESRCH' || code === 'ENOTDIR') return undefined;
    throw error;
  }
}
