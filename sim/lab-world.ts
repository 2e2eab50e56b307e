// Lab parts: everything that a simulated lab consists of, for its users and its faults.

import type { Clock } from '../src/app/ports.ts';
import type { Job } from '../src/core/model/job.ts';
import type { LabStore } from '../src/lab/lab-store.ts';
import type { Chance } from './chance.ts';
import type { CloudModel } from './cloud.ts';
import type { OwnerClient, Controllers } from './controllers.ts';
import type { LabChecker } from './lab-invariants.ts';
import type { LabJobProfile, LabPlan, LabSize, ScriptStart } from './lab-people.ts';
import type { createTpuOperations, Programs, SimulatedTpuOperations } from './lab-tpus.ts';
import type { InvariantChecker } from './invariants.ts';
import type { Host, World } from './world.ts';
import { presets } from '../src/core/policy/presets.ts';
import type { JobSpec, SetupStep } from '../src/core/model/spec.ts';
import { minute, second } from '../src/core/model/time.ts';
import { planAttempt, runFolders } from '../src/lab/attempt-plan.ts';
import { readLineages, lineageOf } from '../src/lab/lineage.ts';
import { type LabRule, buildRunSpec, persistentTpuSpec } from '../src/lab/run-spec.ts';
import type { LabTpu } from '../src/lab/tpus.ts';
import type { Timeline } from './timeline.ts';

/** Deliberate bugs that show that an invariant of the lab can fail. */
export const labFaults = {
  'stage-reset': 'a job that moves to another TPU counts its stages from 0',
  'last-line-hidden': 'a script does not report that its connection was cut',
  'programs-left': 'processes of an earlier attempt on the workers are not ended',
  'same-window-number': 'every window gets the number 1',
  'kill-as-stop': 'a kill acts as a stop followed by a resume',
  'closing-ignored': 'a closed window is recorded, but the job is not stopped',
  'rule-recreates': 'the rule `pass` recreates TPUs',
  'hang-ignored': 'a program that hangs after a failed call is not ended',
  'exit-code-trusted': 'every exit code of 0 counts as a success',
  'empty-checkpoint-loaded': 'a script loads the newest folder, even without a checkpoint',
} as const;

export type LabFault = keyof typeof labFaults;

export interface Lab {
  readonly world: World;
  readonly cloudModel: CloudModel;
  readonly clock: Clock;
  readonly plan: LabPlan;
  readonly size: LabSize;
  readonly fault: LabFault | undefined;
  readonly checker: InvariantChecker;
  readonly labChecker: LabChecker;
  readonly record: LabStore;
  readonly controllers: Controllers;
  readonly client: OwnerClient;
  readonly tpuOperations: ReturnType<typeof createTpuOperations>;
  readonly scriptSetup: ReturnType<typeof createScriptSetup>;
  readonly programs: Programs;
  readonly profiles: Map<string, LabJobProfile>;
  readonly tpuOf: Map<string, string>;
  readonly tpus: ReadonlyMap<string, LabPlan['tpus'][number]>;
  readonly loginHost: Host;
  readonly peopleChance: Chance;
  readonly faultChance: Chance;
  hasFaults: boolean;
}

/** Throws for an unknown name. */
export function lookUp<Value>(map: ReadonlyMap<string, Value>, name: string): Value {
  const value = map.get(name);
  if (value === undefined) throw new Error(`the lab has no ${name}`);
  return value;
}

export function jobsOf({ checker }: Lab, user: string): readonly Job[] {
  return checker.jobs().filter(({ owner }) => owner === user);
}

export function holderOf({ checker, tpuOf }: Lab, tpu: string): Job | undefined {
  return checker.jobs().find(({ id, finish }) => finish === null && tpuOf.get(id) === tpu);
}

// ------------------------------------------------------------------------------------------ `tpu __begin` and `tpu
// run`: the real rules of src/lab over the simulated world

const stageLimit = 10;

/** Longest time without output after a failed call between workers. */
export const hangGraceMs = 5 * minute;

