// A world for the usage ledger: the TPU emulator's own world with its bill, on a clock that jumps from change to change,
// observed and changed by the real TPU backend, the real rules and the real store. Programs on workers are simulated.

import { join } from 'node:path';
import type { AllocationRef, Backend, Store } from '../../../src/app/ports.ts';
import {
  createTpuApi,
  classifyError,
  statusName,
  type StatusBody,
  type TpuApi,
} from '../../../src/backends/tpu/api.ts';
import { createTpuCapacity } from '../../../src/backends/tpu/capacity.ts';
import { createOrphanCollector } from '../../../src/controller/orphan-collector.ts';
import { applyCommand, type Verb } from '../../../src/core/decide/commands.ts';
import { reconcile } from '../../../src/core/decide/reconcile.ts';
import type { Action } from '../../../src/core/model/decision.ts';
import { lastAllocation, mayExist, openAttempt, type Job } from '../../../src/core/model/job.ts';
import {
  known,
  type AllocationStatus,
  type Observed,
  type Outcome,
  type RunStatus,
} from '../../../src/core/model/observation.ts';
import type { JobSpec } from '../../../src/core/model/spec.ts';
import { hour, minute, second } from '../../../src/core/model/time.ts';
import { CloudError, cloudErrors } from '../../../src/emulator/wire/errors.ts';
import { parseCall } from '../../../src/emulator/http/tpu/parse-call.ts';
import type { ApiVersion } from '../../../src/emulator/wire/messages.ts';
import { billOf } from '../../../src/emulator/world/bill.ts';
import { openBuckets } from '../../../src/emulator/world/buckets.ts';
import type { Database, Table } from '../../../src/emulator/world/database.ts';
import { handleEvent } from '../../../src/emulator/world/events.ts';
import { createWorld, type World } from '../../../src/emulator/world/world.ts';
import { usageOf, type UsageRow } from '../../../src/reports/usage.ts';
import { openStore } from '../../../src/store/store.ts';
import { createManualClock, type ManualClock } from '../../emulator/manual-clock.ts';

/** The behaviour of one attempt's program. */
export interface ProgramPlan {
  readonly durationMs: number;
  readonly exitCode: number;
}

interface Program {
  readonly job: string;
  readonly attempt: number;
  /** Ids of the nodes that it was started on. */
  readonly nodes: string;
  readonly startedAt: number;
  endsAt: number;
  exitCode: number;
}

/**
 * Faults of a call that changes something: it fails before its effect, or its reply is lost after it. `lateMs`, for a
 * request: a killed controller has sent it too, and that one takes effect late; the repeated one is refused.
 */
export type CallFault = 'fails' | 'reply_lost' | { readonly lateMs: number } | undefined;

export interface BilledWorldOptions {
  readonly seed: number;
  /** Null: an observation at each change. Otherwise at multiples of this time only. */
  readonly intervalMs: number | null;
  readonly planOf: (job: Job, attempt: number) => ProgramPlan;
  readonly callFault: () => CallFault;
}

export type BilledWorld = ReturnType<typeof createBilledWorld>;

/** Due times of jobs are rounded up to this, because the accuracy of the ledger needs no other observations. */
const wakeQuantum = minute;

