// This machine as a worker, for local jobs and for commands that run `here`. The same run folders, marks and launcher as on
// a remote host; only what happens a thousand times an hour (look, start, tail) goes without a shell of its own.

import { mkdtempSync, writeFileSync } from 'node:fs';
import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { textOf } from '../../app/errors.ts';
import { folderOf as folderOfJob, secretFile as secretFileIn } from '../../app/job-folder.ts';
import { makeFolder } from '../../app/files.ts';
import type { CapacityPort, MachinePort, WorkerRef } from '../../app/ports.ts';
import { workdirFolder } from '../../app/workdir.ts';
import type { Job } from '../../core/job.ts';
import { known, unknown, type Fact, type OutcomeResult, type WorkerSeen } from '../../core/observation.ts';
import type { WorkerId } from '../../core/spec.ts';
import { second, type Instant } from '../../core/time.ts';
import { attemptTexts, badVariable } from '../../remote/launch.ts';
import { startDetached } from '../../remote/process.ts';
import { bootIdFile, quote, runMark } from '../../remote/run-folder.ts';
import { createLocalTransport } from '../../remote/transport.ts';
import { createMachines, expectedAttempt, failed, noAnswer, readSecrets, refused, startOutcome } from '../machines.ts';
import { attemptsBelow, findMarked, isOver, isThere, lookAtRun, namesIn, readLine, type RunFolder } from './runs.ts';
import { createTailHub, type Rounds } from './tail.ts';

export interface LocalMachinesOptions {
  /** `$JOBMAN_HOME`, absolute. Run folders are below `runs/`. */
  readonly home: string;
  /** The environment that commands begin with: that of whoever runs jobman. JOBMAN_BOOT_ID_FILE in it is for tests. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly userHome: string;
  readonly now: () => Instant;
  readonly stepLog: (job: Job, step: string, worker: WorkerId, chunk: Uint8Array) => Promise<void>;
  readonly readFile: (path: string) => Promise<Uint8Array>;
  /** Called when a command that was started from this process has ended: its job deserves a look now. */
  readonly changed: (jobId: string) => void;
  /** When a followed run is looked at without being woken; every ten seconds, by a timer of its own, when absent. */
  readonly rounds?: Rounds;
}

/** A smaller difference between two looks may come of a clock that is being put right little by little. */
const leapLeast = 10 * second;

export function localRoot(home: string, job: Job, worker: WorkerId): string {
  return join(home, 'runs', job.id, String(worker));
}

