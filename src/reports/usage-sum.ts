// Sums of usage rows over a period.

import { hour, type Duration, type Instant } from '../core/model/time.ts';
import type { UsageRow } from './usage.ts';

export interface UsageSum {
  readonly durationMs: Duration;
  /** Estimated dollars of the part that has a price; null if no part has one. */
  readonly estimateUsd: number | null;
  /** The part of `durationMs` without a price. */
  readonly unpricedMs: Duration;
}

/** By use, for uses that occur from `since` on and before `until`. `now` ends usage that continues. */
export function sumByUse(
  rows: readonly UsageRow[],
  { since, until }: { readonly since: Instant; readonly until: Instant },
  now: Instant,
): ReadonlyMap<UsageRow['use'], UsageSum> {
  const sums = new Map<UsageRow['use'], UsageSum>();
  for (const row of rows) {
    const length = Math.min(row.until ?? now, until, now) - Math.max(row.from, since);
    if (length <= 0) continue;
    const usd = row.pricePerHourUsd === null ? null : (row.pricePerHourUsd * length) / hour;
    const one = { durationMs: length, estimateUsd: usd, unpricedMs: usd === null ? length : 0 };
    sums.set(row.use, addSums([sums.get(row.use) ?? emptySum, one]));
  }
  return sums;
}

const emptySum: UsageSum = { durationMs: 0, estimateUsd: null, unpricedMs: 0 };

export function addSums(sums: Iterable<UsageSum>): UsageSum {
  let total = emptySum;
  for (const { durationMs, estimateUsd, unpricedMs } of sums) {
    total = {
      durationMs: total.durationMs + durationMs,
      estimateUsd: estimateUsd === null ? total.estimateUsd : (total.estimateUsd ?? 0) + estimateUsd,
      unpricedMs: total.unpricedMs + unpricedMs,
    };
  }
  return total;
}
