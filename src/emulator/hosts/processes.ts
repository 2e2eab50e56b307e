import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

/** The variable in the environment of every process of a host. Its value is the host's folder. */
export const hostVariable = 'EMULATOR_HOST';

/** The start time of a process in clock ticks since boot; undefined when there is none (a zombie counts as none). */
export function startTicks(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${String(pid)}/stat`, 'latin1');
    // The name in parentheses may contain any character, so count fields from its end: the state comes first.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' || fields[0] === 'X' ? undefined : fields[19];
  } catch {
    return undefined;
  }
}

/** The boot id of the machine: after a reboot, pids belong to other processes. */
export function machineBootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return '';
  }
}

export type HostProcesses = ReadonlyMap<string, readonly number[]>;

let pendingScan: Promise<HostProcesses> | undefined;

/** One scan serves all callers that are waiting (the end of 256 hosts makes 256 calls). It starts after the call. */
export function scanHostProcesses(): Promise<HostProcesses> {
  pendingScan ??= new Promise((resolve) => {
    setImmediate(() => {
      pendingScan = undefined;
      resolve(readHostProcesses());
    });
  });
  return pendingScan;
}

export async function hostPids(folder: string): Promise<readonly number[]> {
  return (await scanHostProcesses()).get(folder) ?? [];
}

function readHostProcesses(): HostProcesses {
  const processes = new Map<string, number[]>();
  const start = `\0${hostVariable}=`;
  for (const name of processNames()) {
    try {
      const environment = `\0${readFileSync(`/proc/${name}/environ`, 'utf8')}`;
      const at = environment.indexOf(start);
      if (at < 0 || startTicks(Number(name)) === undefined) continue;
      const from = at + start.length;
      const end = environment.indexOf('\0', from);
      const folder = environment.slice(from, end < 0 ? undefined : end);
      const known = processes.get(folder);
      if (known === undefined) processes.set(folder, [Number(name)]);
      else known.push(Number(name));
    } catch {
      // The process has ended, or belongs to another user.
    }
  }
  return processes;
}

function processNames(): string[] {
  try {
    return readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  } catch {
    return [];
  }
}

/** Sends a signal to processes; a negative number means a process group. Ignores processes that have ended. */
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

export async function waitUntil(
  isTrue: () => boolean | Promise<boolean>,
  limitMs: number,
  everyMs = 10,
): Promise<boolean> {
  for (let waited = 0; waited <= limitMs; waited += everyMs) {
    if (await isTrue()) return true;
    await new Promise((resolve) => setTimeout(resolve, everyMs));
  }
  return isTrue();
}
