// A lab with jobs for tests of the `tpu` command: the real record and the real client over it, with a controller that only ends
// what its owner wants ended, TPUs that the test says the state of, and windows that are only numbers.

import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Client } from '../../../src/app/client.ts';
import { createClient } from '../../../src/app/jobman.ts';
import type { Store } from '../../../src/app/ports.ts';
import { defaultSettings, defaultLabSettings } from '../../../src/app/settings.ts';
import { runTpu } from '../../../src/cli/tpu/run-tpu.ts';
import type { Job, Settled } from '../../../src/core/job.ts';
import { tpuNamed } from '../../../src/lab/tpus.ts';
import { type BookingSheet, createRecordSheet } from '../../../src/lab/bookings.ts';
import { siteOf } from '../../../src/lab/site.ts';
import type { LabRecord } from '../../../src/lab/record.ts';
import type { EndRequest, Holder, TpuDesk, TpuState } from '../../../src/lab/tpu-desk.ts';
import { openStore } from '../../../src/store/store.ts';
import { aUser } from '../../lab/sample.ts';
import { ended, living, ready, running } from '../../support/builders.ts';
import { openWorld, type Scope } from '../../support/world.ts';
import { now, pretend } from '../support/pretend.ts';
import { aLab, said, type Door } from './lab-world.ts';

export const terminal = { columns: 120, rows: 30 };

export interface JobWorld {
  readonly folder: string;
  readonly record: LabRecord;
  readonly store: Store;
  readonly client: Client;
  /** How each TPU is, by its name; ready where nothing is said. */
  readonly states: Map<string, TpuState>;
  readonly holders: Map<string, Holder[]>;
  /** TPUs of which a worker does not answer. */
  readonly silent: Set<string>;
  /** What was done to TPUs and windows, in order. */
  readonly done: string[];
  /** Windows of ours in tmux by session; null where the session is not there. */
  readonly windows: Map<string, number[]>;
  /** The sheet that the commands are given; the record's own at first. */
  sheet: () => Promise<BookingSheet>;
  readonly tpu: Door;
  /** Runs a job of that user, which must go well, and answers its id and window. */
  run(...argv: string[]): Promise<{ readonly id: string; readonly window: number }>;
  /** Its attempts so far ended, and the job came out like that. */
  settles(id: string, verdict: Settled['verdict'], attempts?: number): Promise<void>;
}

const site = {
  ...siteOf(defaultLabSettings, { home: '/', userHome: '/' }),
  zones: ['us-central2-b'],
  namePrefix: 'kmh-tpuvm-',
};

