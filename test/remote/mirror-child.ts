/**
 * A mirror that is to be killed: appends an attempt's output to a copy, from the copy's length on, and kills itself in the
 * middle of a write once the copy has a given length. Started by log-kills.ts with its task as the only argument.
 */
import { closeSync, openSync, statSync, writeSync } from 'node:fs';
import { createLocalMachines } from '../../src/backends/local/machines.ts';
import { createMachines } from '../../src/backends/machines.ts';
import { remoteRoot } from '../../src/remote/run-folder.ts';
import { createSshPool } from '../../src/remote/ssh.ts';
import type { SshTarget } from '../../src/remote/ssh.ts';
import type { MachinePort, WorkerRef } from '../../src/app/ports.ts';

export interface MirrorTask {
  readonly ref: WorkerRef;
  readonly attempt: number;
  readonly copy: string;
  /** The length of the copy at which it kills itself; null to go on to the end. */
  readonly killAt: number | null;
  readonly home: string;
  /** Over SSH to this target, or on this machine. */
  readonly ssh: SshTarget | null;
}

function machinesFor(task: MirrorTask): MachinePort {
  const common = {
    stepLog: () => Promise.resolve(),
    readFile: () => Promise.reject(new Error('no files')),
    now: Date.now,
  };
  if (task.ssh === null) {
    return createLocalMachines({
      ...common,
      home: task.home,
      env: process.env,
      userHome: '/',
      changed: () => undefined,
    });
  }
  const pool = createSshPool({ home: task.home, user: 'nobody', userHome: '/', agent: null, sshArgs: [] });
  const transport = pool.transport(task.ssh);
  return createMachines({
    ...common,
    reach: () => Promise.resolve({ kind: 'open', transport }),
    root: (ref) => remoteRoot(ref.job),
    forget: () => undefined,
  });
}

const task = JSON.parse(process.argv[2] ?? '') as MirrorTask;
const copy = openSync(task.copy, 'a');
let length = statSync(task.copy).size;
machinesFor(task).tail(task.ref, task.attempt, length, {
  bytes(chunk) {
    const room = task.killAt === null ? chunk.length : Math.min(chunk.length, task.killAt - length);
    writeSync(copy, chunk, 0, room);
    length += room;
    if (length === task.killAt) process.kill(process.pid, 'SIGKILL');
  },
  ended() {
    closeSync(copy);
    process.exit(0);
  },
  dropped(reason) {
    process.stderr.write(`${reason}\n`);
    process.exit(3);
  },
});
