// The users of a simulated lab, their TPUs, and their jobs.

import { hour, minute, second } from '../src/core/model/time.ts';
import type { Duration } from '../src/core/model/time.ts';
import { type LabUser } from '../src/lab/users.ts';
import { defaultAliases } from '../src/lab/names.ts';
import { defaultUserSettings } from '../src/lab/user-settings.ts';
import type { LabRule } from '../src/lab/run-spec.ts';
import type { LabTpu } from '../src/lab/tpus.ts';
import type { Chance } from './chance.ts';
import { reliableZone } from './jobs.ts';
import { unconfirmedReason } from '../src/lab/attempt-plan.ts';
import type { LabStore } from '../src/lab/lab-store.ts';
import type { CloudModel } from './cloud.ts';
import type { ScriptInput, LabChecker } from './lab-invariants.ts';
import { isReachable } from './lab-tpus.ts';
import type { Program, Programs } from './lab-tpus.ts';
import { endRun, findMachine, hungLine } from './world.ts';
import type { ProgramPlan, Run, World } from './world.ts';

export interface LabSize {
  readonly users: number;
  readonly tpus: number;
  readonly jobs: number;
  /** Duration of new commands and faults. */
  readonly length: Duration;
}

export const twoDays: LabSize = { users: 8, tpus: 30, jobs: 200, length: 48 * hour };

/** One afternoon, for tests that run often. */
export const anAfternoon: LabSize = { users: 3, tpus: 5, jobs: 20, length: 6 * hour };

const rules: readonly LabRule[] = ['pre', 'pass', 'reapply', 'rerun', 'resume'];

/**
 * The behaviour of one undisturbed attempt. `early`: the script ends before it reports its log folder. `grpc`: a call
 * between workers fails. `hangs`: a call fails, and the program waits forever. `masked`: a call fails, and the script
 * exits with 0 nevertheless, as scripts of the older TPU manager do. `fails`: the program has a bug. `short`: the
 * program succeeds without a report. `unasked`: only its log reports the success, because the script does not call
 * `finish-job`.
 */
type LabProgramBehavior = 'succeeds' | 'unreported' | 'grpc' | 'hangs' | 'masked' | 'fails' | 'early' | 'short';

export interface LabJobProfile {
  /** One for each attempt; the last one repeats. */
  readonly behaviors: readonly LabProgramBehavior[];
  readonly duration: Duration;
  /** True if it continues on the workers when the connection of this machine is cut. */
  readonly survivesNetworkCut: boolean;
}

export interface PlannedLabRun {
  readonly at: number;
  readonly user: string;
  /** The value of `rule=`; null: the default of the TPU's pricing. */
  readonly rule: LabRule | null;
  readonly logStage: boolean;
  readonly profile: LabJobProfile;
  /** Two users request the same TPU in the same second. */
  readonly isDuplicated: boolean;
}

export interface LabPlan {
  readonly users: readonly LabUser[];
  readonly tpus: readonly (LabTpu & { readonly workers: number })[];
  readonly runs: readonly PlannedLabRun[];
}

const names = ['alice', 'bob', 'carol', 'dora', 'emil', 'frieda', 'gustav', '海伦'];

export function drawLab(chance: Chance, size: LabSize): LabPlan {
  const users = names.slice(0, size.users).map((name, index): LabUser => ({
    name,
    id: index,
    role: 'member',
    session: name,
    sheetName: name,
    logins: [],
    directories: { 1: `/code/${name}` },
    aliases: defaultAliases,
    settings: defaultUserSettings,
    nextWindow: chance.pick([1, 1, 42]),
    createdAt: 0,
    newsSeen: 0,
  }));
  const tpus = Array.from({ length: size.tpus }, (_, index) => {
    const isPreemptible = index % 2 === 0;
    return {
      name: `tpu-v2-32-${isPreemptible ? 'preemptible-' : ''}${index}`,
      project: 'simulated',
      zone: reliableZone,
      accelerator: 'v2-32',
      pricing: isPreemptible ? ('preemptible' as const) : ('ondemand' as const),
      runtimeVersion: null,
      workers: chance.pick([1, 1, 2]),
    };
  });
  const kinds = chance.fork('kinds of failed calls');
  const runs = Array.from({ length: size.jobs }, (): PlannedLabRun => ({
    // The last user still waits for the end of the job.
    at: chance.between(0, size.length * 0.95),
    user: chance.pick(users).name,
    rule: chance.pick([null, null, ...rules]),
    logStage: chance.yes(0.4),
    profile: drawProfile(chance, kinds),
    isDuplicated: chance.yes(0.1),
  }));
  return { users, tpus, runs };
}