export function createLocalMachines(options: LocalMachinesOptions): MachinePort {
  const { home, now } = options;
  // A jobman that is itself started by a job must not pass that job's mark on, or a stop of that one would end ours.
  const { JOBMAN_RUN: _mark, ...env } = options.env;
  const transport = createLocalTransport({ env, cwd: options.userHome });
  const viaShell = createMachines({
    reach: () => Promise.resolve({ kind: 'open', transport }),
    root: (ref) => quote(localRoot(home, ref.job, ref.worker)),
    stepLog: options.stepLog,
    readFile: options.readFile,
    workdirOf: (job, snapshot) => workdirFolder(folderOfJob(home, job), snapshot),
    now,
    forget: () => undefined,
  });
  const secretFile = (job: Job, name: string): string => secretFileIn(folderOfJob(home, job), name);
  const hub = createTailHub(options.rounds);
  const ownBootIdFile = env['JOBMAN_BOOT_ID_FILE'];
  let bootId: string | undefined;
  /** The kernel's own is asked once: this process does not outlive the boot. Another file may change under a test. */
  const readBootId = (): string =>
    ownBootIdFile === undefined
      ? (bootId ??= readLine(bootIdFile) ?? 'unknown')
      : (readLine(ownBootIdFile) ?? 'unknown');
  const folderOf = (ref: WorkerRef, attempt: number): RunFolder => ({
    attempt,
    path: join(localRoot(home, ref.job, ref.worker), `attempt_${attempt}`),
    mark: runMark(ref.job, attempt, ref.worker),
  });

  /** How far the clock of the day is ahead of the one that only counts, as of the last look; and when it last leapt forward. */
  let ahead: number | undefined;
  let leaptAt: Instant | undefined;
  /** After a sleep of the machine, or a change of its clock, a program was not silent, or starting, for as long as the clock says. */
  function noteLeap(at: Instant): void {
    const aheadNow = at - performance.now();
    if (ahead !== undefined && aheadNow - ahead > leapLeast) leaptAt = at;
    ahead = aheadNow;
  }

  function lookAt(ref: WorkerRef): Fact<WorkerSeen> {
    const root = localRoot(home, ref.job, ref.worker);
    const at = now();
    noteLeap(at);
    try {
      const boot = readBootId();
      const proofsFolder = join(root, 'proofs', String(ref.allocation.ordinal));
      // Effects of an earlier boot (a mount) may be gone: the step's check decides.
      const proofs = namesIn(proofsFolder).filter((key) => readLine(join(proofsFolder, key)) === boot);
      const attempts = attemptsBelow(root);
      const runs = attempts.map((attempt) => lookAtRun(folderOf(ref, attempt), boot, at, leaptAt));
      const expected = expectedAttempt(ref);
      // A program whose folder was taken away lives all the same; see remote/attempt.ts.
      const isLost = expected !== undefined && !attempts.includes(expected);
      if (isLost && findMarked(runMark(ref.job, expected, ref.worker)).length > 0)
        runs.push({ attempt: expected, state: 'starting', since: at });
      return known({ bootId: boot, proofs, runs }, at);
    } catch (error) {
      return unknown(`the run folder ${root} cannot be read: ${textOf(error)}`, at);
    }
  }

  return {
    look: (refs) => Promise.resolve(refs.map(lookAt)),

    async start(ref, launch) {
      const { job, worker } = ref;
      const bad = badVariable(launch.env);
      if (bad !== undefined)
        return refused(worker, `the variable ${bad} has a name or a value that no environment can hold`);
      const root = localRoot(home, job, worker);
      const folder = folderOf(ref, launch.attempt.ordinal);
      if (isThere(folder.path)) return { kind: 'done' };
      const secrets = await readSecrets({ readFile: options.readFile, secretFile }, job, launch);
      if (typeof secrets === 'string') return failed(worker, secrets);
      let launcher: string;
      try {
        makeFolder(root);
        const prepared = mkdtempSync(join(root, `start_attempt_${folder.attempt}.`));
        const texts = attemptTexts(launch, folder.mark, secrets);
        for (const [name, text] of Object.entries(texts)) writeFileSync(join(prepared, name), text, { mode: 0o600 });
        launcher = join(prepared, 'launch');
      } catch (error) {
        return failed(worker, `the run folder below ${root} cannot be written: ${textOf(error)}`);
      }
      const started = await startDetached(
        {
          argv: ['/bin/sh', launcher, `attempt_${folder.attempt}`],
          env: { ...env, JOBMAN_RUN: folder.mark },
          cwd: options.userHome,
        },
        {
          timeoutMs: 30 * second,
          onExit: () => {
            options.changed(job.id);
          },
        },
      );
      if (started.error !== null) return failed(worker, `this machine could not start the command: ${started.error}`);
      if (started.timedOut) return noAnswer(worker, 'the launcher did not answer within 30 s', true);
      return startOutcome(worker, started.words.trim(), started.words === '' ? 'nothing' : started.words);
    },

    step: (ref, step, byHand) => viaShell.step(ref, step, byHand),
    stop: (ref, attempt, how, signal) => viaShell.stop(ref, attempt, how, signal),

    tail(ref, attempt, from, receiver) {
      const folder = folderOf(ref, attempt);
      return hub.follow(folder.path, () => isOver(folder, readBootId(), now()), from, receiver);
    },

    forget: () => undefined,
  };
}

export function createLocalCapacity(options: { readonly now: () => Instant }): CapacityPort {
  const done: OutcomeResult = { kind: 'done' };
  return {
    backend: 'local',
    look: (refs) =>
      Promise.resolve(refs.map(() => known({ state: 'ready', detail: 'this machine', workers: 1 }, options.now()))),
    async request() {
      try {
        await access('/proc/self/environ');
        return done;
      } catch {
        // The processes of a job are read from /proc; without it a stop could not find the children.
        const detail =
          'local jobs need Linux: this machine has no /proc, which tells the processes of a job from others';
        return { kind: 'refused', evidence: { detail }, error: { kind: 'invalid', message: detail, raw: detail } };
      }
    },
    release: () => Promise.resolve(done),
    sweep: (): Promise<Fact<readonly never[]>> => Promise.resolve(known([], options.now())),
    releaseStray: () => Promise.resolve(done),
    pricePerHour: () => null,
  };
}