const mount: SetupStep = { name: 'mount', key: 'mount-key', check: null, apply: 'true', files: [], timeoutMs: minute };

/** The spec of a job of `tpu run`. `isEager`: the bug of a rule that does more than its name says. */
export function specOf(tpu: LabTpu, rule: LabRule, directory: string, isEager: boolean): JobSpec {
  const spec = buildRunSpec({
    directory,
    tag: null,
    capacity: persistentTpuSpec(tpu, { zones: [], remoteUser: null, privateKey: null }, { project: null }),
    steps: [mount],
    rule,
    monitor: true,
    stageLimit,
    hangGraceMs,
    commandLine: '',
    env: {},
  });
  return isEager ? { ...spec, recovery: { ...spec.recovery, rules: presets.pre } } : spec;
}

export interface ScriptSetup {
  /** Gives the attempt its window, ends the processes of earlier attempts, and returns the arguments of the script. */
  begin(job: string, attempt: number): Promise<ScriptStart>;
  /**
   * Ends the processes of the attempts of that job, up to this one, on its workers; false if a worker did not answer.
   */
  cleanUp(job: string, attempt: number): Promise<boolean>;
}

export function createScriptSetup(parts: {
  readonly record: LabStore;
  readonly tpuOperations: Pick<SimulatedTpuOperations, 'end'>;
  readonly timeline: Timeline;
  readonly now: () => number;
  readonly jobOf: (id: string) => Promise<Job | null>;
  readonly tpuOf: (job: string) => LabTpu;
  /** True if that log folder contains checkpoints. */
  readonly hasCheckpoints: (logFolder: string) => boolean;
}): ScriptSetup {
  const { record, tpuOperations, timeline } = parts;

  async function cleanUp(job: string, attempt: number): Promise<boolean> {
    const labJob = await record.job(job);
    if (labJob === null) return true;
    const { jobs } = await readLineages(record, [labJob]);
    const lineage = lineageOf({ jobs }, { job, attempt });
    const windows = await record.windows({ jobs: [...jobs.keys()], cleared: true });
    const before = windows.filter(({ window }) =>
      lineage.some((one) => one.job === window.job && one.attempt === window.attempt),
    );
    const folders = runFolders(before, labJob.tpu);
    if (folders.length === 0) return true;
    const { unreachable, left } = await tpuOperations.end(parts.tpuOf(job), {
      folders,
      pids: [],
      graceMs: 10 * second,
    });
    return unreachable.length === 0 && left.length === 0;
  }

  return {
    cleanUp,
    async begin(job, attempt) {
      const opened = await record.openWindow(job, attempt, parts.now());
      for (let tries = 0; !(await cleanUp(job, attempt)); tries += 1) {
        if (tries === 20) throw new Error('return code [255]');
        await timeline.pause(30 * second);
      }
      const families = await readLineages(record, [opened.job]);
      const jobs = new Map<string, Job | null>();
      for (const id of families.jobs.keys()) jobs.set(id, await parts.jobOf(id));
      const {
        args,
        loadFrom: from,
        stage,
      } = planAttempt({
        job: opened.job,
        attempt,
        lineages: families,
        jobOf: (id) => jobs.get(id) ?? null,
        hasCheckpoints: (folder) => parts.hasCheckpoints(folder),
      });
      const configValue = (key: string): string | null =>
        args.find((arg) => arg.startsWith(`--config.${key}=`))?.slice(`--config.${key}=`.length) ?? null;
      const loadFrom = configValue('load_from');
      if (loadFrom !== (from?.logFolder ?? null))
        throw new Error('the plan of the attempt and the arguments of the script differ');
      const stageValue = configValue('stage');
      if (stageValue !== null && stageValue !== `${stage}`)
        throw new Error('the stage of the attempt and of the script differ');
      return {
        session: opened.session,
        window: opened.window.window,
        loadFrom,
        stage: stageValue === null ? null : Number(stageValue),
      };
    },
  };
}
