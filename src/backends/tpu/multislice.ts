// Multislice: several nodes of one queued resource, which are one allocation. They come and go together: what one of them
// is, the whole is not better than.

import type { TpuNode } from './api.ts';

/** From what can never be used again to what can be used now; words that are not here are between the last two. */
const order = ['PREEMPTED', 'TERMINATED', 'HIDDEN', 'STOPPED', 'STOPPING', 'DELETING'];

/**
 * The nodes as one, in the order of their workers, which are numbered through: in the state of the worst of them, with the
 * endpoints of all. A single one is itself. Undefined while one is missing of which nobody can say more, unless another is
 * past use already.
 */
export function asOne(nodes: readonly (TpuNode | undefined)[]): TpuNode | undefined {
  const there = nodes.filter((node) => node !== undefined);
  const [first] = there;
  if (first === undefined || nodes.length === 1) return first;
  const worst = there.reduce((bad, node) => (rank(node) < rank(bad) ? node : bad));
  if (there.length < nodes.length && rank(worst) >= order.length) return undefined;
  const unwell = there.find(({ health }) => health !== undefined && health !== 'HEALTHY');
  return {
    ...worst,
    name: first.name,
    ...(unwell?.health === undefined ? {} : { health: unwell.health }),
    // A slice without addresses leaves all of them without: worker numbers must not shift.
    networkEndpoints: there.some(({ networkEndpoints = [] }) => networkEndpoints.length === 0)
      ? []
      : there.flatMap(({ networkEndpoints = [] }) => networkEndpoints),
  };
}

function rank({ state = '' }: TpuNode): number {
  const at = order.indexOf(state);
  if (at >= 0) return at;
  return state === 'READY' ? order.length + 1 : order.length;
}
