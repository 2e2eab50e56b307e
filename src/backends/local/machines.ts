// This machine as a worker, with the same run folders, markers and launcher as a remote host. The frequent actions
// (observe, start, tail) run without a shell of their own.

import { mkdtempSync, writeFileSync } from 'node:fs';
import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { messageOf } from '../../app/errors.ts';
import { folderOf as folderOfJob, secretFile as secretFileIn } from '../../app/job-folder.ts';
import { makeFolder } from '../../app/files.ts';
import type { CapacityPort, MachinePort, WorkerRef } from '../../app/ports.ts';
import { workdirFolder } from '../../app/workdir.ts';
import type { Job } from '../../core/model/job.ts';
import { known, unknown, type Observed, type OutcomeResult, type WorkerStatus } from '../../core/model/observation.ts';
import type { WorkerId } from '../../core/model/spec.ts';
import { second, type Instant } from '../../core/model/time.ts';
import { attemptFiles, invalidVariable } from '../../remote/launch.ts';
import { startDetached } from '../../remote/process.ts';
import { quote } from '../../catalogue/shell.ts';
import { bootIdFile, runMarker } from '../../remote/run-folder.ts';
import { createLocalTransport } from '../../remote/transport.ts';
import { createMachines, expectedAttempt, failed, noAnswer, readSecrets, refused, startOutcome } from '../machines.ts';
import {
  attemptNumbersIn,
  findMarkedProcesses,
  hasEnded,
  exists,
  observeRun,
  listFolder,
  readCompleteLine,
  type RunFolder,
} from './runs.ts';
import { createTailHub, type AddPeriodicCheck } from './tail.ts';

export interface LocalMachinesOptions {
  readonly home: string;
  /** The environment of commands: the user's. JOBMAN_BOOT_ID_FILE in it is for tests. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly userHome: string;
  readonly now: () => Instant;
  readonly appendStepLog: (job: Job, step: string, worker: WorkerId, chunk: Uint8Array) => Promise<void>;
  readonly readFile: (path: string) => Promise<Uint8Array>;
  /** Called when a command of this process has ended, so that its job is observed at once. */
  readonly onCommandExit: (jobId: string) => void;
  /** Schedules checks of followed runs that no file event announces; by default every ten seconds. */
  readonly addPeriodicCheck?: AddPeriodicCheck;
}

/** A smaller difference between two observations may be a gradual correction of the clock. */
const minClockJump = 10 * second;

export function localRoot(home: string, job: Job, worker: WorkerId): string {
  return join(home, 'runs', job.id, String(worker));
}

