// The cost of a job by use of its capacity, as a sentence and as a table.

import type { Duration } from '../core/model/time.ts';
import { heldUses, type CostAmount, type CostSplit, type JobCost } from '../reports/cost.ts';
import { formatAmount, formatDuration, formatHours } from './format.ts';

/** The uses as `cost` has them. Null before the first. */
export function formatCostSplit(cost: CostSplit, isFinal: boolean, notes: readonly string[] = []): string | null {
  const { held, waiting } = cost;
  const waited = waiting.durationMs === 0 ? [] : [`waiting ${formatDuration(waiting.durationMs)}`];
  if (held.durationMs === 0) return waited[0] === undefined ? null : `${waited[0]}, not charged`;
  const details = [...(held.chipMs === 0 ? [] : [`${formatHours(held.chipMs)} chip-hours`]), ...notes];
  const soFar = isFinal ? '' : ' so far';
  const amount = held.estimateUsd === null ? 'not priced' : `${formatAmount(held, ' not priced')} estimated${soFar}`;
  const about = details.length === 0 ? '' : ` (${details.join(', ')})`;
  const uses = heldUses(cost).map((use) => {
    const { estimateUsd, durationMs } = cost[use];
    return `${use} ${estimateUsd === null ? formatDuration(durationMs) : formatAmount(cost[use])}`;
  });
  return `${amount}${about}: ${[...uses, ...waited].join(', ')}`;
}

export interface CostTable {
  readonly rows: readonly CostTableRow[];
  /** The source of the prices, as sentences. */
  readonly note: string;
}

interface CostTableRow {
  /** `useful`, `lost`, `setup`, `idle`, `kept`; then `total`, and `waiting`. */
  readonly use: string;
  readonly durationMs: Duration;
  readonly time: string;
  readonly estimate: string;
}

/** The uses with some time, their total, and the waiting time. */
export function costTable({ prices, simulated, ...split }: JobCost): CostTable {
  const row = (use: string, amount: CostAmount, estimate = formatAmount(amount, ' not priced')): CostTableRow => {
    return { use, durationMs: amount.durationMs, time: formatDuration(amount.durationMs), estimate };
  };
  const source = prices.length === 0 ? formatNoPrice([split.held]) : `An estimate with ${formatPrices(prices)}.`;
  const free = simulated ? ' The TPU emulator is free: these are the prices of the same TPUs at Google.' : '';
  return {
    rows: [
      ...heldUses(split).map((use) => row(use, split[use])),
      row('total', split.held),
      ...(split.waiting.durationMs > 0 ? [row('waiting', split.waiting, 'not charged')] : []),
    ],
    note: `${source}${free}${split.held.freeMs > 0 ? ` ${freeMinute}` : ''}`,
  };
}

/** The reason for amounts without an estimate. */
export function formatNoPrice(held: readonly CostAmount[]): string {
  if (held.some(({ unpricedMs }) => unpricedMs > 0)) return 'jobman has no price for it.';
  if (held.some(({ freeMs }) => freeMs > 0)) return 'Nothing is charged.';
  return 'No capacity was ready, so nothing is charged.';
}

/** `the list prices of 2026-08-01 and the prices of the settings`. */
export function formatPrices(prices: readonly string[]): string {
  const dates = prices.filter((one) => one !== 'settings');
  return [
    ...(dates.length === 0 ? [] : [`the list prices of ${dates.join(', ')}`]),
    ...(dates.length === prices.length ? [] : ['the prices of the settings']),
  ].join(' and ');
}

/** Explains a use of a TPU that costs $0.00, and an estimate that has fallen. */
export const freeMinute =
  '$0.00: Google does not charge a TPU that it preempts within a minute. Until the preemption, the estimate counts it.';
