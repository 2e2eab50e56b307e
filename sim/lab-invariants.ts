// Lab invariants: conditions that hold in every lab, in addition to those of every world (invariants.ts). They are
// checked against the events on the TPUs, the owners' commands and the scripts' reports, and against the lists that
// users see.

import { presets } from '../src/core/policy/presets.ts';
import type { Job } from '../src/core/model/job.ts';
import { hour, minute, second } from '../src/core/model/time.ts';
import type { LabJob, LabStore, LabWindow } from '../src/lab/lab-store.ts';
import { hangGraceMs } from './lab-world.ts';
import { programName } from './lab-tpus.ts';
import type { Program, Programs } from './lab-tpus.ts';
import type { Machine, Run, World } from './world.ts';

const labInvariants = {
  'one-program-per-TPU': 'a TPU never has programs of two attempts alive at once',
  'window-numbers-unique':
    'no window number is listed twice, and no listed window has the number of an ancestor of a listed job',
  'killed-stays-killed': 'a killed job does not start again before a user wants it',
  'closed-stays-closed': 'a job whose window was closed may end, and no rule restarts it',
  'no-recreation-without-rule': 'no TPU is recreated for a job whose rule does not recreate it',
  'load_from-correct':
    'a resumed program loads the newest log folder that an ancestor reported; other programs load nothing',
  'stage-correct': 'a program gets the number of resumes of its work',
  'loss-is-preemption': 'a script whose TPU was preempted or recreated has not failed by itself',
  'hang-ends': 'a program without output after a failed call is ended soon, and no other program counts as hung',
  'success-confirmed': 'an attempt without confirmed success has not succeeded, whatever its exit code',
} as const;

type LabInvariant = keyof typeof labInvariants;

export interface LabViolation {
  readonly invariant: string;
  readonly message: string;
  readonly at: number;
}

/** The arguments of a script. */
export interface ScriptInput {
  readonly loadFrom: string | null;
  /** `--config.stage=`; null without one. */
  readonly stage: number | null;
}

export interface LabChecker {
  readonly violation: LabViolation | null;
  fail(invariant: string, message: string): void;
  /** A `tpu run`, or a resume or rerun on another TPU. */
  jobCreated(job: Job, labJob: LabJob): void;
  /** A user wants that job to continue, to restart, or to end for good. */
  restartRequested(job: string, how: 'resume' | 'rerun'): void;
  killed(job: string): void;
  closed(job: string): void;
  /** A controller has committed a job; `before` is the job until then. */
  committed(before: Job, job: Job): void;
  /** A user deletes that machine, to create another one of its name. */
  recreated(machine: Machine): void;
  /** A controller releases a TPU, to have it recreated. */
  released(job: Job): void;
  scriptBegins(run: Run): void;
  inputGiven(run: Run, given: ScriptInput): void;
  /** Its program has succeeded, and reports that. */
  confirmed(run: Run): void;
  /** Its program hangs from now on, after a failed call. */
  programHangs(run: Run): void;
  reported(run: Run, logFolder: string): void;
  programBegins(program: Program): void;
  /** A number was given, or removed from a list. */
  listChanged(record: LabStore, user: string): Promise<void>;
}

/** The simulated cloud reports a preemption this long after the machines went down. */
export const maxPreemptionReportDelay = 25 * second;

/** A controller, or the login machine, may be down meanwhile. */
const hangSlack = hour;

/** A program that has run this long has saved a checkpoint. */
export const firstCheckpointAfter = 10 * minute;

interface LabLedger {
  readonly rule: string;
  readonly logStage: boolean;
  readonly parent: LabJob['parent'];
  killedAt: number | null;
  /** Time at which its window was closed; cleared when a user wants the job again. */
  closedAt: number | null;
  readonly scriptsBegun: Set<number>;
  readonly reported: Map<number, string>;
}

