// The plan of a chaos test. A seed always gives the same faults and times; their effects depend on the machine.

import { createChance } from '../../sim/chance.ts';

/** In the order of the output. */
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

interface FaultDefaults {
  readonly description: string;
  /** Number of faults in a whole test. */
  readonly count: number;
  /** Mean time between faults in milliseconds, when the kind is alone or determines the length of the test. */
  readonly meanIntervalMs: number;
  /** In milliseconds; null for a fault without a duration. */
  readonly durationMs: number | null;
}

export const faultDefaults: Readonly<Record<FaultKind, FaultDefaults>> = {
  controller: { description: 'the controller is killed', count: 200, meanIntervalMs: 2_500, durationMs: null },
  hosts: { description: 'a host dies, or hangs for 5 s', count: 12, meanIntervalMs: 10_000, durationMs: 5_000 },
  preemptions: { description: 'a spot TPU is preempted', count: 8, meanIntervalMs: 15_000, durationMs: null },
  cloud: { description: 'the emulator is killed and restarted', count: 8, meanIntervalMs: 15_000, durationMs: 6_000 },
  ssh: { description: 'no SSH for a minute', count: 2, meanIntervalMs: 90_000, durationMs: 60_000 },
  disk: { description: "a host's disk is full for 15 s", count: 8, meanIntervalMs: 15_000, durationMs: 15_000 },
  home: {
    description: "the controller's own disk is full for 15 s",
    count: 4,
    meanIntervalMs: 60_000,
    durationMs: 15_000,
  },
  clock: { description: "the controller's clock jumps", count: 10, meanIntervalMs: 10_000, durationMs: null },
  login: {
    description: 'the login has expired for an hour, by the clock',
    count: 1,
    meanIntervalMs: 120_000,
    durationMs: 90_000,
  },
  replies: { description: 'replies are lost, 503s', count: 12, meanIntervalMs: 8_000, durationMs: 10_000 },
};

/** `at` is in milliseconds after the start. `target` and `variant` (from 0 to below 1) select target and form. */
export interface Fault {
  readonly at: number;
  readonly kind: FaultKind;
  readonly target: number;
  readonly variant: number;
  readonly durationMs: number;
}

/** `steps` is the number of seconds that its program counts. */
interface PlannedJob {
  readonly at: number;
  readonly steps: number;
}

export interface ChaosPlan {
  readonly seed: number;
  readonly kinds: readonly FaultKind[];
  readonly jobs: readonly PlannedJob[];
  readonly faults: readonly Fault[];
}

export interface PlanOptions {
  readonly seed: number;
  readonly kinds: readonly FaultKind[];
  readonly jobs: number;
  /** Number of faults by kind; overrides the defaults. */
  readonly times?: Partial<Readonly<Record<FaultKind, number>>>;
  /** Limit for the duration of a fault in milliseconds; for a chaos test within a test. */
  readonly maxDurationMs?: number;
}

/** Before that the first jobs are created. */
const initialDelayMs = 3_000;

/** The same options give the same plan. */
export function drawPlan({ seed, kinds, jobs, times = {}, maxDurationMs = Infinity }: PlanOptions): ChaosPlan {
  const chance = createChance(seed);
  const timesOf = (kind: FaultKind): number => times[kind] ?? faultDefaults[kind].count;
  const lengthOf = (kind: FaultKind): number => timesOf(kind) * intervalOf(kind);
  const intervalOf = (kind: FaultKind): number => {
    const { meanIntervalMs, durationMs } = faultDefaults[kind];
    // Shorter faults come at shorter intervals.
    return durationMs === null ? meanIntervalMs : meanIntervalMs - Math.max(0, durationMs - maxDurationMs);
  };
  const lengthMs = Math.max(...kinds.map(lengthOf));
  // Each kind covers the whole test: in its first minutes, while controllers are killed, there may be no host.
  const stepOf = (kind: FaultKind): number => intervalOf(kind) * (lengthMs / lengthOf(kind));
  const faults = kinds.flatMap((kind): readonly Fault[] => {
    const own = chance.fork(kind);
    const { durationMs } = faultDefaults[kind];
    const first = own.next();
    return Array.from({ length: timesOf(kind) }, (_, index) => ({
      at: Math.round(initialDelayMs + (index + own.next()) * stepOf(kind)),
      kind,
      // Multiples of the golden ratio spread evenly, so that even a few faults of a kind show each of its forms.
      target: (first + index * 0.6180339887) % 1,
      variant: own.next(),
      durationMs: Math.min(durationMs ?? 0, maxDurationMs),
    }));
  });
  const own = chance.fork('jobs');
  return {
    seed,
    kinds,
    faults: faults.toSorted((a, b) => a.at - b.at),
    // Later jobs start during the test, so that faults hit jobs in every phase.
    jobs: Array.from({ length: jobs }, (_, index) => ({
      at: index < 3 ? 0 : Math.round(own.next() * lengthMs * 0.4),
      steps: Math.max(12, Math.round((lengthMs / 1_000) * (0.6 + 0.3 * own.next()))),
    })).toSorted((a, b) => a.at - b.at),
  };
}
