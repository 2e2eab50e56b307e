// The people of a pretend lab, their TPUs, and what they want run on them.

import { hour, minute, second } from '../src/core/time.ts';
import type { Duration } from '../src/core/time.ts';
import { type LabUser } from '../src/lab/people.ts';
import { defaultAliases } from '../src/lab/names.ts';
import { defaultUserSettings } from '../src/lab/user-settings.ts';
import type { LabRule } from '../src/lab/run.ts';
import type { LabTpu } from '../src/lab/tpus.ts';
import type { Chance } from './chance.ts';
import { sureZone } from './jobs.ts';
import { unconfirmedReason } from '../src/lab/attempt.ts';
import type { LabRecord } from '../src/lab/record.ts';
import type { Sky } from './cloud.ts';
import type { Given, LabJudge } from './lab-laws.ts';
import { answers } from './lab-tpus.ts';
import type { Program, Programs } from './lab-tpus.ts';
import { endRun, findMachine, hungLine } from './world.ts';
import type { Plan, Run, World } from './world.ts';

export interface LabSize {
  readonly users: number;
  readonly tpus: number;
  readonly jobs: number;
  /** How long people go on wanting things, and things go wrong. */
  readonly length: Duration;
}

export const twoDays: LabSize = { users: 8, tpus: 30, jobs: 200, length: 48 * hour };

/** An afternoon, for tests that are run all the time. */
export const anAfternoon: LabSize = { users: 3, tpus: 5, jobs: 20, length: 6 * hour };

const rules: readonly LabRule[] = ['pre', 'pass', 'reapply', 'rerun', 'resume'];

/**
 * The course of one attempt without interference. `early`: the script ends before it has reported where its log is. `grpc`: a
 * call between workers fails. `hangs`: one fails, and the program waits for ever. `masked`: one fails, and the script exits with
 * 0 nevertheless, as scripts of the older `tpu` do. `fails`: the program has a mistake. `short`: the program succeeds and nothing
 * reports it. `unasked`: only its log reports the success, because the script does not call `finish-job`.
 */
type LabFortune = 'succeeds' | 'unasked' | 'grpc' | 'hangs' | 'masked' | 'fails' | 'early' | 'short';

export interface LabNature {
  /** One for each attempt; the last stands for all that follow. */
  readonly fortunes: readonly LabFortune[];
  readonly length: Duration;
  /** Whether it goes on on the workers when the line from this machine is cut. */
  readonly goesOn: boolean;
}

export interface LabWish {
  readonly at: number;
  readonly user: string;
  /** As `rule=` says; null: what the TPU's pricing wants. */
  readonly rule: LabRule | null;
  readonly logStage: boolean;
  readonly nature: LabNature;
  /** Two say it in the same second, of the same TPU. */
  readonly isTwice: boolean;
}

export interface LabPlan {
  readonly users: readonly LabUser[];
  readonly tpus: readonly (LabTpu & { readonly workers: number })[];
  readonly wishes: readonly LabWish[];
}

const names = ['alice', 'bob', 'carol', 'dora', 'emil', 'frieda', 'gustav', '海伦'];

export function drawLab(chance: Chance, size: LabSize): LabPlan {
  const users = names.slice(0, size.users).map((name, index): LabUser => ({
    name,
    id: index,
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
      project: 'pretend',
      zone: sureZone,
      accelerator: 'v2-32',
      pricing: isPreemptible ? ('preemptible' as const) : ('ondemand' as const),
      runtimeVersion: null,
      workers: chance.pick([1, 1, 2]),
    };
  });
  const kinds = chance.fork('kinds of failed calls');
  const wishes = Array.from({ length: size.jobs }, (): LabWish => ({
    // The last user still wants to see how it ends.
    at: chance.between(0, size.length * 0.95),
    user: chance.pick(users).name,
    rule: chance.pick([null, null, ...rules]),
    logStage: chance.yes(0.4),
    nature: drawNature(chance, kinds),
    isTwice: chance.yes(0.1),
  }));
  return { users, tpus, wishes };
}