export function createBilledWorld(options: BilledWorldOptions) {
  const { intervalMs } = options;
  const clock = createManualClock();
  const world = openEmulatorWorld(options.seed, clock);
  const store: Store = openStore({ file: ':memory:' });
  const planned: { readonly at: number; readonly call: () => Promise<void> | void }[] = [];
  const api = createApi(world, options.callFault, (lateMs, call) => planned.push({ at: clock.now() + lateMs, call }));
  const capacity = createTpuCapacity({
    apiFor: () => api,
    clock: { now: () => clock.now(), at: () => () => undefined },
    sshKeyLines: async () => 'key',
  });
  const backend: Backend = { capacity, machines: {} as Backend['machines'] };
  const collector = createOrphanCollector({
    store,
    backendOf: () => backend,
    clock: { now: () => clock.now(), at: () => () => undefined },
    mayAct: () => true,
    report: () => undefined,
    epoch: () => null,
  });
  const programs: Program[] = [];
  const outcomes = new Map<string, Outcome[]>();
  const wakeAt = new Map<string, number>();
  /** Dollars of persistent nodes while a job has an attempt there, by the world. */
  let persistentUsd = 0;
  let isChanged = true;
  world.onChange(() => {
    isChanged = true;
  });
  /** Called once for each node that becomes READY. */
  const readyListeners: ((node: { readonly name: string; readonly id: string }) => void)[] = [];
  const seenReady = new Set<string>();
  /** Number of READY periods by id of the node. */
  const readyPeriods = new Map<string, number>();
  const readyNow = new Set<string>();
  world.onChange(() => {
    for (const { id, state } of world.nodes.values()) {
      if (state !== 'READY') readyNow.delete(id);
      else if (!readyNow.has(id)) {
        readyNow.add(id);
        readyPeriods.set(id, (readyPeriods.get(id) ?? 0) + 1);
      }
    }
  });
  async function commit(
    before: { job: Job; revision: number },
    job: Job,
    events: Parameters<Store['commit']>[0]['events'],
  ): Promise<void> {
    if (job === before.job && events.length === 0) return;
    const result = await store.commit({
      job,
      revision: before.revision,
      events,
      foldedOutcomes: [],
      wakeAt: null,
      epoch: null,
    });
    if (result !== 'committed') throw new Error(`a commit is ${result}`);
  }

  function runsOn(job: Job, nodes: string): readonly RunStatus[] {
    return programs
      .filter((one) => one.job === job.id && one.nodes === nodes)
      .map(({ attempt, startedAt, endsAt, exitCode }): RunStatus =>
        clock.now() < endsAt
          ? { attempt, state: 'running', startedAt, outputAt: clock.now() }
          : { attempt, state: 'exited', exitCode, endedAt: endsAt },
      );
  }

  function nodesOf({ allocation }: AllocationRef): string {
    const found = world.nodes
      .values()
      .filter(({ nodeId }) => nodeId === allocation.name || nodeId.startsWith(`${allocation.name}-`));
    return found.map(({ id }) => id).join();
  }

  /** One pass over a job. True if it did anything. */
  async function pass(id: string): Promise<boolean> {
    const stored = await store.load(id);
    if (stored === undefined || stored.job.removed) return false;
    const { job } = stored;
    const now = clock.now();
    const asked = job.allocations.filter((one) => mayExist(one) || one === lastAllocation(job));
    const observed = await capacity.observe(asked.map((allocation) => ({ job, allocation })));
    const allocations = asked.map(({ ordinal }, index) => ({
      allocation: ordinal,
      observed: observed[index] ?? missingAnswer(),
    }));
    const newest = lastAllocation(job);
    const status = allocations.find((one) => one.allocation === newest?.ordinal)?.observed;
    const workers =
      newest !== undefined && status?.kind === 'known' && status.value.state === 'ready'
        ? (status.value.workers ?? 0)
        : 0;
    const nodes = newest === undefined ? '' : nodesOf({ job, allocation: newest });
    const decision = reconcile(
      job,
      {
        admitted: true,
        allocations,
        workers: Array.from({ length: workers }, (_, worker) => ({
          allocation: newest?.ordinal ?? 0,
          worker,
          observed: known({ bootId: nodes, proofs: [], runs: runsOn(job, nodes) }, now),
        })),
        outcomes: outcomes.get(id) ?? [],
      },
      now,
    );
    outcomes.delete(id);
    await commit(stored, decision.job, decision.events);
    for (const action of decision.actions) await perform(decision.job, action);
    wakeAt.set(id, decision.wakeAt ?? Infinity);
    return decision.events.length > 0 || decision.actions.length > 0;
  }

  async function perform(job: Job, action: Action): Promise<void> {
    const at = clock.now();
    const found = outcomes.get(job.id) ?? [];
    outcomes.set(job.id, found);
    switch (action.kind) {
      case 'request':
      case 'release': {
        const allocation = job.allocations[action.allocation - 1];
        if (allocation === undefined) return;
        const result = await capacity[action.kind]({ job, allocation });
        found.push({ subject: action, at: clock.now(), result });
        return;
      }
      case 'start': {
        const allocation = job.allocations[action.allocation - 1];
        if (allocation === undefined || programs.some((one) => one.job === job.id && one.attempt === action.attempt))
          return;
        const { durationMs, exitCode } = options.planOf(job, action.attempt);
        const nodes = nodesOf({ job, allocation });
        programs.push({
          job: job.id,
          attempt: action.attempt,
          nodes,
          startedAt: at,
          endsAt: at + durationMs,
          exitCode,
        });
        return;
      }
      case 'stop': {
        const program = programs.find((one) => one.job === job.id && one.attempt === action.attempt);
        if (program !== undefined && program.endsAt > at) {
          program.endsAt = action.signal === 'kill' ? at : Math.min(program.endsAt, at + 7 * second);
          program.exitCode = 143;
        }
        const { kind, attempt, worker, signal } = action;
        found.push({ subject: { kind, attempt, worker, signal }, at, result: { kind: 'done' } });
        return;
      }
      case 'step':
        throw new Error('the jobs of this world have no steps');
    }
  }

  const jobIds: string[] = [];

  let collected = { states: '', at: 0 };

  /** At each change of a node. Otherwise at the pace of the controller, because a deletion may fail for minutes. */
  async function collectIfDue(): Promise<void> {
    const states = world.nodes.values().map(({ id, state }) => `${id} ${state}`);
    const now = { states: states.join(), at: clock.now() };
    if (now.states === collected.states && now.at < collected.at + minute) return;
    collected = now;
    await collector.collect();
  }

  /** Passes over all jobs, and orphan collection, until nothing changes at this time. */
  async function settle(): Promise<void> {
    for (let rounds = 0; rounds < 30; rounds += 1) {
      isChanged = false;
      let isBusy = false;
      for (const id of jobIds) if (await pass(id)) isBusy = true;
      await collectIfDue();
      for (const { name, id, state } of world.nodes.values()) {
        if (state !== 'READY' || seenReady.has(id)) continue;
        seenReady.add(id);
        for (const call of readyListeners) call({ name, id });
      }
      // Between two observations an interval passes.
      if (intervalMs !== null || (!isBusy && !isChanged)) return;
    }
  }

  function nextTime(end: number): number {
    const now = clock.now();
    const times = [end, ...planned.map(({ at }) => at)];
    if (intervalMs !== null) return Math.min(...times, now - (now % intervalMs) + intervalMs);
    for (const { at } of world.events.values()) times.push(at);
    for (const { endsAt } of programs) if (endsAt > now) times.push(endsAt);
    for (const at of wakeAt.values()) times.push(Math.ceil(Math.max(at, now + 1) / wakeQuantum) * wakeQuantum);
    return Math.max(now, Math.min(...times));
  }

  /** The dollars of persistent capacity per millisecond now: READY nodes without a job's label that an attempt uses. */
  async function persistentRate(): Promise<number> {
    let rate = 0;
    for (const id of jobIds) {
      const job = (await store.load(id))?.job;
      const attempt = job === undefined ? undefined : openAttempt(job);
      if (job === undefined || attempt === undefined || job.removed) continue;
      const { capacity: spec } = job.spec;
      if (spec.kind !== 'tpu' || spec.ownership !== 'persistent') continue;
      const node = world.nodes.values().find(({ nodeId }) => nodeId === spec.name);
      if (node?.state === 'READY') rate += (spec.pricePerHourUsd ?? 0) / hour;
    }
    return rate;
  }

  return {
    world,
    store,
    clock,
    api,
    readyPeriods,
    onReady: (call: (node: { readonly name: string; readonly id: string }) => void) => void readyListeners.push(call),
    plan: (at: number, call: () => Promise<void> | void) => void planned.push({ at, call }),
    async create(spec: JobSpec): Promise<string> {
      const { job } = await store.insert({ owner: 'ada', spec, manifest: '', at: clock.now() });
      jobIds.push(job.id);
      return job.id;
    },
    async command(
      id: string,
      verb: Verb,
      more: { readonly force?: boolean; readonly release?: boolean } = {},
    ): Promise<void> {
      const stored = await store.load(id);
      if (stored === undefined || stored.job.removed) return;
      const { job, events } = applyCommand(stored.job, verb, { by: 'ada', ...more }, clock.now());
      await commit(stored, job, events);
      wakeAt.set(id, clock.now());
    },
    async run(lengthMs: number): Promise<void> {
      const end = clock.now() + lengthMs;
      await settle();
      while (clock.now() < end) {
        const rate = await persistentRate();
        const from = clock.now();
        clock.advance(nextTime(end) - from);
        persistentUsd += rate * (clock.now() - from);
        const due = planned.filter(({ at }) => at <= clock.now());
        for (const one of due) {
          planned.splice(planned.indexOf(one), 1);
          await one.call();
        }
        if (intervalMs === null || clock.now() % intervalMs === 0) await settle();
      }
    },
    /** The bill of the emulator for nodes with a job's label, by the name of the node. */
    bill: () =>
      billOf(world).filter((_, index) => {
        const { name } = world.bills.values()[index] ?? { name: '' };
        return !name.includes('/shared-');
      }),
    persistentUsd: () => persistentUsd,
    usage: (): Promise<readonly UsageRow[]> => store.usage({}),
    async jobs(): Promise<readonly Job[]> {
      return (await store.loadMany(jobIds)).map(({ job }) => job);
    },
    costAt: (row: UsageRow): number => costOf(row, clock.now()),
    usageOf,
    close: () => store.close(),
  };
}

