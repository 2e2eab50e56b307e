// This machine as a worker, with the same run folders, markers, launcher and scripts as a remote host. Only the output is
// followed without a shell.

import { existsSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { messageOf } from '../../app/errors.ts';
import { makeFolder } from '../../files/files.ts';
import type { Blobs, MachinePort, SecretStore, WorkdirCopies, WorkerRef } from '../../app/ports.ts';
import { attemptOf, openAttempt, type HomeRef, type Job } from '../../core/model/job.ts';
import { unknown, type Unknown } from '../../core/model/observation.ts';
import type { WorkerId } from '../../core/model/spec.ts';
import { second, type Instant } from '../../core/model/time.ts';
import { attemptFiles } from '../../remote/launch.ts';
import { runProcess } from '../../remote/process.ts';
import { quote } from '../../catalogue/shell.ts';
import { runMarker } from '../../remote/run-folder.ts';
import { createScriptMachines, failed, noAnswer, readSecrets, startOutcome } from '../machines.ts';
import { createScriptRunner } from './local-shell.ts';
import { followFile, type AddPeriodicCheck } from './tail.ts';

export interface LocalMachinesOptions {
  readonly home: string;
  /** The environment of commands: the user's. JOBMAN_BOOT_ID_FILE in it is for tests. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly userHome: string;
  readonly now: () => Instant;
  readonly appendStepLog: (job: Job, step: string, worker: WorkerId, chunk: Uint8Array) => Promise<void>;
  readonly blobs: Pick<Blobs, 'read'>;
  readonly openWorkdir: WorkdirCopies['open'];
  readonly readSecret: SecretStore['read'];
  /** Schedules checks of followed runs that no file event announces; by default every ten seconds. */
  readonly addPeriodicCheck?: AddPeriodicCheck;
}

/** A smaller difference between two observations may be a gradual correction of the clock. */
const minClockJump = 10 * second;

export function localRoot(home: string, job: Pick<Job, 'id'>, worker: WorkerId): string {
  return join(home, 'runs', job.id, String(worker));
}

export function createLocalMachines(options: LocalMachinesOptions): MachinePort {
  const { home, now } = options;
  // A jobman that a job has started must not pass on that job's marker: stopping that job would end our jobs too.
  const { JOBMAN_RUN: _marker, ...env } = options.env;
  const scripts = createScriptMachines({
    run: createScriptRunner({ env, cwd: options.userHome }),
    root: (ref) => quote(localRoot(home, ref.job, ref.worker)),
    appendStepLog: options.appendStepLog,
    blobs: options.blobs,
    readSecret: options.readSecret,
    openWorkdir: options.openWorkdir,
    now,
    clock: readClock,
  });
  const folderOf = (ref: WorkerRef, attempt: number): string =>
    join(localRoot(home, ref.job, ref.worker), `attempt_${attempt}`);

  /** Wall clock minus monotonic clock at the last observation, and the time of the last forward jump. */
  let clockOffset: number | undefined;
  let clockJumpedAt: Instant = 0;
  /** After a sleep or a clock change, wall-clock time overstates how long a program was silent or starting. */
  function readClock(): { readonly now: Instant; readonly jumpedAt: Instant } {
    const at = now();
    const newOffset = at - performance.now();
    if (clockOffset !== undefined && newOffset - clockOffset > minClockJump) clockJumpedAt = at;
    clockOffset = newOffset;
    return { now: at, jumpedAt: clockJumpedAt };
  }

  /** True if no process of the attempt is alive and no output will follow. */
  async function hasEnded(ref: WorkerRef, attempt: number): Promise<boolean> {
    const folder = folderOf(ref, attempt);
    if (existsSync(join(folder, 'exit')) || existsSync(join(folder, 'never'))) return true;
    if (isLauncherAlive(folder)) return false;
    const [observed] = await scripts.observe([ref]);
    if (observed?.kind !== 'known') return false;
    const run = observed.value.runs.find((one) => one.attempt === attempt);
    // Without a run, the program has ended after its folder was deleted.
    return run === undefined || run.state === 'exited' || run.state === 'vanished';
  }

  return {
    ...scripts,

    async start(ref, launch) {
      const { job, worker } = ref;
      const root = localRoot(home, job, worker);
      const attempt = launch.attempt.ordinal;
      if (existsSync(folderOf(ref, attempt))) return { kind: 'done' };
      const marker = runMarker(job, attempt, worker);
      const read = await readSecrets(options, ref, launch);
      if (read.kind !== 'read') return read;
      let launcher: string;
      try {
        makeFolder(root);
        const prepared = mkdtempSync(join(root, `start_attempt_${attempt}.`));
        const files = attemptFiles(launch, marker, read.secrets);
        for (const [name, text] of Object.entries(files)) writeFileSync(join(prepared, name), text, { mode: 0o600 });
        launcher = join(prepared, 'launch');
      } catch (error) {
        return failed(worker, `the run folder below ${root} cannot be written: ${messageOf(error)}`);
      }
      const started = await runProcess({
        argv: ['/bin/sh', '-c', detach, 'sh', launcher, `attempt_${attempt}`],
        env: { ...env, JOBMAN_HOME: home, JOBMAN_RUN: marker },
        cwd: options.userHome,
        timeoutMs: 30 * second,
        maxOutputBytes: 10_000,
      });
      if (started.error !== null) return failed(worker, `this machine could not start the command: ${started.error}`);
      if (started.timedOut) return noAnswer(worker, 'the launcher did not answer within 30 s', true);
      const output = new TextDecoder().decode(started.stdout);
      return startOutcome(worker, output.trim(), output === '' ? 'nothing' : output);
    },

    tail(ref, { attempt, file, from }, receiver) {
      const { addPeriodicCheck } = options;
      const folder = folderOf(ref, attempt);
      return followFile({ folder, file, hasEnded: () => hasEnded(ref, attempt), from, addPeriodicCheck }, receiver);
    },

    isTailFree: () => true,
    disconnect: () => undefined,
  };
}

/** For a database that several homes use. Only the home that has started a program on its machine can observe it. */
export function withOtherHomes(machines: MachinePort, homeRef: () => HomeRef, now: () => Instant): MachinePort {
  function elsewhere({ job }: WorkerRef, attempt: number | undefined): Unknown | undefined {
    const home = attempt === undefined ? undefined : attemptOf(job, attempt).home;
    const own = homeRef();
    if (home === undefined || (home.id === own.id && home.machine === own.machine)) return undefined;
    const isSameMachine = home.machine === own.machine;
    const machine = isSameMachine ? 'this machine' : `the machine ${home.machine}`;
    const reason = `its program runs in ${home.path} on ${machine}, whose controller does not run the jobs now`;
    return { ...unknown(reason, now()), elsewhere: isSameMachine ? 'home' : 'machine' };
  }

  return {
    ...machines,

    async observe(refs) {
      const others = refs.map((ref) => elsewhere(ref, openAttempt(ref.job)?.ordinal));
      const remaining = [...(await machines.observe(refs.filter((_ref, index) => others[index] === undefined)))];
      return others.map((other) => {
        const answer = other ?? remaining.shift() ?? unknown('the check gave no answer', now());
        return answer.kind === 'known' ? { ...answer, value: { ...answer.value, home: homeRef() } } : answer;
      });
    },

    async stop(ref, attempt, how, signal) {
      const other = elsewhere(ref, attempt);
      return other === undefined ? machines.stop(ref, attempt, how, signal) : failed(ref.worker, other.reason);
    },

    tail(ref, request, receiver) {
      const other = elsewhere(ref, request.attempt);
      if (other === undefined) return machines.tail(ref, request, receiver);
      receiver.dropped(other.reason);
      return () => undefined;
    },
  };
}

/** The launcher prints one line and closes its output. */
const detach = 'result=$(setsid sh "$1" "$2" </dev/null 2>/dev/null &); echo "$result"';

/** The process id alone is not proof, because it may be reused. */
function isLauncherAlive(folder: string): boolean {
  try {
    const [pid, startTicks] = readFileSync(join(folder, 'pid'), 'utf8').split(' ');
    // The fields of proc_pid_stat(5) from the third on. The name before them may contain anything.
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /su, '')
      .split(' ');
    return fields[0] !== 'Z' && fields[0] !== 'X' && fields[19] === startTicks;
  } catch {
    return false;
  }
}
