// A lab for tests of the `tpu` command: the real record in memory, with a few people and TPUs in it, and the pretended rest of
// the program. What a test needs of tmux, clouds and sheets it hands in.

import type { Lab, LabServices } from '../../../src/lab/lab.ts';
import { run } from '../../../src/cli/run.ts';
import { runTpu } from '../../../src/cli/tpu/run-tpu.ts';
import { openStore } from '../../../src/store/store.ts';
import type { WindowWithJob, LabJob, LabStore } from '../../../src/lab/lab-store.ts';
import { aLabJob, aTpu, aUser, noon } from '../../lab/sample.ts';
import { localSpec } from '../../support/builders.ts';
import { createCliHarness, type CliHarness, type CliHarnessOptions } from '../support/harness.ts';

export { aTpu };

export interface LabWorld {
  readonly record: LabStore;
  /** Jobs that were to be looked at now, in order. */
  readonly checkedJobs: string[];
  /** A job of that user with its first attempt's window: that of `xibo` first is 1, of job 000001. */
  readonly job: (user: string, changes?: Partial<LabJob>) => Promise<WindowWithJob>;
  /** One command, from its words to what it said. */
  readonly tpu: RunCli;
  /** The same of the other word that people type: `jobman`. */
  readonly jobman: RunCli;
}

export type RunCli = (argv: readonly string[], options?: CliHarnessOptions) => Promise<CliResult>;

export interface CliResult {
  readonly code: number;
  readonly out: string;
  readonly err: string;
  /** What the rest of the program was asked for. */
  readonly commands: readonly string[];
}

/** What the parts say that a test brought none of. */
export const unavailable = (what: string) => (): Promise<never> =>
  Promise.reject(new Error(`this test has no ${what}`));

/** A lab over that record. What a test does not bring is not there. */
export function aLab(record: LabStore, parts: Partial<Lab> = {}): Lab {
  return {
    store: record,
    site: unavailable('site'),
    sheet: unavailable('booking sheet'),
    tpus: unavailable('desk of TPUs'),
    tmuxWindows: unavailable('tmux'),
    checkNow: async () => null,
    assertOriginalHome: async () => undefined,
    // The record outlives one command.
    close: async () => undefined,
    ...parts,
  };
}

/** Runs one command of `tpu` or of `jobman` in that lab, with the pretended rest of the program. */
export async function runCli(
  runProgram: typeof runTpu,
  lab: Lab,
  argv: readonly string[],
  harness: CliHarness,
): Promise<CliResult> {
  const code = await runProgram(argv, servicesOf(lab, harness));
  return { code, out: harness.out(), err: harness.err(), commands: harness.commands };
}

/** What a command printed with --json, an object a line. */
export function jsonLines<T>(out: string): readonly T[] {
  return out.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line) as T]));
}

/** The services of a command in that lab. */
export function servicesOf(lab: Lab, { services }: CliHarness): LabServices {
  return { ...services, lab: async () => lab, labHome: unavailable('home of a group') };
}

/** A lab in memory. It is gone when the test drops it: nothing has to be closed. */
export function openLabWorld(parts: Partial<Lab> = {}): LabWorld {
  const store = openStore({ file: ':memory:' });
  const { lab: record } = store;
  const checkedJobs: string[] = [];
  const lab = aLab(record, {
    async checkNow(jobs) {
      checkedJobs.push(...jobs);
      return null;
    },
    ...parts,
  });
  const harnessFor = (options: CliHarnessOptions = {}): CliHarness =>
    createCliHarness({ cwd: import.meta.dirname, ...options });
  return {
    record,
    checkedJobs,
    async job(user, changes) {
      const { job } = await store.insert({ owner: user, spec: localSpec(), manifest: '', at: noon });
      await record.addJob(aLabJob(job.id, user, changes));
      return record.openWindow(job.id, 1, noon);
    },
    tpu: (argv, options) => runCli(runTpu, lab, argv, harnessFor(options)),
    jobman: (argv, options) => runCli(run, lab, argv, harnessFor(options)),
  };
}

/** The same with xibo (0) and lyy (1), and v2-32-6 and v2-32-p1. */
export async function openSampleLab(parts: Partial<Lab> = {}): Promise<LabWorld> {
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
