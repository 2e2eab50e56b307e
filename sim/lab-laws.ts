// Lab laws: what must be true in every life of a lab, beside the laws of every world (laws.ts). They are judged by what
// happened on the TPUs, by what the owners said, and by what scripts really told; what people are shown is held against that.

import { presets } from '../src/core/recover.ts';
import type { Job } from '../src/core/job.ts';
import { hour, minute, second } from '../src/core/time.ts';
import type { LabJob, LabRecord, LabWindow } from '../src/lab/record.ts';
import { hangGrace } from './lab-world.ts';
import { programName } from './lab-tpus.ts';
import type { Program, Programs } from './lab-tpus.ts';
import type { Machine, Run, World } from './world.ts';

const labLaws = {
  'one program a TPU': 'a TPU never has programs of two attempts alive at once',
  'numbers once': 'no window number is twice on a list, nor that of an ancestor of what is on it',
  'killed is killed': 'what its owner has killed does not begin again before somebody wants it',
  'closed is over': 'what runs in a window that was closed by hand may end, and no rule begins it again',
  'pass is pass': 'no TPU is made anew for a job whose rule does not say so',
  'load_from is told':
    'what a resumed program loads is the newest log folder that an ancestor really reported; others load nothing',
  'stage is counted': 'a program is told how often its work was resumed',
  'taken is preempted':
    'a script that fails because its TPU was taken away or made anew by somebody has not failed by itself',
  'hang is ended': 'a program that prints nothing after a failed call is ended soon, and no other counts as hung',
  'success is confirmed': 'an attempt whose script confirmed no success has not succeeded, whatever its exit code',
} as const;

type LabLaw = keyof typeof labLaws;

export interface LabViolation {
  readonly law: string;
  readonly sentence: string;
  readonly at: number;
}

/** The values that a script was given to begin with. */
export interface Given {
  readonly loadFrom: string | null;
  /** `--config.stage=`; null where it was given none. */
  readonly stage: number | null;
}

export interface LabJudge {
  readonly violation: LabViolation | null;
  break(law: string, sentence: string): void;
  /** A `tpu run`, or a resume or rerun on another TPU. */
  made(job: Job, labJob: LabJob): void;
  /** Somebody wants that job to go on, or to begin again; or to have it ended for good. */
  wanted(job: string, how: 'resume' | 'rerun'): void;
  killed(job: string): void;
  closed(job: string): void;
  /** A controller has committed a job; `before` is the record until then. */
  committed(before: Job, job: Job): void;
  /** Somebody deletes that machine, to make another of its name. */
  madeAnew(machine: Machine): void;
  /** A controller lets a TPU go, to have it made anew. */
  released(job: Job): void;
  scriptBegins(run: Run): void;
  given(run: Run, given: Given): void;
  /** Its program has succeeded, and it reports that. */
  confirmed(run: Run): void;
  /** Its program hangs from now on, after a failed call. */
  hangs(run: Run): void;
  reported(run: Run, logFolder: string): void;
  programBegins(program: Program): void;
  /** A number was given, or taken off a list. */
  listChanged(record: LabRecord, user: string): Promise<void>;
}

/** So long after its machines went down the pretend cloud says that it took them. */
export const lateWord = 25 * second;

/** A controller may be down meanwhile, or the login machine. */
const hangSlack = hour;

/** A program that has run for so long has saved a checkpoint. */
export const savesAfter = 10 * minute;

interface Ledger {
  readonly rule: string;
  readonly logStage: boolean;
  readonly father: LabJob['father'];
  killedAt: number | null;
  /** When the window that it ran in was closed, and nobody has wanted it since. */
  closedAt: number | null;
  readonly begun: Set<number>;
  readonly reported: Map<number, string>;
}

interface LabScene {
  readonly world: () => World;
  readonly programs: () => Programs;
  readonly jobOf: (id: string) => Job;
  readonly anew: Set<Machine>;
  readonly confirmed: Set<Run>;
  readonly ledgerOf: (job: string) => Ledger;
  readonly broken: (law: LabLaw, sentence: string) => void;
}

