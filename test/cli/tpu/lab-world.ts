/**
 * A lab for tests of the `tpu` command: the real record in memory, with a few people and TPUs in it, and the pretended rest of
 * the program. What a test needs of tmux, clouds and sheets it hands in.
 */
import type { Lab, LabServices } from '../../../src/lab/lab.ts';
import type { LabTpu } from '../../../src/lab/tpus.ts';
import { run } from '../../../src/cli/run.ts';
import { runTpu } from '../../../src/cli/tpu/run-tpu.ts';
import { openStore } from '../../../src/store/store.ts';
import type { LabAttempt, LabRecord } from '../../../src/lab/record.ts';
import type { LabJob } from '../../../src/lab/windows.ts';
import { aLabJob, aUser, noon } from '../../lab/sample.ts';
import { localSpec } from '../../support/builders.ts';
import { pretend, type PretendOptions } from '../support/pretend.ts';

export interface LabWorld {
  readonly record: LabRecord;
  /** Jobs that were to be looked at now, in order. */
  readonly lookedAt: string[];
  /** A job of that user with its first attempt's window: that of `xibo` first is 1, of job 000001. */
  readonly job: (user: string, changes?: Partial<LabJob>) => Promise<LabAttempt>;
  /** One command, from its words to what it said. */
  readonly tpu: Door;
  /** The same of the other word that people type: `jobman`. */
  readonly jobman: Door;
}

type Door = (argv: readonly string[], options?: PretendOptions) => Promise<Said>;

export interface Said {
  readonly code: number;
  readonly out: string;
  readonly err: string;
  /** What the rest of the program was asked for. */
  readonly asked: readonly string[];
}

/** What the parts say that a test brought none of. */
const absent = (what: string) => (): Promise<never> => Promise.reject(new Error(`this test has no ${what}`));

/** A lab in memory. It is gone when the test drops it: nothing has to be closed. */
export function openLabWorld(parts: Partial<Lab> = {}): LabWorld {
  const store = openStore({ file: ':memory:' });
  const { lab: record } = store;
  const lookedAt: string[] = [];
  const lab: Lab = {
    record,
    site: absent('site'),
    sheet: absent('booking sheet'),
    tpus: absent('desk of TPUs'),
    windows: absent('tmux'),
    expectOriginal: async () => undefined,
    async lookNow(jobs) {
      lookedAt.push(...jobs);
      return null;
    },
    // The record outlives one command.
    close: async () => {},
    ...parts,
  };
  async function said(enter: typeof runTpu, argv: readonly string[], options: PretendOptions = {}): Promise<Said> {
    const world = pretend({ cwd: import.meta.dirname, ...options });
    const services: LabServices = { ...world.services, lab: async () => lab, labHome: absent('home of a group') };
    const code = await enter(argv, services);
    return { code, out: world.out(), err: world.err(), asked: world.asked };
  }
  return {
    record,
    lookedAt,
    async job(user, changes) {
      const { job } = await store.insert({ owner: user, spec: localSpec(), manifest: '', at: noon });
      await record.addJob(aLabJob(job.id, user, changes));
      return record.openWindow(job.id, 1, noon);
    },
    tpu: (argv, options) => said(runTpu, argv, options),
    jobman: (argv, options) => said(run, argv, options),
  };
}

/** A TPU as registries know them. */
export function aTpu(name: string, changes: Partial<LabTpu> = {}): LabTpu {
  return {
    name,
    project: null,
    zone: 'europe-west4-a',
    accelerator: 'v2-32',
    pricing: 'ondemand',
    runtimeVersion: null,
    ...changes,
  };
}

/** The same with xibo (0) and lyy (1), and v2-32-6 and v2-32-p1. */
export async function openUsualLab(parts: Partial<Lab> = {}): Promise<LabWorld> {
  const world = openLabWorld(parts);
  const { record } = world;
  await record.addUser(aUser('xibo'));
  await record.addUser(aUser('lyy'));
  for (const [alias, name] of [
    ['v2-32-6', 'kmh-tpuvm-v2-32-6'],
    ['v2-32-p1', 'kmh-tpuvm-v2-32-preemptible-1'],
  ] as const) {
    await record.changeTpu(name, () => aTpu(name));
    await record.setTpuAlias(alias, name);
  }
  return world;
}
