// How a create ended that left nothing to look at. A stockout is told in the operation of the create and nowhere else,
// often minutes after the create itself was answered with a 200; the cloud keeps operations for days, so a controller
// that was away in between still finds it.

import type { Allocation } from '../../core/job.ts';
import { idOf } from './api.ts';
import type { Operation } from './api.ts';
import type { Creation } from './meaning.ts';

/** Full name of what the create was to make, from `nodes/` or `queuedResources/` on. */
export type Target = `nodes/${string}` | `queuedResources/${string}`;

/**
 * The outcome of the newest create of that target. A failure that the record has answered already is not reported again: its
 * words, which name the operation, are those of the allocation's last failure.
 */
export function creationOf(
  operations: readonly Operation[],
  target: Target,
  allocation: Allocation,
): Creation | undefined {
  const newest = operations
    .filter(({ metadata }) => metadata?.verb === 'create' && metadata.target?.endsWith(`/${target}`) === true)
    .reduce<Operation | undefined>(
      (best, one) => (best !== undefined && bornAt(best) > bornAt(one) ? best : one),
      undefined,
    );
  if (newest === undefined) return undefined;
  if (newest.done !== true) return { kind: 'pending' };
  if (newest.error === undefined) return undefined;
  const operation = idOf(newest.name);
  if (allocation.lastFailure?.error.raw.includes(operation) === true) return undefined;
  return { kind: 'failed', error: { ...newest.error, message: `${newest.error.message ?? ''} (${operation})` } };
}

/** By the cloud's clock alone: ours may differ, and two operations are compared with each other only. */
function bornAt({ metadata }: Operation): number {
  const at = Date.parse(metadata?.createTime ?? '');
  return Number.isNaN(at) ? 0 : at;
}
