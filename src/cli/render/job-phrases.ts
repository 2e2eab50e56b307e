import { escapeLine, formatAmount, formatDuration, formatHours } from '../../app/format.ts';
import type { JobHistory } from '../../app/job-source.ts';
import { heldUses, type CostSplit } from '../../reports/cost.ts';

/** `000042 vit (ada)`; a job in a cluster has no id but its name. */
export function formatJobName({ id, name, owner }: Pick<JobHistory, 'id' | 'name' | 'owner'>): string {
  return escapeLine(`${id === name ? name : `${id} ${name}`} (${owner ?? 'made by another tool'})`);
}

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
