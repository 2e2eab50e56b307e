// Chance: every accident of a run comes from one seed, through generators that are split by purpose, so that one more
// fault in the cloud does not change what the owners say.

export interface Chance {
  /** From 0 up to but not including 1. */
  next(): number;
  between(least: number, most: number): number;
  yes(probability: number): boolean;
  pick<T>(list: readonly T[]): T;
  fork(purpose: string): Chance;
}

/** A generator that gives the same numbers for the same seed on every machine (mulberry32). */
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

/** A number for a text, the same everywhere (FNV-1a). */
export function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  }
  return hash >>> 0;
}

// ------------------------------------------------------------------------------------------ faults
//
// Which faults a storm brings and how often. Each seed leaves some of them out, because a world in which everything fails at once
// hides what one fault alone would show.

export interface FaultRates {
  readonly replyLost: number;
  /** A request never arrives, which from here looks the same. */
  readonly requestLost: number;
  /** A request is carried out long after its sender has given it up. */
  readonly effectLate: number;
  /** The cloud answers with an error that names its class. */
  readonly stockout: number;
  readonly quota: number;
  readonly permission: number;
  readonly rateLimited: number;
  readonly internal: number;
  /** A look at the cloud gives no answer, or a list that lacks one item, or the state of some seconds ago. */
  readonly observeFails: number;
  readonly listPartial: number;
  readonly listStale: number;
  readonly workerObserveFails: number;
  readonly stepFails: number;
  readonly startSlow: number;
  readonly tailDrops: number;
  /** The output of a program is seconds under way to its copy. */
  readonly tailSlow: number;
  /** A host restarts while the message that is to start a program there is on its way. */
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

/** Mostly more than any real cloud would dare, never so much that nothing gets done. */
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