export async function openJobWorld(scope: Scope): Promise<JobWorld> {
  const { folder, home } = openWorld(scope);
  mkdirSync(home, { recursive: true });
  const store = openStore({ file: ':memory:' });
  const { lab: record } = store;
  const client = createClient({
    store,
    home,
    owner: 'alice',
    logFiles: { note: async () => undefined, mirror: async () => undefined },
    now: () => now,
    pricePerHour: () => null,
    freeze: () => Promise.reject(new Error('nobody copies a folder here')),
    slots: async () => 2,
    hint: async () => undefined,
    wake: async () => {
      await endWhatIsToEnd(store);
      return null;
    },
  });
  const states = new Map<string, TpuState>();
  const holders = new Map<string, Holder[]>();
  const silent = new Set<string>();
  const windows = new Map<string, number[]>();
  const done: string[] = [];
  const world: JobWorld = {
    folder,
    record,
    store,
    client,
    states,
    holders,
    silent,
    windows,
    done,
    sheet: async () => createRecordSheet(record, () => now),
    async tpu(argv, options = {}) {
      const lab = aLab(record, {
        site: async () => site,
        sheet: () => world.sheet(),
        tpus: async () => desk,
        windows: async () => ({
          tmux: { path: '/usr/bin/tmux', version: '3' },
          shower: () => [],
          open: async () => null,
          list: async (session) => windows.get(session) ?? null,
          async close({ session, window }) {
            const before = windows.get(session) ?? [];
            windows.set(
              session,
              before.filter((one) => one !== window),
            );
            done.push(`close ${session}:${window}`);
            return before.includes(window);
          },
        }),
      });
      const usual = defaultSettings(2);
      const settings = { ...usual, tpu: { ...usual.tpu, project: 'lab' } };
      const rest = pretend({
        cwd: folder,
        ...options,
        services: { home, client: async () => client, settings: async () => settings, ...options.services },
      });
      return said(runTpu, lab, argv, rest);
    },
    async run(...argv) {
      const said = await world.tpu(['run', ...argv]);
      const [, window, id] = /^Window (\d+): job (\d{6})/m.exec(said.out) ?? [];
      assert.ok(said.code === 0 && id !== undefined, said.out + said.err);
      return { id, window: Number(window) };
    },
    async settles(id, verdict, attempts = 1) {
      const stored = await store.load(id);
      assert.ok(stored);
      const reason = verdict === 'succeeded' ? 'succeeded' : verdict === 'failed' ? 'command_failed' : 'stopped';
      const tries = Array.from({ length: attempts }, () => ({
        ...running,
        ...ended(reason, { detail: '' }),
        allocation: 1,
      }));
      const life = living(stored.job, [ready], tries);
      await commit(store, stored.revision, { ...life, settled: { at: now, verdict, reason } });
    },
  };
  const desk: TpuDesk = {
    describe: async ({ name }) =>
      states.get(name) ?? { kind: 'known', state: 'ready', zone: 'us-central2-b', workers: 4 },
    async apply({ name }) {
      done.push(`apply ${name}`);
    },
    async reapply({ name }) {
      done.push(`reapply ${name}`);
    },
    async delete({ name }) {
      done.push(`delete ${name}`);
      return true;
    },
    async restart() {},
    onWorkers: async () => [],
    holders: async ({ name }) => ({ holders: holders.get(name) ?? [], missed: [] }),
    async end({ name }, { folders, pids }: EndRequest) {
      done.push(`end on ${name}: ${[...folders, ...pids.map(({ worker, pid }) => `${worker}/${pid}`)].join(' ')}`);
      const all = holders.get(name) ?? [];
      const isMeant = (one: Holder): boolean =>
        pids.some(({ worker, pid }) => one.worker === worker && one.pid === pid);
      holders.set(
        name,
        all.filter((one) => !isMeant(one)),
      );
      const missed = silent.has(name) ? [{ worker: 1, says: 'no route' }] : [];
      return { ended: all.filter(isMeant), left: [], missed };
    },
    close: () => undefined,
  };
  for (const name of ['xibo', 'lyy']) {
    const code = join(folder, name);
    mkdirSync(code);
    writeFileSync(join(code, 'staging.sh'), 'true\n');
    await record.addUser(aUser(name, { directories: { 1: code, 2: join(folder, 'gone') } }));
  }
  for (const [alias, name] of [
    ['v2-32-6', 'kmh-tpuvm-v2-32-6'],
    ['v2-32-7', 'kmh-tpuvm-v2-32-7'],
    ['v2-32-p1', 'kmh-tpuvm-v2-32-preemptible-1'],
  ] as const) {
    await record.changeTpu(name, () => tpuNamed(name));
    await record.setTpuAlias(alias, name);
  }
  return world;
}

async function endWhatIsToEnd(store: Store): Promise<void> {
  const { jobs } = await store.list({ settledMost: 0 });
  for (const { id } of jobs) {
    const stored = await store.load(id);
    if (stored === undefined || stored.job.desired === 'run') continue;
    const settled: Settled = { at: now, verdict: stored.job.cancelled ? 'cancelled' : 'stopped', reason: 'stopped' };
    await commit(store, stored.revision, { ...stored.job, settled, removed: stored.job.desired === 'delete' });
  }
}

async function commit(store: Store, revision: number, job: Job): Promise<void> {
  const result = await store.commit({ job, revision, events: [], folded: [], wakeAt: null, epoch: null });
  assert.equal(result, 'committed');
}