export function createLabJudge(world: () => World, programs: () => Programs, jobOf: (id: string) => Job): LabJudge {
  const ledgers = new Map<string, Ledger>();
  let violation: LabViolation | null = null;

  function breakLaw(law: string, sentence: string): void {
    if (violation !== null) return;
    violation = { law, sentence, at: world().timeline.now };
    world().say(`LAW ${law} is broken: ${sentence}`);
  }

  function ledgerOf(job: string): Ledger {
    const ledger = ledgers.get(job);
    if (ledger === undefined) throw new Error(`the lab knows no job ${job}`);
    return ledger;
  }

  const broken = (law: LabLaw, sentence: string): void => breakLaw(`${law} (${labLaws[law]})`, sentence);
  const scene: LabScene = { world, programs, jobOf, anew: new Set(), confirmed: new Set(), ledgerOf, broken };

  return {
    get violation() {
      return violation;
    },
    break: breakLaw,
    made(job, { father, logStage }) {
      const rule = job.spec.recovery.preset;
      ledgers.set(job.id, {
        rule,
        logStage,
        father,
        killedAt: null,
        closedAt: null,
        begun: new Set(),
        reported: new Map(),
      });
    },
    wanted(job) {
      ledgerOf(job).killedAt = null;
      ledgerOf(job).closedAt = null;
    },
    closed(job) {
      ledgerOf(job).closedAt ??= world().timeline.now;
    },
    killed(job) {
      ledgerOf(job).killedAt = world().timeline.now;
    },
    madeAnew: (machine) => void scene.anew.add(machine),
    released(job) {
      const { rule } = ledgerOf(job.id);
      const mayReapply =
        rule in presets && presets[rule as keyof typeof presets].some(({ answer }) => answer.on === 'new');
      if (!mayReapply) broken('pass is pass', `job ${job.id} of rule ${rule} lets its TPU go`);
    },
    committed: (before, job) => checkEnds(scene, before, job),
    scriptBegins(run) {
      const { killedAt, closedAt } = ledgerOf(run.job);
      // The message that starts it may have been on its way when the word came.
      const isLate = (wordAt: number | null): boolean => wordAt !== null && run.madeAt > wordAt + minute;
      const begins = `attempt ${run.attempt} of job ${run.job} begins`;
      if (isLate(killedAt)) broken('killed is killed', `${begins}, and it was killed at ${killedAt}`);
      if (isLate(closedAt)) broken('closed is over', `${begins}, and its window was closed at ${closedAt}`);
    },
    given: (run, given) => checkGiven(scene, run, given),
    confirmed: (run) => void scene.confirmed.add(run),
    hangs(run) {
      world().timeline.after(hangGrace + hangSlack, () => {
        if (run.endedAt === null && run.askedAt === null)
          broken('hang is ended', `attempt ${run.attempt} of job ${run.job} hangs since ${run.hungAt}`);
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
        broken('one program a TPU', `${programName(program)} begins while ${programName(other)} is alive`);
    },
    listChanged: (record, user) => checkNumbers(scene, record, user),
  };
}

/** An attempt has ended in the record: of what it really ended. */
function checkEnds(scene: LabScene, before: Job, job: Job): void {
  const { world, programs, confirmed, anew, broken } = scene;
  for (const { ordinal, endedAt, ending, judgeAt } of job.attempts) {
    if (endedAt === null || before.attempts[ordinal - 1]?.endedAt !== null) continue;
    const taken = programs().all.find(
      (one) =>
        one.job === job.id &&
        one.attempt === ordinal &&
        one.endedAt !== null &&
        isTakenAt(scene, one.host.machine, one.endedAt),
    );
    // One that had ended before, or was killed here, has an end of its own.
    const script = world().runs.find((run) => run.job === job.id && run.attempt === ordinal);
    if (ending?.reason === 'succeeded' && (script === undefined || !confirmed.has(script)))
      broken('success is confirmed', `attempt ${ordinal} of job ${job.id} counts as succeeded`);
    if (ending?.reason === 'hung' && (script?.hungAt ?? null) === null)
      broken('hang is ended', `attempt ${ordinal} of job ${job.id} counts as hung, and its program did not hang`);
    const isLater = (script?.endedAt ?? 0) >= (taken?.endedAt ?? 0);
    // Without an exit code it went down with the login machine, and failed of nothing that it has seen of its TPU.
    const isOfIt = taken !== undefined && script?.killed === false && script.exitCode !== null && isLater;
    const isMissed = taken !== undefined && anew.has(taken.host.machine) && ending?.reason === 'unreachable';
    // `tpu ack` judges an end at once, although the cloud may report the loss of the TPU later.
    const hasWaited = judgeAt === undefined;
    if (isOfIt && hasWaited && (ending?.reason === 'command_failed' || isMissed))
      broken(
        'taken is preempted',
        `attempt ${ordinal} of job ${job.id} counts as ${ending.reason}, and ${taken.host.machine.name} was taken away`,
      );
  }
}

function checkGiven(scene: LabScene, run: Run, { loadFrom, stage }: Given): void {
  const { ledgerOf, broken } = scene;
  const ledger = ledgerOf(run.job);
  ledger.begun.add(run.attempt);
  const due = logDue(scene, run.job, run.attempt);
  if (loadFrom !== due)
    broken(
      'load_from is told',
      `attempt ${run.attempt} of job ${run.job} loads ${loadFrom}, and what was told before it is ${due}`,
    );
  const [least, most] = resumesIn(scene, run.job, run.attempt);
  const isCounted = ledger.logStage ? stage !== null && stage >= least && stage <= most : stage === null;
  if (!isCounted)
    broken(
      'stage is counted',
      `attempt ${run.attempt} of job ${run.job} is told stage ${stage}, and it was resumed ${least} to ${most} times`,
    );
}

async function checkNumbers(scene: LabScene, record: LabRecord, user: string): Promise<void> {
  const { broken } = scene;
  const shown = (await record.windows({ user })).map(({ window }) => window);
  const all = (await record.windows({ user, cleared: true })).map(({ window }) => window);
  const meant = new Map<number, LabWindow>();
  for (const window of shown) {
    for (const { job, attempt } of lineOf(scene, window.job, window.attempt)) {
      const one = all.find((each) => each.job === job && each.attempt === attempt);
      if (one === undefined) continue;
      const other = meant.get(one.window);
      if (other !== undefined && (other.job !== job || other.attempt !== attempt))
        broken(
          'numbers once',
          `window ${one.window} of ${user} is attempt ${attempt} of ${job} and attempt ${other.attempt} of ${other.job}`,
        );
      meant.set(one.window, one);
    }
  }
}

/** That attempt and those that it goes on from or stands in the place of, the newest first. */
function lineOf(
  scene: LabScene,
  job: string,
  attempt: number,
): readonly { readonly job: string; readonly attempt: number }[] {
  const { ledgerOf } = scene;
  const { father } = ledgerOf(job);
  const own = Array.from({ length: attempt }, (_, index) => ({ job, attempt: attempt - index }));
  return father === null ? own : [...own, ...lineOf(scene, father.job, father.attempt)];
}

/** Whether a program that ended there then has ended of that: the cloud took the machine, or somebody has made it anew. */
function isTakenAt(scene: LabScene, machine: Machine, endedAt: number): boolean {
  const { anew } = scene;
  if (anew.has(machine)) return endedAt >= (machine.releaseAskedAt ?? Infinity);
  const { cause, lostAt } = machine;
  return cause === 'preempted' && lostAt !== null && endedAt >= lostAt - lateWord && endedAt <= lostAt;
}

/** The attempt whose work that one was to go on with: null where it was to begin from the start. */
function before(
  scene: LabScene,
  job: string,
  attempt: number,
): { readonly job: string; readonly attempt: number } | null {
  const { jobOf, ledgerOf } = scene;
  const { attempts } = jobOf(job);
  const { father } = ledgerOf(job);
  if (attempt > 1) {
    const { how, asked } = attempts[attempt - 1] ?? { how: 'fresh', asked: false };
    // A resume continues the last attempt that ran; one that never started does not count.
    if (how === 'resume') {
      const ran = attempts.slice(0, attempt - 1).findLast(({ startedAt }) => startedAt !== null);
      return { job, attempt: ran?.ordinal ?? 1 };
    }
    // An attempt that a rule makes in the place of one that never started is of that one's kind.
    const isStandIn = how === 'fresh' && !asked;
    return isStandIn ? { job, attempt: attempt - 1 } : null;
  }
  return father?.how === 'resume' ? father : null;
}

/** The newest log folder that the work told before that attempt; where anything was saved in one, the newest such. */
function logDue(scene: LabScene, job: string, attempt: number): string | null {
  const { world, programs, ledgerOf } = scene;
  let newest: string | null = null;
  for (let one = before(scene, job, attempt); one !== null; one = before(scene, one.job, one.attempt)) {
    const told = ledgerOf(one.job).reported.get(one.attempt);
    if (told === undefined) continue;
    const { job: of, attempt: ordinal } = one;
    const ran = programs().all.filter((program) => program.job === of && program.attempt === ordinal);
    const { now } = world().timeline;
    if (ran.some(({ startedAt, endedAt }) => (endedAt ?? now) - startedAt >= savesAfter)) return told;
    newest ??= told;
  }
  return newest;
}

/**
 * How often the work was resumed by that attempt: by those whose scripts began, and by all that were made. What lies between
 * had been started and never came to life.
 */
function resumesIn(scene: LabScene, job: string, attempt: number): readonly [least: number, most: number] {
  const { jobOf, ledgerOf } = scene;
  let [least, most] = [0, 0];
  let one: { readonly job: string; readonly attempt: number } = { job, attempt };
  for (;;) {
    const next = before(scene, one.job, one.attempt);
    if (next === null) return [least, most];
    // A replacement resumes only if the attempt that it replaces resumed. Nothing is resumed where no attempt has run.
    const { attempts } = jobOf(one.job);
    const hasRun = attempts[next.attempt - 1]?.startedAt !== null;
    const isResume = one.attempt === 1 || (attempts[one.attempt - 1]?.how === 'resume' && hasRun);
    if (isResume && ledgerOf(one.job).begun.has(one.attempt)) least += 1;
    if (isResume) most += 1;
    one = next;
  }
}
