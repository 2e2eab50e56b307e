// TPU phrases: owners, totals and gaps of a list of TPUs, for people.

import { formatPricePerHour, formatUsd, pluralize } from './format.ts';
import type { UnreadLimits } from './quota.ts';
import type { TpuRow, UncheckedLocation } from './tpus.ts';

export function formatOwner({ owner, metadataOwner }: Pick<TpuRow, 'owner' | 'metadataOwner'>): string {
  switch (owner.kind) {
    case 'job':
      return owner.owner;
    case 'orphan':
      return 'orphan';
    case 'installation':
      // The installation id alone names no person; the metadata's owner is the person to ask.
      return `${metadataOwner === null || metadataOwner === '' ? '' : `${metadataOwner}, `}jobman ${owner.installation}`;
    case 'shared':
      return owner.name ?? 'shared';
    case 'user':
      return owner.name;
    case 'none':
      return 'none';
  }
}

export function formatHourlyPrice({ pricePerHourUsd }: Pick<TpuRow, 'pricePerHourUsd'>): string {
  return pricePerHourUsd === null ? '?' : formatPricePerHour(pricePerHourUsd);
}

/** `3 TPUs, about $24.00/h; 1 idle, about $7.00 for nothing so far`. Simulated TPUs cost nothing. */
export function formatTotals(
  rows: readonly Pick<TpuRow, 'simulated' | 'state' | 'pricePerHourUsd' | 'idleMs' | 'idleCostUsd'>[],
): string {
  const paid = rows.filter(({ simulated }) => !simulated);
  const hourly = paid.reduce(
    (sum, { pricePerHourUsd, state }) => sum + (state === 'READY' ? (pricePerHourUsd ?? 0) : 0),
    0,
  );
  const idle = paid.filter((row) => row.idleMs !== null);
  const lost = idle.reduce((sum, { idleCostUsd }) => sum + (idleCostUsd ?? 0), 0);
  return [
    `${pluralize(rows.length, 'TPU')}${hourly === 0 ? '' : `, about ${formatPricePerHour(hourly)}`}`,
    ...(idle.length === 0 ? [] : [`${idle.length} idle, about ${formatUsd(lost)} for nothing so far`]),
  ].join('; ');
}

/** The reason why there is no cloud to ask. */
export const noProject = 'No project: no job names one, and the setting tpu.project is not set.';

/** A sentence without its full stop. */
export function formatUnchecked({ project, zone, message }: UncheckedLocation): string {
  return `${zone === null ? `project ${project}` : `zone ${zone} of project ${project}`} could not be checked: ${message}`;
}

/** The person to ask about a TPU, or the other installation that it belongs to; null if neither is known. */
export function ownerName({ owner, metadataOwner }: Pick<TpuRow, 'owner' | 'metadataOwner'>): string | null {
  const named = metadataOwner === '' ? null : metadataOwner;
  switch (owner.kind) {
    case 'job':
      return owner.owner;
    case 'installation':
      return named ?? `jobman ${owner.installation}`;
    case 'shared':
    case 'user':
      return owner.name;
    case 'orphan':
    case 'none':
      return named;
  }
}

/** A sentence without its full stop. */
export function formatUnread({ project, message, permission }: UnreadLimits): string {
  const missing = permission === null ? '' : ` (missing permission: ${permission})`;
  return `The limits of project ${project} could not be read${missing}: ${message}`;
}
