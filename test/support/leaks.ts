/**
 * Processes, mounts and files that a test has left behind, read from the kernel (/proc) and not from jobman, so that a
 * forgotten controller or an escaped program is found too. Without /proc nothing is found.
 */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';

export interface RunningProcess {
  readonly pid: number;
  readonly command: string;
}

/** The environment variable that every process of a test inherits, so that all descendants are found. */
export const testIdVariable = 'JOBMAN_TEST_ID';

/**
 * The live processes of one test: those with its id, and those that work in its folder or name it in their arguments.
 * The latter finds programs with a new environment.
 */
export function processesOf(testId: string, folder: string): RunningProcess[] {
  const found: RunningProcess[] = [];
  for (const name of entries('/proc')) {
    const pid = Number(name);
    if (!Number.isInteger(pid) || pid === process.pid) continue;
    const command = read(`/proc/${name}/cmdline`).split('\0').join(' ').trim();
    // A zombie has no command line; its parent has not read its exit code yet.
    if (command === '') continue;
    const hasTestId = read(`/proc/${name}/environ`).split('\0').includes(`${testIdVariable}=${testId}`);
    if (hasTestId || command.includes(folder) || isWithin(folder, link(`/proc/${name}/cwd`)))
      found.push({ pid, command });
  }
  return found;
}

/** The mount points at or below a folder, the deepest first. */
export function mountsBelow(folder: string, mountinfo: string = read('/proc/self/mountinfo')): string[] {
  const points: string[] = [];
  for (const line of mountinfo.split('\n')) {
    // The fifth field is the mount point, with spaces and similar characters as octal escapes (proc_pid_mountinfo(5)).
    const point = line
      .split(' ')[4]
      ?.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)));
    if (point !== undefined && isWithin(folder, point)) points.push(point);
  }
  return points.toReversed();
}

/** All files of a folder, by their relative paths. */
export function filesIn(folder: string): string[] {
  return entries(folder).flatMap((name) => [name, ...filesIn(join(folder, name)).map((below) => join(name, below))]);
}

function isWithin(folder: string, path: string): boolean {
  return path === folder || path.startsWith(`${folder}/`);
}

// A process may end between two reads, and another user's may be unreadable: both count as no process.
function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

function link(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return '';
  }
}

function entries(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
