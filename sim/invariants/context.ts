// Check context: the world, the owners' commands and the database, against which the invariants are checked.

import { ownHost } from '../../src/core/model/spec.ts';
import type { Pool } from '../../src/core/policy/admission.ts';
import type { AllocationRef } from '../../src/app/ports.ts';
import type { Event } from '../../src/core/model/event.ts';
import type { Job } from '../../src/core/model/job.ts';
import { minute } from '../../src/core/model/time.ts';
import { zoneOf } from '../cloud.ts';
import type { LogCopies } from '../outputs.ts';
import { findMachine } from '../world.ts';
import type { Machine, Run, World } from '../world.ts';

export const invariants = {
  1: 'unknown is not absent',
  2: 'commit before act',
  3: 'only our own resources',
  4: 'one command at a time',
  5: 'setup before start',
  6: 'finished jobs hold nothing',
  7: 'bounded',
  8: 'quiet at rest',
  9: 'events reproduce the state',
  10: 'convergence',
  11: 'logs are complete',
  12: 'alternatives in order',
  13: 'slots are limited',
  14: 'only its own checkpoints',
  15: 'every event is reported',
  16: 'usage is complete',
  17: 'passes can be replayed',
  18: 'guards hold',
} as const;

export type InvariantNumber = keyof typeof invariants;

export interface Violation {
  readonly invariant: InvariantNumber;
  readonly message: string;
  readonly at: number;
}

/** The controllers' time when the world begins. */
export const epoch = Date.UTC(2026, 0, 1);

/** The machine of the controller, and another one. */
export const simulatedHosts: readonly Pool[] = [
  { name: ownHost, slots: 1, gpus: null },
  { name: 'gpu1', slots: 2, gpus: 4 },
];

/** Longest time that a released machine is kept for the rest of its logs. */
export const maxDrainTime = 15 * minute;

/** Longest delay of an answer of the simulated cloud. */
export const maxReplyTime = minute;

interface Refusal {
  readonly at: number;
  readonly allocation: number;
  readonly isForbidden: boolean;
}

/** The knowledge of the owners, the cloud and the hosts about one job, independent of any controller. */
export interface Ledger {
  /** The job as last committed, by a controller or by the owner's command. */
  job: Job;
  readonly createdAt: number;
  /** Number of the owner's commands, and the time of the last. */
  commandCount: number;
  lastCommandAt: number;
  /** Number of attempts when the owner disabled recovery; null while recovery is enabled. */
  recoveryDisabledAfter: number | null;
  /** Outcomes of the cloud, by action and ordinal: `request/1`. */
  readonly accepted: Set<string>;
  readonly refused: Set<string>;
  /** Failed steps, starts and stops. */
  workerFailures: number;
  /** Attempts that started in the world since the owner's last command. */
  attemptsBegun: Set<number>;
  readonly attemptsBegunAfterFaults: Set<number>;
  /** Last refusal by attempt and alternative, with the allocation. Only stored answers: a lost one is requested again. */
  readonly refusals: Map<string, Refusal>;
  /** Stored number of times that an alternative was exhausted, by attempt and alternative. */
  readonly rounds: Map<string, number>;
  /** The world's time at which it finished as failed; null before, and after the owner's next command. */
  failedAt: number | null;
  /** Times of the latest requests, by allocation, alternative and round. */
  readonly requests: Map<string, number[]>;
  /** Time of each allocation's first request, and of the first event that its alternative was exhausted. */
  readonly firstRequestedAt: Map<number, number>;
  readonly supersededAt: Map<number, number>;
  readonly tries: Map<string, number>;
  /** Failures of a setup step on a worker, by its attempt: `2 3/docker`. */
  readonly stepFailures: Map<string, number>;
  readonly events: Event[];
  commits: number;
  /** The owner removed it by force: its capacity is an orphan, and its logs are no longer copied. */
  wasForceRemoved: boolean;
}

/** The input of the invariants. */
export interface CheckContext {
  readonly world: () => World;
  readonly logCopies: () => LogCopies;
  readonly ledgers: Map<string, Ledger>;
  /** Times at which the controllers' clock jumped forward. */
  readonly clockJumps: number[];
  /** It has jumped backward. Only a pass records that in a job's history. */
  wasClockSetBack: boolean;
  /** The controllers' clock minus the world's. */
  clockOffset: number;
  /** Start of the calm; null in the storm. */
  faultsStoppedAt: number | null;
  /** The first invariant that was broken; nothing after it counts. */
  violation: Violation | null;
  readonly fail: (invariant: InvariantNumber, message: string) => void;
  /** Throws for an unknown job. */
  readonly ledgerOf: (id: string) => Ledger;
}

export function createCheckContext(world: () => World, logCopies: () => LogCopies): CheckContext {
  const ledgers = new Map<string, Ledger>();
  const context: CheckContext = {
    world,
    logCopies,
    ledgers,
    clockJumps: [],
    wasClockSetBack: false,
    clockOffset: 0,
    faultsStoppedAt: null,
    violation: null,
    fail(invariant, message) {
      if (context.violation !== null) return;
      context.violation = { invariant, message, at: world().timeline.now };
      world().log(`INVARIANT ${invariant} (${invariants[invariant]}) is broken: ${message}`);
    },
    ledgerOf(id) {
      const ledger = ledgers.get(id);
      if (ledger === undefined) throw new Error(`there is no job ${id}`);
      return ledger;
    },
  };
  return context;
}

/** The machine of that allocation, if it exists. */
export function machineOf(context: CheckContext, ref: AllocationRef): Machine | undefined {
  return findMachine(context.world(), zoneOf(ref), ref.allocation.name);
}

/** A job that has just been created. */
export function newLedger(job: Job, events: readonly Event[], now: number): Ledger {
  return {
    job,
    createdAt: now,
    commandCount: 0,
    lastCommandAt: 0,
    recoveryDisabledAfter: null,
    accepted: new Set(),
    refused: new Set(),
    workerFailures: 0,
    attemptsBegun: new Set(),
    attemptsBegunAfterFaults: new Set(),
    refusals: new Map(),
    rounds: new Map(),
    failedAt: null,
    requests: new Map(),
    firstRequestedAt: new Map(),
    supersededAt: new Map(),
    tries: new Map(),
    stepFailures: new Map(),
    events: [...events],
    commits: 0,
    wasForceRemoved: false,
  };
}

/** On a persistent TPU, on a host that has been silent for ten graces. Users' own machines are never given up. */
export function isGivenUp(scene: Pick<CheckContext, 'world'>, { host }: Run, job: Job): boolean {
  if (job.spec.capacity.kind === 'hosts') return false;
  const { now } = scene.world().timeline;
  const unreachableFor = host.outage === null ? 0 : now - host.outage.since;
  return host.machine.isPersistent && unreachableFor >= 10 * job.spec.recovery.unreachableGraceMs * 0.9;
}
