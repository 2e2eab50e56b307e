// Lab parts: everything that a story of a lab consists of, for its people and its storm.

import type { Clock } from '../src/app/ports.ts';
import type { Job } from '../src/core/job.ts';
import type { LabRecord } from '../src/lab/record.ts';
import type { Chance } from './chance.ts';
import type { Sky } from './cloud.ts';
import type { Client, Controllers } from './controllers.ts';
import type { createBegin } from './lab-begin.ts';
import type { LabJudge } from './lab-laws.ts';
import type { LabNature, LabPlan, LabSize } from './lab-people.ts';
import type { createDesk, Programs } from './lab-tpus.ts';
import type { Judge } from './laws.ts';
import type { Host, World } from './world.ts';

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
  /** The TPU of each job. */
  readonly tpuOf: Map<string, string>;
  readonly tpus: ReadonlyMap<string, LabPlan['tpus'][number]>;
  /** The machine that scripts and controllers run on. */
  readonly login: Host;
  readonly people: Chance;
  readonly storm: Chance;
  /** True until no user wants anything new. */
  isLife: boolean;
}

/** The value of that name. Throws without one: the story is wrong. */
export function known<Value>(map: ReadonlyMap<string, Value>, name: string): Value {
  const value = map.get(name);
  if (value === undefined) throw new Error(`the lab knows no ${name}`);
  return value;
}

/** The jobs of that user. */
export function jobsOf({ judge }: Lab, user: string): readonly Job[] {
  return judge.jobs.filter(({ owner }) => owner === user);
}

/** The job that holds that TPU now. */
export function holding({ judge, tpuOf }: Lab, tpu: string): Job | undefined {
  return judge.jobs.find(({ id, settled }) => settled === null && tpuOf.get(id) === tpu);
}
