// Looking at and ending processes of this machine, through /proc and the shell's own `kill`.

import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

/** The variable that every process of a host carries: the host's folder. */
export const hostMark = 'EMULATOR_HOST';

/** When a process began, in clock ticks since boot; undefined when there is none (a zombie is none). */
export function startTicks(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${String(pid)}/stat`, 'latin1');
    // The name in parentheses may hold anything, so fields are counted from its end: state is the first after it.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' || fields[0] === 'X' ? undefined : fields[19];
  } catch {
    return undefined;
  }
}

/** The id of the machine's own boot: pids mean nothing across it. */
export function machineBootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return '';
  }
}

/** The processes of each host, by the host's folder, which is their mark. */
export type Marks = ReadonlyMap<string, readonly number[]>;

let nextLook: Promise<Marks> | undefined;

/**
 * Looks through all processes of the machine, once for everybody who asks at the same time: a slice of 256 hosts that goes
 * asks 256 times at once. The look begins after the question.
 */
export function lookAtMarks(): Promise<Marks> {
  nextLook ??= new Promise((resolve) => {
    setImmediate(() => {
      nextLook = undefined;
      resolve(readMarks());
    });
  });
  return nextLook;
}

/** The processes whose mark is exactly that folder. */
export async function markedPids(folder: string): Promise<readonly number[]> {
  return (await lookAtMarks()).get(folder) ?? [];
}

function readMarks(): Marks {
  const marks = new Map<string, number[]>();
  const start = `\0${hostMark}=`;
  for (const name of processNames()) {
    try {
      const environment = `\0${readFileSync(`/proc/${name}/environ`, 'utf8')}`;
      const at = environment.indexOf(start);
      if (at < 0 || startTicks(Number(name)) === undefined) continue;
      const from = at + start.length;
      const end = environment.indexOf('\0', from);
      const mark = environment.slice(from, end < 0 ? undefined : end);
      const known = marks.get(mark);
      if (known === undefined) marks.set(mark, [Number(name)]);
      else known.push(Number(name));
    } catch {
      // It ended meanwhile, or is somebody else's.
    }
  }
  return marks;
}

function processNames(): string[] {
  try {
    return readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  } catch {
    return [];
  }
}

/** Sends a signal to processes; a negative number means its group. Those that are gone are passed over. */
export function signal(
  name: 'KILL' | 'STOP' | 'CONT' | 'HUP' | 'TERM' | 'INT' | 'QUIT' | 'USR1' | 'USR2',
  pids: readonly number[],
): Promise<void> {
  if (pids.length === 0) return Promise.resolve();
  return new Promise((resolve) => {
    const child = spawn('/bin/sh', ['-c', `kill -s ${name} -- "$@" 2>/dev/null`, 'kill', ...pids.map(String)], {
      stdio: 'ignore',
    });
    child.on('error', () => resolve());
    child.on('close', () => resolve());
  });
}

/** Resolves once `isTrue` is; false after `limitMs`. */
export async function until(isTrue: () => boolean | Promise<boolean>, limitMs: number, everyMs = 10): Promise<boolean> {
  for (let waited = 0; waited <= limitMs; waited += everyMs) {
    if (await isTrue()) return true;
    await new Promise((resolve) => setTimeout(resolve, everyMs));
  }
  return isTrue();
}