interface LabCheckContext {
  readonly world: () => World;
  readonly programs: () => Programs;
  readonly jobOf: (id: string) => Job;
  readonly recreated: Set<Machine>;
  readonly confirmed: Set<Run>;
  readonly ledgerOf: (job: string) => LabLedger;
  readonly fail: (invariant: LabInvariant, message: string) => void;
}

export function createLabChecker(world: () => World, programs: () => Programs, jobOf: (id: string) => Job): LabChecker {
  const ledgers = new Map<string, LabLedger>();
  let violation: LabViolation | null = null;

  function failWith(invariant: string, message: string): void {
    if (violation !== null) return;
    violation = { invariant, message, at: world().timeline.now };
    world().log(`INVARIANT ${invariant} is broken: ${message}`);
  }

  function ledgerOf(job: string): LabLedger {
    const ledger = ledgers.get(job);
    if (ledger === undefined) throw new Error(`there is no job ${job}`);
    return ledger;
  }

  const fail = (invariant: LabInvariant, message: string): void =>
    failWith(`${invariant} (${labInvariants[invariant]})`, message);
  const context: LabCheckContext = {
    world,
    programs,
    jobOf,
    recreated: new Set(),
    confirmed: new Set(),
    ledgerOf,
    fail,
  };

  return {
    get violation() {
      return violation;
    },
    fail: failWith,
    jobCreated(job, { parent, logStage }) {
      const rule = job.spec.recovery.preset;
      ledgers.set(job.id, {
        rule,
        logStage,
        parent,
        killedAt: null,
        closedAt: null,
        scriptsBegun: new Set(),
        reported: new Map(),
      });
    },
    restartRequested(job) {
      ledgerOf(job).killedAt = null;
      ledgerOf(job).closedAt = null;
    },
    closed(job) {
      ledgerOf(job).closedAt ??= world().timeline.now;
    },
    killed(job) {
      ledgerOf(job).killedAt = world().timeline.now;
    },
    recreated: (machine) => void context.recreated.add(machine),
    released(job) {
      const { rule } = ledgerOf(job.id);
      const mayReapply =
        rule in presets && presets[rule as keyof typeof presets].some(({ answer }) => answer.on === 'new');
      if (!mayReapply) fail('no-recreation-without-rule', `job ${job.id} of rule ${rule} releases its TPU`);
    },
    committed: (before, job) => checkEnds(context, before, job),
    scriptBegins(run) {
      const { killedAt, closedAt } = ledgerOf(run.job);
      // The start message may have been sent before the command.
      const isLate = (commandAt: number | null): boolean => commandAt !== null && run.createdAt > commandAt + minute;
      const begins = `attempt ${run.attempt} of job ${run.job} begins`;
      if (isLate(killedAt)) fail('killed-stays-killed', `${begins}, but it was killed at ${killedAt}`);
      if (isLate(closedAt)) fail('closed-stays-closed', `${begins}, but its window was closed at ${closedAt}`);
    },
    inputGiven: (run, given) => checkScriptInput(context, run, given),
    confirmed: (run) => void context.confirmed.add(run),
    programHangs(run) {
      world().timeline.after(hangGraceMs + hangSlack, () => {
        if (run.endedAt === null && run.stopRequestedAt === null)
          fail('hang-ends', `attempt ${run.attempt} of job ${run.job} hangs since ${run.hungAt}`);
      });
    },
    reported(run, logFolder) {
      ledgerOf(run.job).reported.set(run.attempt, logFolder);
    },
    programBegins(program) {
      const name = program.host.machine.name;
      const other = programs()
        .aliveOn(name)
        .find((one) => one.job !== program.job || one.attempt !== program.attempt);
      if (other !== undefined)
        fail('one-program-per-TPU', `${programName(program)} begins while ${programName(other)} is alive`);
    },
    listChanged: (record, user) => checkNumbers(context, record, user),
  };
}

