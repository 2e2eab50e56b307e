/**
 * The controller's log mirror in a process that is to be killed: it follows an attempt's output, copies it as a controller
 * does, and kills itself in the middle of a write once the copy has a given length. Started by log-kills.ts with its task
 * as the only argument.
 */
import { createLocalMachines } from '../../src/backends/hosts/machines.ts';
import { createMachines } from '../../src/backends/machines.ts';
import { createLogFiles } from '../../src/files/log-files.ts';
import type { LogFiles, MachinePort, WorkerRef } from '../../src/app/ports.ts';
import { createLogMirror } from '../../src/controller/log-mirror.ts';
import { remoteRoot } from '../../src/remote/run-folder.ts';
import { createSshPool } from '../../src/remote/ssh.ts';
import type { SshTarget } from '../../src/remote/ssh.ts';
import { createClock } from '../../src/wiring/backends.ts';

export interface MirrorTask {
  readonly ref: WorkerRef;
  readonly attempt: number;
  /** The length of the copy at which it kills itself; null to continue to the end. */
  readonly killAt: number | null;
  readonly home: string;
  /** Over SSH to this target, or on this machine. */
  readonly ssh: SshTarget | null;
}

function machinesFor(task: MirrorTask): MachinePort {
  const common = {
    appendStepLog: () => Promise.resolve(),
    openWorkdir: () => Promise.resolve(null),
    blobs: { read: () => Promise.reject(new Error('no blob is needed')) },
    readSecret: () => Promise.reject(new Error('no secret is needed')),
    now: Date.now,
  };
  if (task.ssh === null) {
    return createLocalMachines({
      ...common,
      home: task.home,
      env: process.env,
      userHome: '/',
    });
  }
  const pool = createSshPool({ home: task.home, user: 'ada', userHome: '/', agent: null, sshArgs: [] });
  const transport = pool.transport(task.ssh);
  return createMachines({
    ...common,
    findTransport: () => Promise.resolve({ kind: 'open', transport }),
    root: (ref) => remoteRoot(ref.job),
    disconnect: () => undefined,
  });
}

/** The files as they are, but for the write that reaches that length: it is cut there, and all ends with it. */
function killAtLength(files: LogFiles, killAt: number | null): LogFiles {
  if (killAt === null) return files;
  return {
    ...files,
    async append(job, output, chunk) {
      const remaining = killAt - (await files.length(job, output));
      await files.append(job, output, chunk.subarray(0, remaining));
      if (chunk.length >= remaining) process.kill(process.pid, 'SIGKILL');
    },
  };
}

const task = JSON.parse(process.argv[2] ?? '') as MirrorTask;
const { job, allocation, worker } = task.ref;
const files = createLogFiles({ home: task.home, history: () => Promise.resolve([]) });
const mirror = createLogMirror({
  logFiles: killAtLength(files, task.killAt),
  clock: createClock(Date.now),
  mayAct: () => true,
  wake: () => undefined,
  report(line) {
    // A line that dropped would be taken up again; here none drops, so it is a fault of the test.
    process.stderr.write(`${line}\n`);
    process.exit(3);
  },
});
const output = { attempt: task.attempt, allocation: allocation.ordinal, worker, file: 'log' } as const;
const isCopied = await mirror.drain(job, machinesFor(task), output, { idle: 10 * 60_000, total: 10 * 60_000 });
process.exit(isCopied ? 0 : 4);