export function costOf({ from, until, pricePerHourUsd }: UsageRow, now: number): number {
  return (((until ?? now) - from) / hour) * (pricePerHourUsd ?? Number.NaN);
}

function missingAnswer(): Observed<AllocationStatus> {
  throw new Error('the backend answered for fewer allocations than asked');
}

// ------------------------------------------------------------------------------------------ the emulator

function openEmulatorWorld(seed: number, clock: ManualClock): World {
  const world = createWorld({
    database: createMemoryDatabase(),
    clock,
    speed: 1,
    seed,
    log: () => undefined,
    // No test here uses a bucket.
    buckets: openBuckets(join(import.meta.dirname, 'no-buckets')),
    isDown: () => true,
  });
  world.start((event) => handleEvent(world, event));
  return world;
}

function createMemoryDatabase(): Database {
  return {
    table<T>(): Table<T> {
      const records = new Map<string, T>();
      return {
        get: (key) => records.get(key),
        put: (key, record) => void records.set(key, record),
        remove: (key) => void records.delete(key),
        values: () => [...records.values()],
      };
    },
    commit: () => undefined,
    close: () => undefined,
  };
}

/** The API without HTTP. A list has one page. */
function createApi(
  world: World,
  callFault: () => CallFault,
  callLater: (afterMs: number, call: () => void) => void,
): TpuApi {
  function answer(method: string, path: string, body: unknown) {
    const [pathname = '', search = ''] = path.split('?');
    const [version, ...segments] = pathname.split('/').map(decodeURIComponent);
    const query = Object.fromEntries(new URLSearchParams(search));
    const call = parseCall({ version: version as ApiVersion, method, path: segments, query, body });
    if (call === undefined) throw new Error(`the emulator has no ${method} ${path}`);
    if (!call.changes) return call.answer(world);
    const fault = callFault();
    if (fault === 'fails') throw cloudErrors.unavailable();
    if (typeof fault === 'object') {
      // Users create shared TPUs, and a late one would take the name of one that a job recreates.
      if (method !== 'POST' || search.includes('shared-')) throw cloudErrors.unavailable();
      callLater(fault.lateMs, () => {
        // The zone may refuse this one too.
        tryAnswer(() => world.change(() => call.answer(world)));
      });
      throw cloudErrors.noCapacity(segments[3] ?? '', '');
    }
    const value = world.change(() => call.answer(world));
    if (fault === 'reply_lost') throw new LostReply();
    return value;
  }

  function tryAnswer<T>(read: () => T) {
    try {
      return { ok: true as const, value: read() };
    } catch (error) {
      if (error instanceof LostReply) {
        const message = 'no answer';
        return {
          ok: false as const,
          status: 'NO_ANSWER',
          error: { kind: 'unreachable' as const, message, raw: message },
        };
      }
      if (!(error instanceof CloudError)) throw error;
      const { error: status } = error.body() as { readonly error: StatusBody };
      return { ok: false as const, status: statusName(status), error: classifyError(status) };
    }
  }

  return createTpuApi({
    // A round trip through JSON, as over HTTP.
    call: async (method, path, body) =>
      tryAnswer(
        () =>
          JSON.parse(
            JSON.stringify(answer(method, path, body === undefined ? undefined : JSON.parse(JSON.stringify(body)))),
          ) as never,
      ),
    list: async (path, field) =>
      tryAnswer(() => {
        const page = JSON.parse(JSON.stringify(answer('GET', path, undefined))) as Readonly<Record<string, never[]>>;
        return { items: page[field] ?? [], unreachable: [] };
      }),
  });
}

class LostReply extends Error {}