/** An attempt has ended in the database: compares the reason with the true one. */
function checkEnds(context: LabCheckContext, before: Job, job: Job): void {
  const { world, programs, confirmed, recreated, fail } = context;
  for (const { ordinal, endedAt, ending, exitAcceptedAt } of job.attempts) {
    if (endedAt === null || before.attempts[ordinal - 1]?.endedAt !== null) continue;
    const preemptedProgram = programs().all.find(
      (one) =>
        one.job === job.id &&
        one.attempt === ordinal &&
        one.endedAt !== null &&
        wasPreemptedAt(context, one.host.machine, one.endedAt),
    );
    // A program that had ended before, or was killed here, has its own reason.
    const script = world().runs.find((run) => run.job === job.id && run.attempt === ordinal);
    if (ending?.reason === 'succeeded' && (script === undefined || !confirmed.has(script)))
      fail('success-confirmed', `attempt ${ordinal} of job ${job.id} counts as succeeded`);
    if (ending?.reason === 'hung' && (script?.hungAt ?? null) === null)
      fail('hang-ends', `attempt ${ordinal} of job ${job.id} counts as hung, but its program did not hang`);
    const isLater = (script?.endedAt ?? 0) >= (preemptedProgram?.endedAt ?? 0);
    // Without an exit code it went down with the login machine, not with its TPU.
    const isOfIt = preemptedProgram !== undefined && script?.killed === false && script.exitCode !== null && isLater;
    const isMissed =
      preemptedProgram !== undefined &&
      recreated.has(preemptedProgram.host.machine) &&
      ending?.reason === 'unreachable';
    // `tpu ack` judges an exit at once, although the cloud may report the loss of the TPU later.
    const hasWaited = exitAcceptedAt === undefined;
    if (isOfIt && hasWaited && (ending?.reason === 'command_failed' || isMissed))
      fail(
        'loss-is-preemption',
        `attempt ${ordinal} of job ${job.id} counts as ${ending.reason}, but ${preemptedProgram.host.machine.name} was preempted`,
      );
  }
}

function checkScriptInput(scene: LabCheckContext, run: Run, { loadFrom, stage }: ScriptInput): void {
  const { ledgerOf, fail } = scene;
  const ledger = ledgerOf(run.job);
  ledger.scriptsBegun.add(run.attempt);
  const expected = expectedLogFolder(scene, run.job, run.attempt);
  if (loadFrom !== expected)
    fail(
      'load_from-correct',
      `attempt ${run.attempt} of job ${run.job} loads ${loadFrom}, but the last reported folder is ${expected}`,
    );
  const [least, most] = resumeCountRange(scene, run.job, run.attempt);
  const isCounted = ledger.logStage ? stage !== null && stage >= least && stage <= most : stage === null;
  if (!isCounted)
    fail(
      'stage-correct',
      `attempt ${run.attempt} of job ${run.job} gets stage ${stage}, but was resumed ${least} to ${most} times`,
    );
}

async function checkNumbers(context: LabCheckContext, record: LabStore, user: string): Promise<void> {
  const { fail } = context;
  const shown = (await record.windows({ user })).map(({ window }) => window);
  const all = (await record.windows({ user, cleared: true })).map(({ window }) => window);
  const meant = new Map<number, LabWindow>();
  for (const window of shown) {
    for (const { job, attempt } of lineageOf(context, window.job, window.attempt)) {
      const one = all.find((each) => each.job === job && each.attempt === attempt);
      if (one === undefined) continue;
      const other = meant.get(one.window);
      if (other !== undefined && (other.job !== job || other.attempt !== attempt))
        fail(
          'window-numbers-unique',
          `window ${one.window} of ${user} is attempt ${attempt} of ${job} and attempt ${other.attempt} of ${other.job}`,
        );
      meant.set(one.window, one);
    }
  }
}