export function createLocalMachines(options: LocalMachinesOptions): MachinePort {
  const { home, now } = options;
  // A jobman that a job has started must not pass on that job's marker: stopping that job would end our jobs too.
  const { JOBMAN_RUN: _marker, ...env } = options.env;
  const transport = createLocalTransport({ env, cwd: options.userHome });
  const shellMachines = createMachines({
    findTransport: () => Promise.resolve({ kind: 'open', transport }),
    root: (ref) => quote(localRoot(home, ref.job, ref.worker)),
    appendStepLog: options.appendStepLog,
    readFile: options.readFile,
    workdirCopyFolder: (job, snapshot) => workdirFolder(folderOfJob(home, job), snapshot),
    now,
    disconnect: () => undefined,
  });
  const secretFileOf = (job: Job, name: string): string => secretFileIn(folderOfJob(home, job), name);
  const tailHub = createTailHub(options.addPeriodicCheck);
  const ownBootIdFile = env['JOBMAN_BOOT_ID_FILE'];
  let bootId: string | undefined;
  /** The kernel's boot id is read once, because this process does not outlive the boot. A test's file may change. */
  const readBootId = (): string =>
    ownBootIdFile === undefined
      ? (bootId ??= readCompleteLine(bootIdFile) ?? 'unknown')
      : (readCompleteLine(ownBootIdFile) ?? 'unknown');
  const folderOf = (ref: WorkerRef, attempt: number): RunFolder => ({
    attempt,
    path: join(localRoot(home, ref.job, ref.worker), `attempt_${attempt}`),
    marker: runMarker(ref.job, attempt, ref.worker),
  });

  /** Wall clock minus monotonic clock at the last observation, and the time of the last forward jump. */
  let clockOffset: number | undefined;
  let clockJumpedAt: Instant | undefined;
  /** After a sleep or a clock change, wall-clock time overstates how long a program was silent or starting. */
  function detectClockJump(at: Instant): void {
    const newOffset = at - performance.now();
    if (clockOffset !== undefined && newOffset - clockOffset > minClockJump) clockJumpedAt = at;
    clockOffset = newOffset;
  }

  function observe(ref: WorkerRef): Observed<WorkerStatus> {
    const root = localRoot(home, ref.job, ref.worker);
    const at = now();
    detectClockJump(at);
    try {
      const boot = readBootId();
      const proofsFolder = join(root, 'proofs', String(ref.allocation.ordinal));
      // Effects from before a reboot (a mount) may be gone: the step's check decides.
      const proofs = listFolder(proofsFolder).filter((key) => readCompleteLine(join(proofsFolder, key)) === boot);
      const attempts = attemptNumbersIn(root);
      const runs = attempts.map((attempt) => observeRun(folderOf(ref, attempt), boot, at, clockJumpedAt));
      const expected = expectedAttempt(ref);
      // A program survives the loss of its folder; see remote/attempt.ts.
      const isFolderLost = expected !== undefined && !attempts.includes(expected);
      if (isFolderLost && findMarkedProcesses(runMarker(ref.job, expected, ref.worker)).length > 0)
        runs.push({ attempt: expected, state: 'starting', since: at });
      return known({ bootId: boot, proofs, runs }, at);
    } catch (error) {
      return unknown(`the run folder ${root} cannot be read: ${messageOf(error)}`, at);
    }
  }

  return {
    observe: (refs) => Promise.resolve(refs.map(observe)),

    async start(ref, launch) {
      const { job, worker } = ref;
      const invalid = invalidVariable(launch.env);
      if (invalid !== undefined)
        return refused(worker, `the variable ${invalid} has a name or a value that is not valid in an environment`);
      const root = localRoot(home, job, worker);
      const folder = folderOf(ref, launch.attempt.ordinal);
      if (exists(folder.path)) return { kind: 'done' };
      const secrets = await readSecrets({ readFile: options.readFile, secretFileOf }, job, launch);
      if (typeof secrets === 'string') return failed(worker, secrets);
      let launcher: string;
      try {
        makeFolder(root);
        const prepared = mkdtempSync(join(root, `start_attempt_${folder.attempt}.`));
        const files = attemptFiles(launch, folder.marker, secrets);
        for (const [name, text] of Object.entries(files)) writeFileSync(join(prepared, name), text, { mode: 0o600 });
        launcher = join(prepared, 'launch');
      } catch (error) {
        return failed(worker, `the run folder below ${root} cannot be written: ${messageOf(error)}`);
      }
      const started = await startDetached(
        {
          argv: ['/bin/sh', launcher, `attempt_${folder.attempt}`],
          env: { ...env, JOBMAN_RUN: folder.marker },
          cwd: options.userHome,
        },
        {
          timeoutMs: 30 * second,
          onExit: () => options.onCommandExit(job.id),
        },
      );
      if (started.error !== null) return failed(worker, `this machine could not start the command: ${started.error}`);
      if (started.timedOut) return noAnswer(worker, 'the launcher did not answer within 30 s', true);
      return startOutcome(worker, started.output.trim(), started.output === '' ? 'nothing' : started.output);
    },

    runStep: (ref, step, manual) => shellMachines.runStep(ref, step, manual),
    stop: (ref, attempt, how, signal) => shellMachines.stop(ref, attempt, how, signal),

    tail(ref, attempt, from, receiver) {
      const folder = folderOf(ref, attempt);
      return tailHub.follow(folder.path, () => hasEnded(folder, readBootId(), now()), from, receiver);
    },

    disconnect: () => undefined,
  };
}

export function createLocalCapacity(options: { readonly now: () => Instant }): CapacityPort {
  const done: OutcomeResult = { kind: 'done' };
  return {
    backend: 'local',
    observe: (refs) =>
      Promise.resolve(refs.map(() => known({ state: 'ready', detail: 'this machine', workers: 1 }, options.now()))),
    async request() {
      try {
        await access('/proc/self/environ');
        return done;
      } catch {
        // Without /proc a stop could not find the processes of a job.
        const detail =
          'local jobs require Linux: this machine has no /proc, in which jobman finds the processes of a job';
        return {
          kind: 'refused',
          evidence: { message: detail },
          error: { kind: 'invalid', message: detail, raw: detail },
        };
      }
    },
    release: () => Promise.resolve(done),
    listLabelled: (): Promise<Observed<readonly never[]>> => Promise.resolve(known([], options.now())),
    releaseOrphan: () => Promise.resolve(done),
    pricePerHour: () => null,
  };
}
