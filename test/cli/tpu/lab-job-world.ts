// A lab with jobs for tests of the `tpu` command: a real store and client, a controller that only ends jobs, TPUs in the
// states that the test sets, and windows that are only numbers.

import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Client } from '../../../src/app/client.ts';
import { clientFor } from '../../../src/app/store-client.ts';
import { createServerLab } from '../../../src/lab/server-lab.ts';
import type { Lab } from '../../../src/lab/lab.ts';
import { serveLab } from './serve-lab.ts';
import type { Store } from '../../../src/app/ports.ts';
import { defaultSettings } from '../../../src/app/settings.ts';
import { runTpu } from '../../support/output-schema.ts';
import type { Actor } from '../../../src/core/model/user.ts';
import type { Event } from '../../../src/core/model/event.ts';
import type { Job, Finish } from '../../../src/core/model/job.ts';
import { operationOf } from '../../../src/core/model/spec.ts';
import { type BookingSheet, createLocalSheet } from '../../../src/lab/bookings.ts';
import { type Site, siteOf } from '../../../src/lab/site.ts';
import type { LabStore } from '../../../src/lab/lab-store.ts';
import type { DeviceHolder } from '../../../src/app/lab-job.ts';
import type { EndRequest, TpuOperations, TpuState } from '../../../src/lab/tpu-operations.ts';
import { openStore } from '../../../src/store/store.ts';
import { aUser } from '../../support/lab-builders.ts';
import { aMember, endedAttempt, withAttempts, readyAllocation, runningAttempt } from '../../support/builders.ts';
import { overJson } from '../../contract/over-json.ts';
import { clientParts } from '../../support/client-parts.ts';
import { openWorld, type Scope } from '../../support/world.ts';
import { now, createCliHarness } from '../support/harness.ts';
import { aLab, runCli, type RunCli } from './lab-world.ts';

export const terminal = { columns: 120, rows: 30 };

export interface LabJobWorld {
  readonly folder: string;
  readonly labStore: LabStore;
  readonly store: Store;
  readonly client: Client;
  /** By TPU name; the default is ready. */
  readonly tpuStates: Map<string, TpuState>;
  readonly holders: Map<string, DeviceHolder[]>;
  /** TPUs with a worker that does not answer. */
  readonly unreachableTpus: Set<string>;
  /** Actions on TPUs and windows, in order. */
  readonly actions: string[];
  /** Our tmux windows by session. */
  readonly windows: Map<string, number[]>;
  site: Site;
  project: () => Promise<string>;
  /** The booking sheet; by default the table of the database. */
  sheet: () => Promise<BookingSheet>;
  readonly tpu: RunCli;
  /** Runs a job and asserts that it was created. */
  run(...argv: string[]): Promise<{ readonly id: string; readonly window: number }>;
  /** Ends all attempts and finishes the job. */
  finishJob(id: string, verdict: Finish['verdict'], attempts?: number): Promise<void>;
}

const site = {
  ...siteOf(defaultSettings(1).lab, { home: '/', userHome: '/' }),
  zones: ['us-central2-b'],
  namePrefix: 'kmh-tpuvm-',
};

/** As `openLabJobWorld`, with the client and the lab of a server. */
export function openServerLabJobWorld(scope: Scope): Promise<LabJobWorld> {
  return openLabJobWorld(scope, serveLab);
}

