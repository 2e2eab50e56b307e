import { readFileSync } from 'node:fs';
import { availableParallelism, cpus, loadavg } from 'node:os';

/** /proc counts processor time in hundredths of a second (USER_HZ, proc_pid_stat(5)). */
const tickMs = 10;

/** Totals of one process since its start. */
export interface Usage {
  /** Processor time of all threads in milliseconds, in steps of ten. */
  readonly cpuMs: number;
  /** Number of waits of the main thread, for an event, the disk or another thread. */
  readonly voluntarySwitches: number;
  /** Resident memory in MB that is not shared with a file. */
  readonly ownMb: number;
}

/** Throws when the process does not exist. */
export function usageOf(pid: number): Usage {
  const fields = statOf(pid);
  return {
    cpuMs: (Number(fields[11]) + Number(fields[12])) * tickMs,
    voluntarySwitches: readVoluntarySwitches(`/proc/${pid}/status`),
    ownMb: numberAfter(readFileSync(`/proc/${pid}/status`, 'utf8'), 'RssAnon:') / 1024,
  };
}

/** Resident memory in MB, with the pages of files such as Node's program. */
export function residentMbOf(pid: number): number {
  return numberAfter(readFileSync(`/proc/${pid}/status`, 'utf8'), 'VmRSS:') / 1024;
}

/** Peak resident memory in MB (VmHWM of proc_pid_status(5)); 0 when the process is gone. */
export function peakMbOf(pid: number): number {
  try {
    // A zombie has no such line.
    return Math.round(numberAfter(readFileSync(`/proc/${pid}/status`, 'utf8'), 'VmHWM:') / 1_000) || 0;
  } catch {
    return 0;
  }
}

/** Processor time in milliseconds of this process's ended and waited-for children, with theirs. */
export function childrenCpuMs(): number {
  const fields = statOf('self');
  return (Number(fields[13]) + Number(fields[14])) * tickMs;
}

/** False for a zombie. */
export function isRunning(pid: number): boolean {
  try {
    return !['Z', 'X'].includes(statOf(pid)[0] ?? 'X');
  } catch {
    return false;
  }
}

/** Processors, Node's version and load: the context of every measurement. */
export function describeMachine(): string {
  const model = cpus()[0]?.model.trim() ?? 'unknown processor';
  return `${availableParallelism()} cores (${model}), Node ${process.version}, load ${formatLoad()}`;
}

/** Load of the last minute: the average number of processes that run or wait for a core. */
export function formatLoad(): string {
  return (loadavg()[0] ?? 0).toFixed(1);
}

/** Fields from the third on. The name before them may contain spaces. */
function statOf(pid: number | 'self'): readonly string[] {
  return readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ');
}

function readVoluntarySwitches(path: string): number {
  return numberAfter(readFileSync(path, 'utf8'), 'voluntary_ctxt_switches:');
}

function numberAfter(text: string, name: string): number {
  const line = text.split('\n').find((one) => one.startsWith(name)) ?? '';
  return Number.parseInt(line.slice(name.length).trim(), 10);
}
