// The plan of a storm: what is to happen, and when. It comes from the seed alone, so that a seed that has found something
// plays the same faults again; what they meet depends on the machine.

import { createChance } from '../../sim/chance.ts';

/** The kinds of fault, in the order in which people are told of them. */
export const faultKinds = [
  'controller',
  'hosts',
  'preemptions',
  'cloud',
  'ssh',
  'disk',
  'home',
  'clock',
  'login',
  'replies',
] as const;
export type FaultKind = (typeof faultKinds)[number];

/** How one kind is dealt. */
interface Dealt {
  /** For people. */
  readonly about: string;
  /** How often in a whole storm. */
  readonly times: number;
  /** The mean time from one to the next in milliseconds, where the kind is alone or the longest. */
  readonly everyMs: number;
  /** How long the world stays so, in milliseconds; null where that lies in the nature of the thing. */
  readonly lastsMs: number | null;
}

/** What is dealt when nobody says otherwise. */
export const dealt: Readonly<Record<FaultKind, Dealt>> = {
  controller: { about: 'the controller is killed', times: 200, everyMs: 2_500, lastsMs: null },
  hosts: { about: 'a host dies, or stands still for 5 s', times: 12, everyMs: 10_000, lastsMs: 5_000 },
  preemptions: { about: 'a spot TPU is taken away', times: 8, everyMs: 15_000, lastsMs: null },
  cloud: { about: 'the cloud is killed, and comes back', times: 8, everyMs: 15_000, lastsMs: 6_000 },
  ssh: { about: 'no SSH for a minute', times: 2, everyMs: 90_000, lastsMs: 60_000 },
  disk: { about: "a host's disk is full for 15 s", times: 8, everyMs: 15_000, lastsMs: 15_000 },
  home: { about: "the controller's own disk is full for 15 s", times: 4, everyMs: 60_000, lastsMs: 15_000 },
  clock: { about: "the controller's clock jumps", times: 10, everyMs: 10_000, lastsMs: null },
  login: { about: 'the login has expired for an hour, by the clock', times: 1, everyMs: 120_000, lastsMs: 90_000 },
  replies: { about: 'replies are lost, 503s', times: 12, everyMs: 8_000, lastsMs: 10_000 },
};

/** One fault: at its moment, so long after the start, it strikes where `where` and `how` (from 0 to below 1) point. */
export interface Fault {
  readonly at: number;
  readonly kind: FaultKind;
  readonly where: number;
  readonly how: number;
  readonly lastsMs: number;
}

/** A job of the storm: when it is created, and how many seconds its program counts. */
interface PlannedJob {
  readonly at: number;
  readonly steps: number;
}

export interface Plan {
  readonly seed: number;
  readonly kinds: readonly FaultKind[];
  readonly jobs: readonly PlannedJob[];
  readonly faults: readonly Fault[];
}

export interface PlanOptions {
  readonly seed: number;
  readonly kinds: readonly FaultKind[];
  readonly jobs: number;
  /** How often a kind strikes, in place of its own number. */
  readonly times?: Partial<Readonly<Record<FaultKind, number>>>;
  /** Nothing lasts longer than this, in milliseconds; for a storm in a test. */
  readonly lastsMostMs?: number;
}

/** Nothing begins before the first jobs have been created. */
const quietMs = 3_000;

/** Draws the plan. The same options give the same plan. */
export function drawPlan({ seed, kinds, jobs, times = {}, lastsMostMs = Infinity }: PlanOptions): Plan {
  const chance = createChance(seed);
  const timesOf = (kind: FaultKind): number => times[kind] ?? dealt[kind].times;
  const lengthOf = (kind: FaultKind): number => timesOf(kind) * everyOf(kind);
  const everyOf = (kind: FaultKind): number => {
    const { everyMs, lastsMs } = dealt[kind];
    // What is shortened comes sooner, too.
    return lastsMs === null ? everyMs : everyMs - Math.max(0, lastsMs - lastsMostMs);
  };
  const lengthMs = Math.max(...kinds.map(lengthOf));
  // Each kind is spread over the whole of it: in its first minutes, while controllers are killed, there may be no host yet.
  const stepOf = (kind: FaultKind): number => everyOf(kind) * (lengthMs / lengthOf(kind));
  const faults = kinds.flatMap((kind): readonly Fault[] => {
    const own = chance.fork(kind);
    const { lastsMs } = dealt[kind];
    const first = own.next();
    return Array.from({ length: timesOf(kind) }, (_, index) => ({
      at: Math.round(quietMs + (index + own.next()) * stepOf(kind)),
      kind,
      // Spread evenly from the first times on, so that a kind that has several forms shows each of them (golden ratio).
      where: (first + index * 0.6180339887) % 1,
      how: own.next(),
      lastsMs: Math.min(lastsMs ?? 0, lastsMostMs),
    }));
  });
  const own = chance.fork('jobs');
  return {
    seed,
    kinds,
    faults: faults.toSorted((a, b) => a.at - b.at),
    // The first at once, the others meanwhile: so a fault meets jobs in every phase of their lives.
    jobs: Array.from({ length: jobs }, (_, index) => ({
      at: index < 3 ? 0 : Math.round(own.next() * lengthMs * 0.4),
      steps: Math.max(12, Math.round((lengthMs / 1_000) * (0.6 + 0.3 * own.next()))),
    })).toSorted((a, b) => a.at - b.at),
  };
}