export async function openLabJobWorld(scope: Scope, serve?: typeof serveLab): Promise<LabJobWorld> {
  const { folder, home } = openWorld(scope);
  mkdirSync(home, { recursive: true });
  const store = openStore({ file: ':memory:' });
  const { lab: labStore } = store;
  const parts = clientParts(home, store, {
    logFiles: { note: async () => undefined, mirror: async () => undefined },
    now: () => now,
    wakeController: async () => {
      await finishRequestedJobs(store, actions);
      return null;
    },
  });
  let labHere: Lab | undefined;
  const served = await serve?.(scope, parts, () => labHere ?? assert.fail('no command has begun'));
  const clientOf = (actor: Actor): Client => served?.(actor) ?? overJson(clientFor(async () => actor, parts));
  const client = clientOf(aMember('alice'));
  const tpuStates = new Map<string, TpuState>();
  const holders = new Map<string, DeviceHolder[]>();
  const unreachableTpus = new Set<string>();
  const windows = new Map<string, number[]>();
  const actions: string[] = [];
  const world: LabJobWorld = {
    folder,
    labStore,
    store,
    client,
    tpuStates,
    holders,
    unreachableTpus,
    windows,
    actions,
    site,
    project: async () => 'lab',
    sheet: async () => createLocalSheet(labStore, () => now),
    async tpu(argv, options = {}) {
      const lab = aLab(labStore, {
        site: async () => world.site,
        project: () => world.project(),
        sheet: () => world.sheet(),
        tpus: async () => operations,
        tmuxWindows: async () => ({
          tmux: { path: '/usr/bin/tmux', version: '3' },
          viewerCommand: () => [],
          open: async () => null,
          list: async (session) => windows.get(session) ?? null,
          async close({ session, window }) {
            const before = windows.get(session) ?? [];
            windows.set(
              session,
              before.filter((one) => one !== window),
            );
            actions.push(`close ${session}:${window}`);
            return before.includes(window);
          },
        }),
      });
      const defaults = defaultSettings(2);
      const settings = { ...defaults, tpu: { ...defaults.tpu, project: 'lab' } };
      const harness = createCliHarness({
        cwd: folder,
        ...options,
        services: { home, client: async () => client, settings: async () => settings, ...options.services },
      });
      labHere = lab;
      const isHook = argv[0]?.startsWith('__') === true;
      // This machine has its folders and windows too.
      const used =
        served === undefined || isHook ? lab : { ...createServerLab(served(aMember('alice')).lab), isOnServer: false };
      return runCli(runTpu, used, argv, harness, clientOf);
    },
    async run(...argv) {
      const result = await world.tpu(['run', ...argv]);
      const [, window, id] = /^Window (\d+): job (\d{6})/m.exec(result.out) ?? [];
      assert.ok(result.code === 0 && id !== undefined, result.out + result.err);
      return { id, window: Number(window) };
    },
    async finishJob(id, verdict, attempts = 1) {
      const stored = await store.load(id);
      assert.ok(stored);
      const reason = verdict === 'succeeded' ? 'succeeded' : verdict === 'failed' ? 'command_failed' : 'stopped';
      const ended = Array.from({ length: attempts }, () => ({
        ...runningAttempt,
        ...endedAttempt(reason, { message: '' }),
        allocation: 1,
      }));
      const started = withAttempts(stored.job, [readyAllocation], ended);
      await commit(store, stored.revision, { ...started, finish: { at: now, verdict, reason } });
    },
  };
  const operations: TpuOperations = {
    describe: async ({ name }) =>
      tpuStates.get(name) ?? { kind: 'known', state: 'ready', zone: 'us-central2-b', workers: 4 },
    onWorkers: async () => [],
    holders: async ({ name }) => ({ holders: holders.get(name) ?? [], unreachable: [] }),
    async endPrograms({ name }, { folders, pids }: EndRequest) {
      actions.push(`end on ${name}: ${[...folders, ...pids.map(({ worker, pid }) => `${worker}/${pid}`)].join(' ')}`);
      const all = holders.get(name) ?? [];
      const isListed = (one: DeviceHolder): boolean =>
        pids.some(({ worker, pid }) => one.worker === worker && one.pid === pid);
      holders.set(
        name,
        all.filter((one) => !isListed(one)),
      );
      const unreachable = unreachableTpus.has(name) ? [{ worker: 1, message: 'no route' }] : [];
      return { ended: all.filter(isListed), left: [], unreachable };
    },
    close: () => undefined,
  };
  for (const name of ['xibo', 'lyy']) {
    const code = join(folder, name);
    mkdirSync(code);
    writeFileSync(join(code, 'staging.sh'), 'true\n');
    await labStore.addUser(aUser(name, { directories: { 1: code, 2: join(folder, 'gone') } }));
  }
  for (const [alias, name] of [
    ['v2-32-6', 'kmh-tpuvm-v2-32-6'],
    ['v2-32-7', 'kmh-tpuvm-v2-32-7'],
    ['v2-32-p1', 'kmh-tpuvm-v2-32-preemptible-1'],
  ] as const) {
    await labStore.changeTpu(name, { kind: 'register', facts: {} });
    await labStore.setTpuAlias(alias, name);
  }
  return world;
}

/** Ends the jobs whose end was requested, and the operations, which are actions. */
async function finishRequestedJobs(store: Store, actions: string[]): Promise<void> {
  const { jobs } = await store.list({ maxFinished: 0 });
  for (const { id } of jobs) {
    const stored = await store.load(id);
    if (stored === undefined) continue;
    const { spec } = stored.job;
    if (stored.job.desired === 'running') {
      const operation = operationOf(spec);
      if (operation === undefined || operation.withCommand === true || spec.capacity.kind !== 'tpu') continue;
      const { after } = stored.job.startRequest ?? {};
      const begins = after === undefined ? '' : ` after ${after.join()}`;
      actions.push(`${spec.name.replace(`-${spec.capacity.name}`, ` ${spec.capacity.name}`)}${begins}`);
      const finish: Finish = { at: now, verdict: 'succeeded', reason: 'succeeded' };
      const seen = { kind: 'allocation_seen', at: now, allocation: 1, state: 'ready', message: 'ready' } as const;
      const ended = withAttempts(
        stored.job,
        [readyAllocation],
        [{ ...runningAttempt, ...endedAttempt('succeeded', { message: '' }), allocation: 1 }],
      );
      await commit(store, stored.revision, { ...ended, finish }, [seen]);
      continue;
    }
    const finish: Finish = {
      at: now,
      verdict: stored.job.cancelRequested ? 'cancelled' : 'stopped',
      reason: 'stopped',
    };
    await commit(store, stored.revision, { ...stored.job, finish, removed: stored.job.desired === 'deleted' });
  }
}

async function commit(
  store: Store,
  revision: number,
  job: Job & { readonly finish: Finish },
  before: readonly Event[] = [],
): Promise<void> {
  const events: readonly Event[] = [...before, { kind: 'finished', ...job.finish }];
  const result = await store.commit({ job, revision, events, foldedOutcomes: [], wakeAt: null, epoch: null });
  assert.equal(result, 'committed');
}
