// Check context: what the invariants are judged by. They look at the world, at what the owners said, and at what is on record.

import type { AllocationRef } from '../../src/app/ports.ts';
import type { Event } from '../../src/core/model/event.ts';
import type { Job } from '../../src/core/model/job.ts';
import { minute } from '../../src/core/model/time.ts';
import { zoneOf } from '../cloud.ts';
import type { LogCopies } from '../outputs.ts';
import { findMachine } from '../world.ts';
import type { Machine, World } from '../world.ts';

export const invariants = {
  1: 'unknown is not absent',
  2: 'commit before act',
  3: 'only what is ours',
  4: 'one command at a time',
  5: 'setup before start',
  6: 'finished means empty',
  7: 'bounded',
  8: 'quiet at rest',
  9: 'events reproduce the state',
  10: 'convergence',
  11: 'logs are whole',
  12: 'alternatives in turn',
  13: 'slots are limited',
  14: 'only its own checkpoints',
} as const;

export type InvariantNumber = keyof typeof invariants;

export interface Violation {
  readonly invariant: InvariantNumber;
  readonly message: string;
  readonly at: number;
}

/** How many programs of this machine's own capacity may run at once. */
export const slotCount = 1;

/** How long a machine that is to be let go is kept for the rest of its logs. */
export const maxDrainTime = 15 * minute;

/** The longest that an answer of the pretend cloud is under way. */
export const maxReplyTime = minute;

interface Refusal {
  readonly at: number;
  readonly allocation: number;
  readonly isForbidden: boolean;
}

/** The knowledge of the owners, the cloud and the hosts about one job, without asking any controller. */
export interface Ledger {
  /** The record as last committed: by a controller or by the owner's word. */
  job: Job;
  readonly createdAt: number;
  /** How many words the owner has said, and when the last. */
  commandCount: number;
  lastCommandAt: number;
  /** How many attempts there were when the owner said that the last of them is to be the last; null while no such word counts. */
  recoveryDisabledAfter: number | null;
  /** Replies of the cloud, by action and ordinal: `request/1`. */
  readonly accepted: Set<string>;
  readonly refused: Set<string>;
  /** Things on hosts that did not go well: steps, starts, stops. */
  workerFailures: number;
  /** Attempts that began in the world since the owner's last word. */
  attemptsBegun: Set<number>;
  readonly attemptsBegunAfterFaults: Set<number>;
  /**
   * When a place last said that it has nothing, or nothing for us: by the attempt and the place, with the allocation. Only
   * answers that are in the record: one that a full disk or the end of a controller has lost is unknown, and is asked for again.
   */
  readonly refusals: Map<string, Refusal>;
  /** How often the record says that a place was passed over, by the attempt and the place. */
  readonly rounds: Map<string, number>;
  /** When it settled as failed, by the world's clock; null before, and after the owner's newest word. */
  failedAt: number | null;
  /** Times of the latest requests, by allocation, place and round. */
  readonly requests: Map<string, number[]>;
  /** When each allocation was first asked for, and when the record first said that its place was passed over. */
  readonly firstRequestedAt: Map<number, number>;
  readonly supersededAt: Map<number, number>;
  readonly steps: Map<string, number>;
  /** How often a setup step has failed on a worker, by the attempt that it was for: `2 3/docker`. */
  readonly stepFailures: Map<string, number>;
  readonly events: Event[];
  commits: number;
  /** The owner has taken it off the list by force: what it holds is a stray, and nobody reads on in its logs. */
  wasForceRemoved: boolean;
}

/** One world, as the invariants see it. */
export interface CheckContext {
  readonly world: () => World;
  readonly logCopies: () => LogCopies;
  readonly ledgers: Map<string, Ledger>;
  /** When the controllers' clock jumped forward. */
  readonly clockJumps: number[];
  /** Since when nothing is taken away, refused or lost; null in the storm. */
  faultsStoppedAt: number | null;
  /** The first invariant that was broken; nothing after it counts. */
  violation: Violation | null;
  readonly fail: (invariant: InvariantNumber, message: string) => void;
  /** Throws for a job that the world does not know. */
  readonly ledgerOf: (id: string) => Ledger;
}

export function createCheckContext(world: () => World, logCopies: () => LogCopies): CheckContext {
  const ledgers = new Map<string, Ledger>();
  const context: CheckContext = {
    world,
    logCopies,
    ledgers,
    clockJumps: [],
    faultsStoppedAt: null,
    violation: null,
    fail(invariant, message) {
      if (context.violation !== null) return;
      context.violation = { invariant, message, at: world().timeline.now };
      world().log(`INVARIANT ${invariant} (${invariants[invariant]}) is broken: ${message}`);
    },
    ledgerOf(id) {
      const ledger = ledgers.get(id);
      if (ledger === undefined) throw new Error(`the world knows no job ${id}`);
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
    steps: new Map(),
    stepFailures: new Map(),
    events: [...events],
    commits: 0,
    wasForceRemoved: false,
  };
}
