// The rows of the list and their order, which does not change while a person uses the table.

import type { JobRow } from '../../app/client.ts';
import { matchesTerms, type FilterTerms } from '../../app/filter-terms.ts';
import { isFinishedPhase, type Phase } from '../../core/decide/phase.ts';
import { day, type Instant } from '../../core/model/time.ts';

export interface RowChoice {
  readonly terms: FilterTerms;
  /** Only jobs of these owners; null for everyone's. */
  readonly owners: readonly string[] | null;
  /** Also jobs that finished more than a day ago. */
  readonly all: boolean;
  readonly onlyAttention: boolean;
  /** Jobs that failed before need no attention: the person has seen them. */
  readonly seenAt: Instant;
}

export interface ShownRows {
  /** Unfinished jobs first; the newest first. */
  readonly rows: readonly JobRow[];
  /** The jobs of each phase that the other filters show. */
  readonly counts: ReadonlyMap<Phase, number>;
  /** The number of jobs that need attention. */
  readonly attention: number;
  /** The number of jobs that only `owners` hides, and that only `all` hides. */
  readonly ofOthers: number;
  readonly older: number;
}

/** The stored time of the last visit; a day ago without a possible one. `now` may be that of a clock that is a few minutes off. */
export function lastVisit(stored: string | null, now: Instant): Instant {
  const at = stored === null ? Number.NaN : Number(stored);
  return at < now + day ? at : now - day;
}

export function selectRows(rows: Iterable<JobRow>, choice: RowChoice, now: Instant): ShownRows {
  const { terms, owners, all, onlyAttention, seenAt } = choice;
  const { phases: wanted, ...query } = terms.query;
  const anyPhase = { ...terms, query };
  const counts = new Map<Phase, number>();
  const [unfinished, finished] = [new Array<JobRow>(), new Array<JobRow>()];
  let [attention, ofOthers, older] = [0, 0, 0];
  for (const row of rows) {
    if (!matchesTerms(row, anyPhase)) continue;
    const { phase, phaseStartedAt } = row;
    const isFinished = isFinishedPhase(phase);
    const isOld = !all && isFinished && phaseStartedAt < now - day;
    if (owners !== null && !isOf(row, owners)) {
      if (!isOld) ofOthers += 1;
      continue;
    }
    const isDue = needsAttention(row, seenAt);
    if (isDue) attention += 1;
    if (onlyAttention && !isDue) continue;
    if (isOld && !isDue) {
      older += 1;
      continue;
    }
    counts.set(phase, (counts.get(phase) ?? 0) + 1);
    if (wanted !== undefined && !wanted.includes(phase)) continue;
    (isFinished ? finished : unfinished).push(row);
  }
  return {
    rows: [...unfinished.sort(newestFirst), ...finished.sort(newestFirst)],
    counts,
    attention,
    ofOthers,
    older,
  };
}

function isOf({ owner }: JobRow, owners: readonly string[]): boolean {
  return owner !== null && owners.includes(owner);
}

function needsAttention({ attention, phaseStartedAt }: JobRow, seenAt: Instant): boolean {
  return attention !== null && (attention !== 'failed' || phaseStartedAt > seenAt);
}

function newestFirst(one: JobRow, other: JobRow): number {
  return other.createdAt - one.createdAt || (one.id < other.id ? 1 : -1);
}

export interface HeldRows {
  readonly rows: readonly JobRow[];
  /** The number of jobs that are not shown yet. */
  readonly waiting: number;
}

/** The previous rows in the same order, with their newest contents. */
export function holdRows(
  before: readonly JobRow[],
  current: (key: string) => JobRow | undefined,
  selected: readonly JobRow[],
  keyOf: (row: JobRow) => string,
): HeldRows {
  const keys = new Set(before.map(keyOf));
  return {
    rows: before.map((row) => current(keyOf(row)) ?? (row.message === gone ? row : { ...row, message: gone })),
    waiting: selected.reduce((count, row) => (keys.has(keyOf(row)) ? count : count + 1), 0),
  };
}

const gone = 'deleted';
