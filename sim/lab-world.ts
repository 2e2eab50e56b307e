// Lab parts: everything that a story of a lab consists of, for its people and its storm.

import type { Clock } from '../src/app/ports.ts';
import type { Job } from '../src/core/job.ts';
import type { LabRecord } from '../src/lab/record.ts';
import type { Chance } from './chance.ts';
import type { Sky } from './cloud.ts';
import type { Client, Controllers } from './controllers.ts';
import type { LabJudge } from './lab-laws.ts';
import type { LabNature, LabPlan, LabSize, Begun } from './lab-people.ts';
import type { createDesk, Programs, PretendDesk } from './lab-tpus.ts';
import type { Judge } from './laws.ts';
import type { Host, World } from './world.ts';
import { presets } from '../src/core/recover.ts';
import type { JobSpec, SetupStep } from '../src/core/spec.ts';
import { minute, second } from '../src/core/time.ts';
import { courseOf, foldersOf } from '../src/lab/attempt.ts';
import { familiesOf, lineOf } from '../src/lab/lineage.ts';
import { type LabRule, runSpec, standingSpec } from '../src/lab/run.ts';
import type { LabTpu } from '../src/lab/tpus.ts';
import type { Timeline } from './timeline.ts';

/** Mistakes that are made on purpose, each to show that a law of the lab can fail. */
export const labFaults = {
  'forgets stages': 'a job that goes on on another TPU counts its stages from 0',
  'mute scripts': 'a script whose line was cut does not say so',
  'leaves programs': 'what an earlier attempt left on the workers is not ended',
  'one number': 'every window gets the number 1',
  'deaf to kill': 'a kill is heard as a stop and a resume after it',
  'deaf to closing': 'that a window was closed is written down, and nobody is told',
  'eager rule': 'the rule pass makes TPUs anew',
  'patient rule': 'a program that hangs after a failed call is left alone',
  'credulous scripts': 'every exit code of 0 is a success',
  'loads anything': 'a script loads the newest folder, whether or not anything was saved in it',
} as const;

export type LabFault = keyof typeof labFaults;

export interface Lab {
  readonly world: World;
  readonly sky: Sky;
  readonly clock: Clock;
  readonly plan: LabPlan;
  readonly size: LabSize;
  readonly fault: LabFault | undefined;
  readonly judge: Judge;
  readonly labJudge: LabJudge;
  readonly record: LabRecord;
  readonly controllers: Controllers;
  readonly client: Client;
  readonly desk: ReturnType<typeof createDesk>;
  readonly beginning: ReturnType<typeof createBegin>;
  readonly programs: Programs;
  readonly natures: Map<string, LabNature>;
  readonly tpuOf: Map<string, string>;
  readonly tpus: ReadonlyMap<string, LabPlan['tpus'][number]>;
  readonly login: Host;
  readonly people: Chance;
  readonly storm: Chance;
  isLife: boolean;
}

/** The value of that name. Throws without one: the story is wrong. */
export function known<Value>(map: ReadonlyMap<string, Value>, name: string): Value {
  const value = map.get(name);
  if (value === undefined) throw new Error(`the lab knows no ${name}`);
  return value;
}

export function jobsOf({ judge }: Lab, user: string): readonly Job[] {
  return judge.jobs.filter(({ owner }) => owner === user);
}

export function holding({ judge, tpuOf }: Lab, tpu: string): Job | undefined {
  return judge.jobs.find(({ id, settled }) => settled === null && tpuOf.get(id) === tpu);
}

// ------------------------------------------------------------------------------------------ `tpu __begin` and `tpu run`: the real rules of src/lab, with the world behind them

const stageLimit = 10;

/** How long a program may print nothing after a failed call between workers. */
export const hangGrace = 5 * minute;

const mount: SetupStep = { name: 'mount', key: 'mount-key', check: null, apply: 'true', files: [], timeout: minute };

/** The spec of a job of `tpu run`. `isEager`: the mistake of a rule that does more than its name says. */
export function specOf(tpu: LabTpu, rule: LabRule, directory: string, isEager: boolean): JobSpec {
  const spec = runSpec({
    directory,
    tag: null,
    capacity: standingSpec(tpu, { zones: [], remoteUser: null, privateKey: null }, { project: null }),
    steps: [mount],
    rule,
    monitor: true,
    stageLimit,
    hangGrace,
    written: '',
    launcher: ['jobman'],
    env: {},
  });
  return isEager ? { ...spec, recovery: { ...spec.recovery, rules: presets.pre } } : spec;
}

export interface Begin {
  /** Gives the attempt its window, ends what earlier ones have left, and says what to run. */
  begin(job: string, attempt: number): Promise<Begun>;
  /** Ends what the attempts of that job, up to this one, have left on its workers; false where a worker did not answer. */
  tidy(job: string, attempt: number): Promise<boolean>;
}

export function createBegin(parts: {
  readonly record: LabRecord;
  readonly desk: Pick<PretendDesk, 'end'>;
  readonly timeline: Timeline;
  readonly now: () => number;
  readonly jobOf: (id: string) => Promise<Job | null>;
  readonly tpuOf: (job: string) => LabTpu;
  /** Whether checkpoints are seen in that log folder. */
  readonly hasCheckpoints: (logFolder: string) => boolean;
}): Begin {
  const { record, desk, timeline } = parts;

  async function tidy(job: string, attempt: number): Promise<boolean> {
    const labJob = await record.job(job);
    if (labJob === null) return true;
    const { jobs } = await familiesOf(record, [labJob]);
    const line = lineOf({ jobs }, { job, attempt });
    const windows = await record.windows({ jobs: [...jobs.keys()], cleared: true });
    const before = windows.filter(({ window }) =>
      line.some((one) => one.job === window.job && one.attempt === window.attempt),
    );
    const folders = foldersOf(before, labJob.tpu);
    if (folders.length === 0) return true;
    const { missed, left } = await desk.end(parts.tpuOf(job), { folders, pids: [], graceMs: 10 * second });
    return missed.length === 0 && left.length === 0;
  }

  return {
    tidy,
    async begin(job, attempt) {
      const opened = await record.openWindow(job, attempt, parts.now());
      for (let tries = 0; !(await tidy(job, attempt)); tries += 1) {
        if (tries === 20) throw new Error('return code [255]');
        await timeline.pause(30 * second);
      }
      const families = await familiesOf(record, [opened.job]);
      const jobs = new Map<string, Job | null>();
      for (const id of families.jobs.keys()) jobs.set(id, await parts.jobOf(id));
      const { args, from, stage } = courseOf({
        job: opened.job,
        attempt,
        families,
        jobOf: (id) => jobs.get(id) ?? null,
        hasCheckpoints: (folder) => parts.hasCheckpoints(folder),
      });
      const said = (key: string): string | null =>
        args.find((arg) => arg.startsWith(`--config.${key}=`))?.slice(`--config.${key}=`.length) ?? null;
      const loadFrom = said('load_from');
      if (loadFrom !== (from?.logFolder ?? null)) throw new Error('a course says two things');
      const told = said('stage');
      if (told !== null && told !== `${stage}`) throw new Error('a course counts two ways');
      return {
        session: opened.session,
        window: opened.window.window,
        loadFrom,
        stage: told === null ? null : Number(told),
      };
    },
  };
}
