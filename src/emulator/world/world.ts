/**
 * The world: the tables, time, random stream and scheduled events that all parts of the emulator share. The other files
 * of this folder are functions over it. Each change is synchronous and ends with one commit, so a reader never sees
 * half a change, and neither does a kill -9.
 */

import type { Duration, Instant } from '../../core/model/time.ts';
import type { EmulatorClock } from '../contract.ts';
import { createRandomStream, type RandomStream } from './random.ts';
import type { Buckets } from './buckets.ts';
import type { Database, Table } from './database.ts';
import { changeNode, workerHostName } from './nodes.ts';
import { durationOf } from './options.ts';
import {
  healthyHost,
  type BillRecord,
  type FaultCondition,
  type ScheduledEvent,
  type HostFault,
  type NodeRecord,
  type OperationRecord,
  type ProjectRecord,
  type QueuedResourceRecord,
  type WorkerRecord,
} from './records.ts';

interface Globals {
  readonly randomState: number;
  /** The second number of the workers' addresses, 127.<octet>.y.z. */
  readonly octet: number;
  readonly nextAddress: number;
  readonly nextKey: number;
  readonly port: number;
  readonly sshPort: number;
  /** The hash of the fault schedule whose entries are in `events`. */
  readonly scheduleHash?: string;
}

export interface World {
  readonly speed: number;
  readonly random: RandomStream;
  readonly nodes: Table<NodeRecord>;
  readonly queued: Table<QueuedResourceRecord>;
  readonly operations: Table<OperationRecord>;
  readonly events: Table<ScheduledEvent>;
  readonly conditions: Table<FaultCondition>;
  /** The operation that answered a `requestId`, by method and id. */
  readonly requests: Table<{ readonly operation: string }>;
  readonly bills: Table<BillRecord>;
  readonly projects: Table<ProjectRecord>;
  /** Not a table, because workers change buckets too. */
  readonly buckets: Buckets;
  now(): Instant;
  log(line: string): void;
  /** Draws a duration of Google's cloud and divides it by the speed. */
  drawDuration(atLeast: Duration, atMost: Duration): Duration;
  eid(): string;
  /** A unique key; later keys sort after earlier ones. */
  newKey(): string;
  globals(): Globals;
  setGlobals(change: Partial<Globals>): void;
  schedule(length: Duration, event: NewEvent): void;
  /** True when no process of the node runs: only then may its record be removed. */
  isDown(node: NodeRecord): boolean;
  /** Runs a change, commits it, sets the timer and calls the listeners. Do not nest. */
  change<T>(body: () => T): T;
  onChange(call: () => void): void;
  /** Starts handling events, first those that became due while no emulator ran. */
  start(handle: (event: ScheduledEvent) => void): void;
  stop(): void;
}

type NewEvent = ScheduledEvent extends infer Each
  ? Each extends ScheduledEvent
    ? Omit<Each, 'key' | 'at'>
    : never
  : never;

export interface WorldOptions {
  readonly database: Database;
  readonly clock: EmulatorClock;
  readonly speed: number;
  readonly seed: number;
  readonly log: (line: string) => void;
  readonly buckets: Buckets;
  readonly isDown: (node: NodeRecord) => boolean;
}

export function createWorld(options: WorldOptions): World {
  const { database, clock } = options;
  const globalsTable = database.table<Globals>('globals');
  const first: Globals = { randomState: options.seed >>> 0, octet: 0, nextAddress: 2, nextKey: 1, port: 0, sshPort: 0 };
  const random = createRandomStream(globalsTable.get('globals')?.randomState ?? first.randomState);
  const listeners: (() => void)[] = [];
  let cancelTimer: (() => void) | undefined;
  let handler: ((event: ScheduledEvent) => void) | undefined;

  const world: World = {
    speed: options.speed,
    random,
    nodes: database.table('node'),
    queued: database.table('queued'),
    operations: database.table('operation'),
    events: database.table('event'),
    conditions: database.table('condition'),
    requests: database.table('request'),
    bills: database.table('bill'),
    projects: database.table('project'),
    buckets: options.buckets,
    now: () => clock.now(),
    log: options.log,
    drawDuration: (atLeast, atMost) => Math.round((atLeast + random.next() * (atMost - atLeast)) / options.speed),
    eid: () => `[EID: 0x${random.hex(16)}]`,
    newKey() {
      const next = world.globals().nextKey;
      world.setGlobals({ nextKey: next + 1 });
      return String(next).padStart(12, '0');
    },
    globals: () => globalsTable.get('globals') ?? first,
    setGlobals: (change) => globalsTable.put('globals', { ...world.globals(), ...change }),
    schedule(length, event) {
      const key = world.newKey();
      world.events.put(key, { ...event, key, at: clock.now() + length });
    },
    isDown: options.isDown,
    change(body) {
      const result = body();
      if (random.position !== world.globals().randomState) world.setGlobals({ randomState: random.position });
      database.commit();
      setTimer();
      for (const call of listeners) call();
      return result;
    },
    onChange: (call) => void listeners.push(call),
    start(call) {
      handler = call;
      runDueEvents();
    },
    stop() {
      handler = undefined;
      cancelTimer?.();
    },
  };

  function dueEvents(): ScheduledEvent[] {
    const now = clock.now();
    return world.events
      .values()
      .filter((event) => event.at <= now)
      .toSorted((a, b) => a.at - b.at || (a.key < b.key ? -1 : 1));
  }

  function runDueEvents(): void {
    const handle = handler;
    if (handle === undefined) return;
    world.change(() => {
      for (const event of dueEvents()) {
        world.events.remove(event.key);
        handle(event);
      }
    });
  }

  function setTimer(): void {
    cancelTimer?.();
    cancelTimer = undefined;
    if (handler === undefined) return;
    let next = Infinity;
    for (const { at } of world.events.values()) next = Math.min(next, at);
    if (next !== Infinity) cancelTimer = clock.after(Math.max(0, next - clock.now()), runDueEvents);
  }

  return world;
}

/** Ends one fault of a worker, or all. The end of `power` boots the worker. */
export function clearHostFault(world: World, node: NodeRecord, index: number, fault: HostFault | undefined): void {
  const worker = node.workers[index];
  if (worker === undefined) return;
  const boots = !worker.power && (fault === undefined || fault === 'power');
  changeWorker(world, node, index, {
    ...(fault === undefined ? healthyHost : { [fault]: healthyHost[fault] }),
    ...(boots ? { boot: worker.boot + 1 } : {}),
  });
}

/** The worker's own reboot: the node stays READY, and faults remain. `node` must be the current record. */
export function rebootWorker(world: World, node: NodeRecord, index: number): void {
  const worker = node.workers[index];
  if (worker === undefined || node.state !== 'READY' || !worker.power || worker.rebooting === true) return;
  changeWorker(world, node, index, { boot: worker.boot + 1, rebooting: true });
  const back = { name: node.name, id: node.id, worker: index, fault: 'rebooting' } as const;
  world.schedule(durationOf(world, 'reboot'), { kind: 'host-recovered', ...back });
  world.log(`${workerHostName(node, index)} reboots`);
}

export function changeWorker(world: World, node: NodeRecord, index: number, change: Partial<WorkerRecord>): void {
  changeNode(world, node, {
    workers: node.workers.map((worker) => (worker.index === index ? { ...worker, ...change } : worker)),
  });
}