function drawProfile(chance: Chance, kinds: Chance): LabJobProfile {
  const before = Array.from({ length: chance.pick([0, 0, 0, 1, 1, 2, 4]) }, () =>
    chance.pick(['grpc', 'grpc', 'grpc', 'fails', 'early'] as const),
  );
  const behaviors: readonly LabProgramBehavior[] = [
    ...before,
    chance.pick(['succeeds', 'succeeds', 'unreported', 'short', 'fails', 'grpc'] as const),
  ];
  return {
    // A fork, so that all else of a seed stays the same.
    behaviors: behaviors.map((one) => (one === 'grpc' ? kinds.pick(['grpc', 'hangs', 'masked'] as const) : one)),
    duration: chance.pick([
      chance.between(2, 30) * minute,
      chance.between(1, 4) * hour,
      chance.between(20, 90) * second,
    ]),
    survivesNetworkCut: chance.yes(0.7),
  };
}

// ------------------------------------------------------------------------------------------ scripts

export interface ScriptStart extends ScriptInput {
  readonly session: string;
  readonly window: number;
}

export interface ScriptContext {
  readonly world: World;
  readonly cloudModel: CloudModel;
  readonly chance: Chance;
  readonly now: () => number;
  readonly record: LabStore;
  readonly programs: Programs;
  readonly checker: LabChecker;
  readonly profileOf: (job: string) => LabJobProfile;
  readonly tpuOf: (job: string) => string;
  /** Rejects if the script must not continue. */
  readonly begin: (job: string, attempt: number) => Promise<ScriptStart>;
  /** Ends the processes of that attempt on its workers. */
  readonly cleanUp: (job: string, attempt: number) => Promise<boolean>;
  /** The bug of scripts that do not report the cause of a failure. */
  readonly hidesLastLine: boolean;
  /** The bug of trusting every exit code of 0. */
  readonly trustsExitCode: boolean;
}

/** A script as a process of this machine: decides when and why it ends. */
export const scriptPlan: ProgramPlan = {
  startDelay: 0,
  duration: null,
  exitCode: 0,
  linePeriod: 10 * minute,
  silentAfter: null,
  lastLine: '',
  stopDelay: null,
};

export interface Scripts {
  runBegins(run: Run): void;
  stopRequested(run: Run): void;
}

/** Printed by gcloud when its ssh ends by itself. */
const connectionLostLine = 'return code [255]';

export function createScripts(parts: ScriptContext): Scripts {
  const { world, chance, record, checker } = parts;
  const { timeline } = world;
  async function play(run: Run): Promise<void> {
    const { behaviors, duration, survivesNetworkCut } = parts.profileOf(run.job);
    const behavior = behaviors[Math.min(run.attempt, behaviors.length) - 1] ?? 'succeeds';
    const isOver = (): boolean => run.endedAt !== null || run.stopRequestedAt !== null;
    await timeline.pause(chance.between(300, 3_000));
    if (isOver()) return;
    let started: ScriptStart;
    try {
      started = await parts.begin(run.job, run.attempt);
    } catch (error) {
      exitScript(parts, run, 1, error instanceof Error ? error.message : 'it must not start');
      return;
    }
    if (isOver()) return;
    checker.inputGiven(run, started);
    await timeline.pause(chance.between(2, 60) * second);
    if (isOver()) return;
    if (behavior === 'early') {
      exitScript(parts, run, 1, 'rsync: it broke');
      return;
    }
    const folder = `/logs/${run.job}-${run.attempt}-${timeline.now}`;
    const stageFolder = folder.replace('logs', 'staging');
    const tpu = parts.tpuOf(run.job);
    const at = parts.now();
    await record.reportWindow(started.session, started.window, {
      logFolder: folder,
      stageFolder,
      tpu,
      startTime: `${at}`,
      at,
    });
    checker.reported(run, folder);
    await timeline.pause(chance.between(500, 8_000));
    if (isOver()) return;
    const gang = await startOn(parts, tpu, { job: run.job, attempt: run.attempt, logFolder: folder, stageFolder }, run);
    if (gang === undefined || isOver()) {
      cutConnection(parts, gang ?? [], survivesNetworkCut);
      if (!isOver()) exitScript(parts, run, 1, connectionLostLine);
      return;
    }
    // The connection ends with this process.
    run.listeners.add(() => cutConnection(parts, gang, survivesNetworkCut));
    const lastLine = await programsEnd(parts, gang, behavior, duration, run);
    if (isOver()) return;
    const isDone = lastLine === 'done';
    const isConfirmed = isDone && (behavior === 'succeeds' || behavior === 'unreported');
    if (isConfirmed) checker.confirmed(run);
    if (behavior === 'succeeds' && isDone) await record.finishWindow(started.session, started.window, parts.now());
    const window = await record.findWindow(started.session, started.window);
    const code = isDone || behavior === 'masked' ? 0 : 1;
    const reason = unconfirmedReason({
      code,
      report: window?.window.report ?? null,
      isFinished: (window?.window.finishedAt ?? null) !== null,
      hasHistory: isConfirmed && behavior === 'unreported',
      lastError: isDone ? null : lastLine,
    });
    if (!parts.trustsExitCode) run.failure = reason;
    exitScript(parts, run, code, lastLine);
  }

  return {
    runBegins(run) {
      checker.scriptBegins(run);
      void play(run);
    },
    stopRequested(run) {
      void parts.cleanUp(run.job, run.attempt).then(() => exitScript(parts, run, 143, 'terminated'));
    },
  };
}

