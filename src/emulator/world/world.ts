/**
 * The world that all parts of the cloud share: its shelves, its time, its chance, and what is due. The parts (`nodes`,
 * `queued-resources`, `operations`, `temper`) are functions over it. Everything happens synchronously and ends with one
 * commit, so no reader ever sees half a change, and a kill -9 falls before or after a change, never inside.
 */

import type { Duration, Instant } from '../../core/time.ts';
import type { EmulatorClock } from '../contract.ts';
import { createChance, type Chance } from './chance.ts';
import type { Buckets } from './buckets.ts';
import type { Database, Shelf } from './database.ts';
import { changeNode, workerHostName } from './nodes.ts';
import { takes } from './options.ts';
import {
  soundHost,
  type BillRecord,
  type Condition,
  type Happening,
  type HostTrouble,
  type NodeRecord,
  type OperationRecord,
  type ProjectRecord,
  type QueuedRecord,
  type WorkerRecord,
} from './records.ts';

/** The one record of what does not belong to a resource. */
interface General {
  readonly chance: number;
  /** The second number of the workers' addresses, 127.<octet>.y.z. */
  readonly octet: number;
  readonly nextAddress: number;
  readonly nextKey: number;
  readonly port: number;
  readonly sshPort: number;
  /** The rehearsal file that was put on the agenda, by the hash of its text; absent without one. */
  readonly rehearsal?: string;
}

export interface World {
  readonly speed: number;
  readonly chance: Chance;
  readonly nodes: Shelf<NodeRecord>;
  readonly queued: Shelf<QueuedRecord>;
  readonly operations: Shelf<OperationRecord>;
  readonly agenda: Shelf<Happening>;
  readonly conditions: Shelf<Condition>;
  /** The operation that answered a `requestId`, by method and id. */
  readonly requests: Shelf<{ readonly operation: string }>;
  /** The cost of nodes, by the id of the node. */
  readonly bills: Shelf<BillRecord>;
  readonly projects: Shelf<ProjectRecord>;
  /** No shelf: workers change them as well. */
  readonly buckets: Buckets;
  now(): Instant;
  log(line: string): void;
  /** Milliseconds here for something that takes Google between those two lengths: drawn, then divided by the speed. */
  pace(atLeast: Duration, atMost: Duration): Duration;
  /** ` [EID: 0x…]` of the service's own messages. */
  eid(): string;
  /** A key that no record had before, in order of time. */
  newKey(): string;
  general(): General;
  setGeneral(change: Partial<General>): void;
  /** Puts something on the agenda, that many milliseconds from now. */
  later(length: Duration, what: HappeningInput): void;
  /** True when no process of that node runs any more: only then may it be gone. */
  isDown(node: NodeRecord): boolean;
  /** Runs a change and commits it; then the timer is set anew and listeners are told. Not to be nested. */
  change<T>(body: () => T): T;
  onChange(call: () => void): void;
  /** Starts working through the agenda; what became due while nobody ran happens first. */
  start(happen: (what: Happening) => void): void;
  stop(): void;
}

/** A happening before it has its key and moment. */
type HappeningInput = Happening extends infer Each
  ? Each extends Happening
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
  const generals = database.shelf<General>('general');
  const first: General = { chance: options.seed >>> 0, octet: 0, nextAddress: 2, nextKey: 1, port: 0, sshPort: 0 };
  const chance = createChance(generals.get('general')?.chance ?? first.chance);
  const listeners: (() => void)[] = [];
  let cancelTimer: (() => void) | undefined;
  let happen: ((what: Happening) => void) | undefined;

  const world: World = {
    speed: options.speed,
    chance,
    nodes: database.shelf('node'),
    queued: database.shelf('queued'),
    operations: database.shelf('operation'),
    agenda: database.shelf('agenda'),
    conditions: database.shelf('condition'),
    requests: database.shelf('request'),
    bills: database.shelf('bill'),
    projects: database.shelf('project'),
    buckets: options.buckets,
    now: () => clock.now(),
    log: options.log,
    pace: (atLeast, atMost) => Math.round((atLeast + chance.next() * (atMost - atLeast)) / options.speed),
    eid: () => `[EID: 0x${chance.hex(16)}]`,
    newKey() {
      const next = world.general().nextKey;
      world.setGeneral({ nextKey: next + 1 });
      return String(next).padStart(12, '0');
    },
    general: () => generals.get('general') ?? first,
    setGeneral: (change) => generals.put('general', { ...world.general(), ...change }),
    later(length, what) {
      const key = world.newKey();
      world.agenda.put(key, { ...what, key, at: clock.now() + length });
    },
    isDown: options.isDown,
    change(body) {
      const result = body();
      if (chance.position !== world.general().chance) world.setGeneral({ chance: chance.position });
      database.commit();
      setTimer();
      for (const call of listeners) call();
      return result;
    },
    onChange: (call) => void listeners.push(call),
    start(call) {
      happen = call;
      work();
    },
    stop() {
      happen = undefined;
      cancelTimer?.();
    },
  };

  function due(): Happening[] {
    const now = clock.now();
    return world.agenda
      .values()
      .filter((what) => what.at <= now)
      .toSorted((a, b) => a.at - b.at || (a.key < b.key ? -1 : 1));
  }

  function work(): void {
    const act = happen;
    if (act === undefined) return;
    world.change(() => {
      for (const what of due()) {
        world.agenda.remove(what.key);
        act(what);
      }
    });
  }

  function setTimer(): void {
    cancelTimer?.();
    cancelTimer = undefined;
    if (happen === undefined) return;
    let next = Infinity;
    for (const what of world.agenda.values()) next = Math.min(next, what.at);
    if (next !== Infinity) cancelTimer = clock.after(Math.max(0, next - clock.now()), work);
  }

  return world;
}

/** Ends one trouble of a worker, or all. One that had no power boots; nothing happens to one that had no such trouble. */
export function endTrouble(world: World, node: NodeRecord, index: number, trouble: HostTrouble | undefined): void {
  const worker = node.workers[index];
  if (worker === undefined) return;
  const boots = !worker.power && (trouble === undefined || trouble === 'power');
  changeWorker(world, node, index, {
    ...(trouble === undefined ? soundHost : { [trouble]: soundHost[trouble] }),
    ...(boots ? { boot: worker.boot + 1 } : {}),
  });
}

/**
 * A machine begins again by its own command. To the cloud that is nothing: the node stays READY, and what is the matter with
 * the machine stays so. The node must be as the world has it now.
 */
export function rebootWorker(world: World, node: NodeRecord, index: number): void {
  const worker = node.workers[index];
  if (worker === undefined || node.state !== 'READY' || !worker.power || worker.rebooting === true) return;
  changeWorker(world, node, index, { boot: worker.boot + 1, rebooting: true });
  const back = { name: node.name, id: node.id, worker: index, trouble: 'rebooting' } as const;
  world.later(takes(world, 'reboot'), { kind: 'host-back', ...back });
  world.log(`${workerHostName(node, index)} reboots`);
}

/** Changes one worker of a node. */
export function changeWorker(world: World, node: NodeRecord, index: number, change: Partial<WorkerRecord>): void {
  changeNode(world, node, {
    workers: node.workers.map((worker) => (worker.index === index ? { ...worker, ...change } : worker)),
  });
}
