// Machine: what the kernel's books say of processes and of the load, for measurements that ask how much was used rather
// than how long it took. Linux only, as is the measuring.

import { readFileSync } from 'node:fs';
import { availableParallelism, cpus, loadavg } from 'node:os';

/** The kernel counts processor time in hundredths of a second for whoever reads /proc (USER_HZ, proc_pid_stat(5)). */
const tickMs = 10;

/** What one process has used so far. */
export interface Usage {
  /** Processor time of all its threads, in milliseconds, by steps of ten. */
  readonly cpuMs: number;
  /** How often its main thread has stood still: to wait for something to happen, for the disk, or for another thread. */
  readonly sleeps: number;
  /** Memory of its own, in MB: what is resident and not shared with a file. */
  readonly ownMb: number;
}

/** Reads the books of one process. Throws when it is not there. */
export function usageOf(pid: number): Usage {
  const words = statOf(pid);
  return {
    cpuMs: (Number(words[11]) + Number(words[12])) * tickMs,
    sleeps: sleepsIn(`/proc/${pid}/status`),
    ownMb: numberAfter(readFileSync(`/proc/${pid}/status`, 'utf8'), 'RssAnon:') / 1024,
  };
}

/** The most memory that process has had resident so far, in MB (VmHWM of proc_pid_status(5)); 0 when it is gone. */
export function peakMbOf(pid: number): number {
  try {
    // One that has ended and was not asked for yet has no such line.
    return Math.round(numberAfter(readFileSync(`/proc/${pid}/status`, 'utf8'), 'VmHWM:') / 1_000) || 0;
  } catch {
    return 0;
  }
}

/** Processor time of the ended children of this process that were waited for, with theirs, in milliseconds. */
export function childrenCpuMs(): number {
  const words = statOf('self');
  return (Number(words[13]) + Number(words[14])) * tickMs;
}

/** Whether that process is there and not merely waiting for its parent to ask how it ended. */
export function isRunning(pid: number): boolean {
  try {
    return !['Z', 'X'].includes(statOf(pid)[0] ?? 'X');
  } catch {
    return false;
  }
}

/** The machine in one phrase: its processors and how busy it is, which is the first thing to know about a measurement. */
export function machineWords(): string {
  const model = cpus()[0]?.model.trim() ?? 'unknown processor';
  return `${availableParallelism()} cores (${model}), Node ${process.version}, load ${loadWords()}`;
}

/** The load of the last minute, as a number of processes that wanted a core. */
export function loadWords(): string {
  return (loadavg()[0] ?? 0).toFixed(1);
}

/** The fields from the third on: the name before them may hold blanks. */
function statOf(pid: number | 'self'): readonly string[] {
  return readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ');
}

function sleepsIn(path: string): number {
  return numberAfter(readFileSync(path, 'utf8'), 'voluntary_ctxt_switches:');
}

function numberAfter(text: string, name: string): number {
  const line = text.split('\n').find((one) => one.startsWith(name)) ?? '';
  return Number.parseInt(line.slice(name.length).trim(), 10);
}