function exitScript(parts: ScriptContext, run: Run, exitCode: number, lastLine: string): void {
  if (run.endedAt !== null) return;
  // Only the run knows its last line, so each run has its own plan.
  (run.plan as { lastLine: string }).lastLine = parts.hidesLastLine ? 'it broke' : lastLine;
  endRun(parts.world, run, exitCode);
}

/** On every worker in turn. Undefined if one does not answer; programs that have started by then continue. */
async function startOn(
  parts: ScriptContext,
  tpu: string,
  program: Pick<Program, 'job' | 'attempt' | 'logFolder' | 'stageFolder'>,
  run: Run,
): Promise<readonly Program[] | undefined> {
  const { world, cloudModel, chance, programs } = parts;
  const { timeline } = world;
  const machine = findMachine(world, reliableZone, tpu);
  const gang: Program[] = [];
  for (const host of machine?.state === 'ready' ? (machine?.hosts ?? []) : []) {
    await timeline.pause(chance.between(300, 4_000));
    if (run.endedAt !== null) break;
    if (!isReachable(host, cloudModel)) {
      await timeline.pause(20 * second);
      break;
    }
    gang.push(programs.start(host, program));
  }
  const isWhole = gang.length > 0 && gang.length === machine?.hosts.length;
  if (!isWhole) {
    cutConnection(parts, gang, parts.profileOf(run.job).survivesNetworkCut);
    return undefined;
  }
  return gang;
}

/** Resolves with the last line: it ended as planned, or a worker was lost and the others noticed. */
function programsEnd(
  parts: ScriptContext,
  gang: readonly Program[],
  behavior: LabProgramBehavior,
  length: number,
  run: Run,
): Promise<string> {
  const { world, chance, programs, checker } = parts;
  const { timeline } = world;
  return new Promise((resolve) => {
    let isResolved = false;
    const resolveOnce = (lastLine: string): void => {
      if (isResolved) return;
      isResolved = true;
      resolve(lastLine);
    };
    const lastLines: Readonly<Record<LabProgramBehavior, string>> = {
      succeeds: 'done',
      short: 'done',
      unreported: 'done',
      grpc: 'GRPC error',
      hangs: hungLine,
      masked: 'GRPC error',
      fails: 'NameError: x',
      early: '',
    };
    // A failing program mostly fails early.
    const failing: readonly LabProgramBehavior[] = ['grpc', 'fails', 'hangs', 'masked'];
    const runs = failing.includes(behavior) ? Math.ceil(length * chance.next()) : length;
    timeline.after(runs, () => {
      if (isResolved || gang.some(({ endedAt }) => endedAt !== null)) return;
      if (behavior === 'hangs') {
        if (run.endedAt !== null) return;
        run.hungAt = timeline.now;
        world.log(`host: run ${run.job}/${run.attempt} hangs`);
        checker.programHangs(run);
        return;
      }
      for (const program of gang) programs.end(program, lastLines[behavior]);
      resolveOnce(lastLines[behavior]);
    });
    for (const program of gang) {
      program.listeners.add(() => {
        if (isResolved) return;
        // The others wait for it until a call fails; a connection to a lost machine ends sooner or later.
        timeline.after(chance.between(1, 40) * second, () => {
          for (const other of gang) programs.end(other, 'another worker is lost');
          resolveOnce(gang.length > 1 && chance.yes(0.5) ? 'GRPC error' : connectionLostLine);
        });
      });
    }
  });
}

/** The connection of this machine is cut: some programs notice it later. */
function cutConnection(parts: ScriptContext, gang: readonly Program[], survivesNetworkCut: boolean): void {
  const { world, chance, programs } = parts;
  const { timeline } = world;
  for (const program of gang) {
    if (survivesNetworkCut || program.endedAt !== null) continue;
    timeline.after(chance.between(1, 60) * second, () => programs.end(program, 'the connection is lost'));
  }
}
