// Ready periods: the times in which the cloud charges for an allocation. Google charges a node while it is READY, and
// nothing for a node that it preempts within a minute (https://cloud.google.com/tpu/pricing).

import type { AllocationFields, AllocationState } from './job.ts';
import { minute, type Instant } from './time.ts';

/** One slice of an allocation: charged while `ready`. `preempted`: the cloud has taken it. */
export type SliceState = 'ready' | 'preempted' | 'other';

/** A period in which one slice was observed ready. */
export interface ReadyPeriod {
  /** From 0. Absent: 0, the only slice of most allocations. */
  readonly slice?: number;
  readonly from: Instant;
  /** Null: it is ready. */
  readonly until: Instant | null;
  /** Not charged: the cloud preempted the slice within a minute. */
  readonly free?: true;
}

/**
 * The periods of a TPU that appeared late: in an alternative that its allocation had left, where no request was accepted
 * until then. Orphan collection finds and releases it.
 */
export interface LateTpu {
  readonly alternative: number;
  readonly readyPeriods: readonly ReadyPeriod[];
}

/** The slices of an allocation that has only one. */
export function slicesIn(state: AllocationState): readonly SliceState[] {
  return [state === 'ready' ? 'ready' : 'other'];
}

/** The periods of an allocation, oldest first. Records of earlier versions have only the first and last times. */
export function readyPeriodsOf({
  readyPeriods,
  readyAt,
  lastObserved,
  goneAt,
}: Pick<AllocationFields, 'readyPeriods' | 'readyAt' | 'lastObserved' | 'goneAt'>): readonly ReadyPeriod[] {
  if (readyPeriods !== undefined) return readyPeriods;
  if (readyAt === null) return [];
  const endedAt = lastObserved === null || lastObserved.state === 'ready' ? goneAt : lastObserved.at;
  return [{ from: readyAt, until: endedAt === null ? null : Math.max(readyAt, endedAt) }];
}

/** The periods after an observation of all slices at that time. The same array if nothing changes. */
export function foldSlices(
  periods: readonly ReadyPeriod[],
  slices: readonly SliceState[],
  at: Instant,
): readonly ReadyPeriod[] {
  let next = periods;
  for (const open of periods) {
    if (open.until !== null || slices[open.slice ?? 0] === 'ready') continue;
    const closed = { ...open, until: Math.max(open.from, at) };
    next = next.map((one) => (one === open ? closed : one));
    if (slices[open.slice ?? 0] === 'preempted') next = freeIfBrief(next, open.slice);
  }
  for (const [slice, state] of slices.entries()) {
    const isOpen = next.some((one) => (one.slice ?? 0) === slice && one.until === null);
    if (state === 'ready' && !isOpen) next = [...next, { ...(slice > 0 && { slice }), from: at, until: null }];
  }
  return next;
}

/** As `foldSlices`, for a TPU that was deleted before: each further period belongs to a node that was created again. */
export function foldRecreated(
  periods: readonly ReadyPeriod[],
  slices: readonly SliceState[],
  at: Instant,
): readonly ReadyPeriod[] {
  const { open = [], closed = [] } = Object.groupBy(periods, ({ until }) => (until === null ? 'open' : 'closed'));
  const folded = foldSlices(open, slices, at);
  return folded === open ? periods : [...closed, ...folded];
}

/** The late TPUs after an observation of that alternative at that time. The same array if nothing changes. */
export function foldLateTpu(
  late: readonly LateTpu[],
  alternative: number,
  slices: readonly SliceState[],
  at: Instant,
): readonly LateTpu[] {
  const known = late.find((one) => one.alternative === alternative);
  const before = known?.readyPeriods ?? [];
  const readyPeriods = foldRecreated(before, slices, at);
  return readyPeriods === before ? late : [...late.filter((one) => one !== known), { alternative, readyPeriods }];
}

/** Google does not charge a slice that was ready for less than a minute before it was preempted. */
function freeIfBrief(periods: readonly ReadyPeriod[], slice: number | undefined): readonly ReadyPeriod[] {
  const ofSlice = periods.filter((one) => one.slice === slice);
  const readyMs = ofSlice.reduce((sum, { from, until }) => sum + ((until ?? from) - from), 0);
  if (readyMs >= minute) return periods;
  return periods.map((one) => (one.slice === slice ? { ...one, free: true as const } : one));
}
