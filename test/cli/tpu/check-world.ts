// A lab with jobs in the states that a test sets, and their logs in a temporary home, for tests of `tpu check` and
// `tpu monitor`. Store, files, parsing and output are real.

import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { attemptFile, jobFolder } from '../../../src/files/job-folder.ts';
import { defaultSettings } from '../../../src/app/settings.ts';
import { runTpu } from '../../support/output-schema.ts';
import { minute } from '../../../src/core/model/time.ts';
import type { AllocationFields, Attempt, Job } from '../../../src/core/model/job.ts';
import type { LabUser } from '../../../src/lab/users.ts';
import type { LabJob } from '../../../src/lab/lab-store.ts';
import { siteOf } from '../../../src/lab/site.ts';
import { openStore } from '../../../src/store/store.ts';
import { withAttempts, localSpec, tpuSpec } from '../../support/builders.ts';
import { aLabJob, aReport, aUser, noon } from '../../support/lab-builders.ts';
import { openWorld, type Scope } from '../../support/world.ts';
import { createCliHarness, type CliHarness, type CliHarnessOptions } from '../support/harness.ts';
import { aLab, runCli, servicesOf, type RunCli } from './lab-world.ts';

export type CheckWorld = Awaited<ReturnType<typeof openCheckWorld>>;

export interface CheckJobOptions {
  readonly attempts: readonly Partial<Attempt>[];
  readonly allocations?: readonly Partial<AllocationFields>[];
  readonly job?: Partial<Job>;
  readonly labJob?: Partial<LabJob>;
  /** `lab.hangGraceMs` of the settings; default: no limit. */
  readonly hangGrace?: number;
  /** The number of attempts with a window; default: all. */
  readonly windows?: number;
  /** True (the default) if their scripts have called upd-log. */
  readonly isReported?: boolean;
}

const persistent = { ownership: 'persistent', pricing: 'preemptible' } as const;

export async function openCheckWorld(scope: Scope, user: Partial<LabUser> = {}) {
  const { home, folder } = openWorld(scope);
  const store = openStore({ file: ':memory:' });
  const { lab: labStore } = store;
  await labStore.addUser(aUser('ada', user));
  let tpus = 0;
  const site = siteOf({ ...defaultSettings(1).lab, namePrefix: 'kmh-tpuvm-' }, { home, userHome: folder });
  const lab = aLab(labStore, { site: async () => site, home });
  async function becomes(id: string, changes: (job: Job) => Job): Promise<void> {
    const stored = await store.load(id);
    if (stored === undefined) throw new Error(`there is no job ${id}`);
    const { job, revision } = stored;
    await store.commit({ job: changes(job), revision, events: [], foldedOutcomes: [], wakeAt: null, epoch: null });
  }
  const harnessFor = (options: CliHarnessOptions): CliHarness =>
    createCliHarness({ cwd: folder, ...options, services: { home, ...options.services } });
  return {
    home,
    labStore,
    becomes,
    /** Adds a job of ada with these attempts. */
    async job({
      attempts,
      allocations = [{}],
      job = {},
      labJob = {},
      hangGrace,
      windows = attempts.length,
      isReported = true,
    }: CheckJobOptions): Promise<string> {
      const { limits } = localSpec();
      tpus += 1;
      const spec = localSpec({
        ...(hangGrace !== undefined && { limits: { ...limits, failedCallTimeoutMs: hangGrace } }),
        // One persistent TPU runs one job.
        capacity: tpuSpec({}, { ...persistent, name: `lab-${tpus}` }).capacity,
        command: { ...localSpec().command, runsOn: 'controller' },
        recovery: { ...tpuSpec().recovery, budget: { preemptions: 10, failures: 10, setupFailures: 3 } },
      });
      const inserted = await store.insert({ owner: 'ada', spec, manifest: '', at: noon });
      const { id } = inserted.job;
      await becomes(id, (now) => ({
        ...withAttempts(
          now,
          allocations,
          attempts.map((one) => ({ allocation: 1, ...one })),
        ),
        ...job,
      }));
      await labStore.addJob(aLabJob(id, 'ada', labJob));
      for (let attempt = 1; attempt <= windows; attempt += 1) {
        const { session, window } = await labStore.openWindow(id, attempt, noon);
        if (isReported)
          await labStore.reportWindow(session, window.window, aReport(`/logs/${id}-${attempt}`, '/staging'));
      }
      return id;
    },
    /** Writes the log of an attempt and returns its path. */
    log(id: string, attempt: number, text: string): string {
      const path = attemptFile(jobFolder(home, 'ada', id), attempt, 'controller');
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, text);
      return path;
    },
    tpu: ((argv, options = {}) => runCli(runTpu, lab, argv, harnessFor(options))) as RunCli,
    /** Starts a command that runs until it is interrupted. */
    begin(argv: readonly string[], options: CliHarnessOptions) {
      // The monitor waits for its next update, so the clock must advance.
      const began = performance.now();
      const harness = harnessFor({ now: () => noon + 100 * minute + (performance.now() - began), ...options });
      scope.after(async () => harness.signal());
      return { rest: harness, ends: runTpu(argv, servicesOf(lab, harness)) };
    },
  };
}
