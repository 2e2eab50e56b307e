// Chance: all randomness of a run comes from one seed, through generators that are split by purpose. An additional
// fault in the cloud therefore does not change the owners' commands.

export interface Chance {
  /** From 0 up to but not including 1. */
  next(): number;
  between(least: number, most: number): number;
  yes(probability: number): boolean;
  pick<T>(list: readonly T[]): T;
  fork(purpose: string): Chance;
}

/** A generator with the same numbers for the same seed on every machine (mulberry32). */
export function createChance(seed: number): Chance {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  return {
    next,
    between: (least, most) => least + Math.floor(next() * (most - least + 1)),
    yes: (probability) => next() < probability,
    pick(list) {
      const item = list[Math.floor(next() * list.length)];
      if (item === undefined) throw new Error('nothing to pick from');
      return item;
    },
    fork: (purpose) => createChance(hashOf(`${seed}/${purpose}`)),
  };
}

/** A hash of the text, the same on every machine (FNV-1a). */
export function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  }
  return hash >>> 0;
}

// ------------------------------------------------------------------------------------------ faults

/**
 * The faults of a storm and their probabilities. Each seed omits some of them, because a world in which everything fails
 * at once hides the effect of one fault alone.
 */
export interface FaultRates {
  readonly replyLost: number;
  /** A request never arrives, which looks the same to its sender. */
  readonly requestLost: number;
  /** A request takes effect long after its sender has given up. */
  readonly effectLate: number;
  /** The cloud answers with a typed error. */
  readonly stockout: number;
  readonly quota: number;
  readonly permission: number;
  readonly rateLimited: number;
  readonly internal: number;
  /** An observation of the cloud fails, lacks one item, or is some seconds old. */
  readonly observeFails: number;
  readonly listPartial: number;
  readonly listStale: number;
  readonly workerObserveFails: number;
  readonly stepFails: number;
  readonly startSlow: number;
  readonly tailDrops: number;
  /** The output of a program reaches its copy seconds later. */
  readonly tailSlow: number;
  /** A host restarts between the start message and the start. */
  readonly restartDuringStart: number;
}

export const noFaults: FaultRates = {
  replyLost: 0,
  requestLost: 0,
  effectLate: 0,
  stockout: 0,
  quota: 0,
  permission: 0,
  rateLimited: 0,
  internal: 0,
  observeFails: 0,
  listPartial: 0,
  listStale: 0,
  workerObserveFails: 0,
  stepFails: 0,
  startSlow: 0,
  tailDrops: 0,
  tailSlow: 0,
  restartDuringStart: 0,
};

/** More than a real cloud would do, but never so much that no job gets anything done. */
const maxFaultRates: FaultRates = {
  replyLost: 0.2,
  requestLost: 0.15,
  effectLate: 0.15,
  stockout: 0.3,
  quota: 0.05,
  permission: 0.02,
  rateLimited: 0.1,
  internal: 0.1,
  observeFails: 0.25,
  listPartial: 0.1,
  listStale: 0.2,
  workerObserveFails: 0.15,
  stepFails: 0.2,
  startSlow: 0.3,
  tailDrops: 0.1,
  tailSlow: 0.3,
  restartDuringStart: 0.1,
};

export function drawFaultRates(chance: Chance): FaultRates {
  const severity = chance.pick([0, 0.3, 1, 1]);
  const drawn: Record<string, number> = {};
  for (const [fault, most] of Object.entries(maxFaultRates)) drawn[fault] = chance.yes(0.5) ? most * severity : 0;
  return { ...noFaults, ...drawn };
}