function drawNature(chance: Chance, kinds: Chance): LabNature {
  const before = Array.from({ length: chance.pick([0, 0, 0, 1, 1, 2, 4]) }, () =>
    chance.pick(['grpc', 'grpc', 'grpc', 'fails', 'early'] as const),
  );
  const fortunes: readonly LabFortune[] = [
    ...before,
    chance.pick(['succeeds', 'succeeds', 'unasked', 'short', 'fails', 'grpc'] as const),
  ];
  return {
    // A fork, so that all else of a seed stays as it was.
    fortunes: fortunes.map((one) => (one === 'grpc' ? kinds.pick(['grpc', 'hangs', 'masked'] as const) : one)),
    length: chance.pick([chance.between(2, 30) * minute, chance.between(1, 4) * hour, chance.between(20, 90) * second]),
    goesOn: chance.yes(0.7),
  };
}

// ------------------------------------------------------------------------------------------ scripts

export interface Begun extends Given {
  readonly session: string;
  readonly window: number;
}

export interface ScriptParts {
  readonly world: World;
  readonly sky: Sky;
  readonly chance: Chance;
  readonly now: () => number;
  readonly record: LabRecord;
  readonly programs: Programs;
  readonly judge: LabJudge;
  readonly natureOf: (job: string) => LabNature;
  readonly tpuOf: (job: string) => string;
  /** Rejects where the script must not go on. */
  readonly begin: (job: string, attempt: number) => Promise<Begun>;
  /** Ends what that attempt has left on its workers. */
  readonly tidy: (job: string, attempt: number) => Promise<boolean>;
  /** The mistake of scripts that do not say what went wrong. */
  readonly isMute: boolean;
  /** The mistake of believing every exit code of 0. */
  readonly isCredulous: boolean;
}

/** How a script behaves as a process of this machine: when it ends, and of what, the story decides. */
export const scriptPlan: Plan = {
  slow: 0,
  length: null,
  exitCode: 0,
  linePeriod: 10 * minute,
  silentAfter: null,
  lastLine: '',
  obeysAfter: null,
};

export interface Scripts {
  begins(run: Run): void;
  asked(run: Run): void;
}

/** As gcloud says that its ssh ended by itself, as far as a line of this world goes. */
const lineCut = 'return code [255]';

export function createScripts(parts: ScriptParts): Scripts {
  const { world, chance, record, judge } = parts;
  const { timeline } = world;
  async function play(run: Run): Promise<void> {
    const { fortunes, length, goesOn } = parts.natureOf(run.job);
    const fortune = fortunes[Math.min(run.attempt, fortunes.length) - 1] ?? 'succeeds';
    const isOver = (): boolean => run.endedAt !== null || run.askedAt !== null;
    await timeline.pause(chance.between(300, 3_000));
    if (isOver()) return;
    let begun: Begun;
    try {
      begun = await parts.begin(run.job, run.attempt);
    } catch (error) {
      leave(parts, run, 1, error instanceof Error ? error.message : 'it may not begin');
      return;
    }
    if (isOver()) return;
    judge.given(run, begun);
    await timeline.pause(chance.between(2, 60) * second);
    if (isOver()) return;
    if (fortune === 'early') {
      leave(parts, run, 1, 'rsync: it broke');
      return;
    }
    const folder = `/logs/${run.job}-${run.attempt}-${timeline.now}`;
    const stageFolder = folder.replace('logs', 'staging');
    const tpu = parts.tpuOf(run.job);
    const at = parts.now();
    await record.report(begun.session, begun.window, { logFolder: folder, stageFolder, tpu, startTime: `${at}`, at });
    judge.reported(run, folder);
    await timeline.pause(chance.between(500, 8_000));
    if (isOver()) return;
    const gang = await startOn(parts, tpu, { job: run.job, attempt: run.attempt, logFolder: folder, stageFolder }, run);
    if (gang === undefined || isOver()) {
      cut(parts, gang ?? [], goesOn);
      if (!isOver()) leave(parts, run, 1, lineCut);
      return;
    }
    // The line ends with this process, however that ends.
    run.listeners.add(() => cut(parts, gang, goesOn));
    const words = await gangEnds(parts, gang, fortune, length, run);
    if (isOver()) return;
    const isDone = words === 'done';
    const isConfirmed = isDone && (fortune === 'succeeds' || fortune === 'unasked');
    if (isConfirmed) judge.confirmed(run);
    if (fortune === 'succeeds' && isDone) await record.finish(begun.session, begun.window, parts.now());
    const told = await record.windowOf(begun.session, begun.window);
    const code = isDone || fortune === 'masked' ? 0 : 1;
    const reason = unconfirmedReason({
      code,
      report: told?.window.report ?? null,
      isFinished: (told?.window.finishedAt ?? null) !== null,
      hasHistory: isConfirmed && fortune === 'unasked',
      lastError: isDone ? null : words,
    });
    if (!parts.isCredulous) run.failure = reason;
    leave(parts, run, code, words);
  }

  return {
    begins(run) {
      judge.scriptBegins(run);
      void play(run);
    },
    asked(run) {
      void parts.tidy(run.job, run.attempt).then(() => leave(parts, run, 143, 'asked to end'));
    },
  };
}