/** That attempt and those that it continues or replaces, newest first. */
function lineageOf(
  context: LabCheckContext,
  job: string,
  attempt: number,
): readonly { readonly job: string; readonly attempt: number }[] {
  const { ledgerOf } = context;
  const { parent } = ledgerOf(job);
  const own = Array.from({ length: attempt }, (_, index) => ({ job, attempt: attempt - index }));
  return parent === null ? own : [...own, ...lineageOf(context, parent.job, parent.attempt)];
}

/** True if the end of that program was caused by the preemption or recreation of its machine. */
function wasPreemptedAt(context: LabCheckContext, machine: Machine, endedAt: number): boolean {
  const { recreated } = context;
  if (recreated.has(machine)) return endedAt >= (machine.deletionRequestedAt ?? Infinity);
  const { cause, lostAt } = machine;
  return cause === 'preempted' && lostAt !== null && endedAt >= lostAt - maxPreemptionReportDelay && endedAt <= lostAt;
}

/** The attempt whose work that one continues. Null for a start from the beginning. */
function predecessorOf(
  context: LabCheckContext,
  job: string,
  attempt: number,
): { readonly job: string; readonly attempt: number } | null {
  const { jobOf, ledgerOf } = context;
  const { attempts } = jobOf(job);
  const { parent } = ledgerOf(job);
  if (attempt > 1) {
    const { startMode, startedByOwner } = attempts[attempt - 1] ?? {
      startMode: 'fresh',
      startedByOwner: false,
    };
    // A resume continues the last attempt that ran; one that never started does not count.
    if (startMode === 'resume') {
      const ran = attempts.slice(0, attempt - 1).findLast(({ startedAt }) => startedAt !== null);
      return { job, attempt: ran?.ordinal ?? 1 };
    }
    // An attempt that a rule makes in place of one that never started has the same start mode.
    const isStandIn = startMode === 'fresh' && !startedByOwner;
    return isStandIn ? { job, attempt: attempt - 1 } : null;
  }
  return parent?.startMode === 'resume' ? parent : null;
}

/** The newest log folder that the work reported before that attempt; one with a checkpoint comes first. */
function expectedLogFolder(context: LabCheckContext, job: string, attempt: number): string | null {
  const { world, programs, ledgerOf } = context;
  let newest: string | null = null;
  for (
    let one = predecessorOf(context, job, attempt);
    one !== null;
    one = predecessorOf(context, one.job, one.attempt)
  ) {
    const logFolder = ledgerOf(one.job).reported.get(one.attempt);
    if (logFolder === undefined) continue;
    const { job: of, attempt: ordinal } = one;
    const ran = programs().all.filter((program) => program.job === of && program.attempt === ordinal);
    const { now } = world().timeline;
    if (ran.some(({ startedAt, endedAt }) => (endedAt ?? now) - startedAt >= firstCheckpointAfter)) return logFolder;
    newest ??= logFolder;
  }
  return newest;
}

/**
 * The numbers of resumes until that attempt: of attempts whose scripts started, and of all attempts. The difference are
 * attempts that never started.
 */
function resumeCountRange(
  context: LabCheckContext,
  job: string,
  attempt: number,
): readonly [least: number, most: number] {
  const { jobOf, ledgerOf } = context;
  let [least, most] = [0, 0];
  let one: { readonly job: string; readonly attempt: number } = { job, attempt };
  for (;;) {
    const next = predecessorOf(context, one.job, one.attempt);
    if (next === null) return [least, most];
    // A replacement resumes only if the attempt that it replaces resumed. Nothing is resumed if no attempt has run.
    const { attempts } = jobOf(one.job);
    const hasRun = attempts[next.attempt - 1]?.startedAt !== null;
    const isResume = one.attempt === 1 || (attempts[one.attempt - 1]?.startMode === 'resume' && hasRun);
    if (isResume && ledgerOf(one.job).scriptsBegun.has(one.attempt)) least += 1;
    if (isResume) most += 1;
    one = next;
  }
}