function leave(parts: ScriptParts, run: Run, exitCode: number, words: string): void {
  if (run.endedAt !== null) return;
  // Its last line is not known before: a plan is this run's alone, and this is the one thing in it that is found out.
  (run.plan as { lastLine: string }).lastLine = parts.isMute ? 'it broke' : words;
  endRun(parts.world, run, exitCode);
}

/** On every worker, one after another; undefined where one does not answer. What has begun by then goes on. */
async function startOn(
  parts: ScriptParts,
  tpu: string,
  given: Pick<Program, 'job' | 'attempt' | 'logFolder' | 'stageFolder'>,
  run: Run,
): Promise<readonly Program[] | undefined> {
  const { world, sky, chance, programs } = parts;
  const { timeline } = world;
  const machine = findMachine(world, sureZone, tpu);
  const gang: Program[] = [];
  for (const host of machine?.state === 'ready' ? (machine?.hosts ?? []) : []) {
    await timeline.pause(chance.between(300, 4_000));
    if (run.endedAt !== null) break;
    if (!answers(host, sky)) {
      await timeline.pause(20 * second);
      break;
    }
    gang.push(programs.start(host, given));
  }
  const isWhole = gang.length > 0 && gang.length === machine?.hosts.length;
  if (!isWhole) {
    cut(parts, gang, parts.natureOf(run.job).goesOn);
    return undefined;
  }
  return gang;
}

/** Resolves with the last words: it ended as it was to, or a worker was lost and the others noticed. */
function gangEnds(
  parts: ScriptParts,
  gang: readonly Program[],
  fortune: LabFortune,
  length: number,
  run: Run,
): Promise<string> {
  const { world, chance, programs, judge } = parts;
  const { timeline } = world;
  return new Promise((resolve) => {
    let isTold = false;
    const told = (words: string): void => {
      if (isTold) return;
      isTold = true;
      resolve(words);
    };
    const wordsOf: Readonly<Record<LabFortune, string>> = {
      succeeds: 'done',
      short: 'done',
      unasked: 'done',
      grpc: 'GRPC error',
      hangs: hungLine,
      masked: 'GRPC error',
      fails: 'NameError: x',
      early: '',
    };
    // One that fails does so early, mostly.
    const failing: readonly LabFortune[] = ['grpc', 'fails', 'hangs', 'masked'];
    const runs = failing.includes(fortune) ? Math.ceil(length * chance.next()) : length;
    timeline.after(runs, () => {
      if (isTold || gang.some(({ endedAt }) => endedAt !== null)) return;
      if (fortune === 'hangs') {
        if (run.endedAt !== null) return;
        run.hungAt = timeline.now;
        world.say(`host: run ${run.job}/${run.attempt} hangs`);
        judge.hangs(run);
        return;
      }
      for (const program of gang) programs.end(program, wordsOf[fortune]);
      told(wordsOf[fortune]);
    });
    for (const program of gang) {
      program.listeners.add(() => {
        if (isTold) return;
        // The others wait for it until a call fails; a line to a machine that is gone ends sooner or later.
        timeline.after(chance.between(1, 40) * second, () => {
          for (const other of gang) programs.end(other, 'another one is gone');
          told(gang.length > 1 && chance.yes(0.5) ? 'GRPC error' : lineCut);
        });
      });
    }
  });
}

/** The line from this machine is cut: some programs notice, at some time. */
function cut(parts: ScriptParts, gang: readonly Program[], goesOn: boolean): void {
  const { world, chance, programs } = parts;
  const { timeline } = world;
  for (const program of gang) {
    if (goesOn || program.endedAt !== null) continue;
    timeline.after(chance.between(1, 60) * second, () => programs.end(program, 'nobody listens any more'));
  }
}
