// The sweep: everything in some places that carries the installation's labels, whatever the records say.

import type { AllocationRef, Clock, Stray } from '../../app/ports.ts';
import { known, unknown } from '../../core/observation.ts';
import type { Fact } from '../../core/observation.ts';
import type { Place, TpuApi } from './api.ts';
import { nodeOwner, queuedOwner } from './ownership.ts';
import type { Owner } from './ownership.ts';
import { byPlace } from './places.ts';

/** The place of these allocations; of several, each is asked once, and any that could not be asked makes all unknown. */
export async function sweepPlaces(
  refs: readonly AllocationRef[],
  options: { readonly apiFor: (project: string) => TpuApi; readonly clock: Clock },
): Promise<Fact<readonly Stray[]>> {
  const since = options.clock.now();
  const answers = await Promise.all(
    byPlace(refs).map(({ place, refs: group }) => {
      const installations = new Set(group.map(({ job }) => job.installation));
      return sweepPlace(options.apiFor(place.project), place, installations);
    }),
  );
  const strays: Stray[] = [];
  for (const answer of answers) {
    if (typeof answer === 'string') return unknown(answer, since);
    strays.push(...answer);
  }
  return known(strays, since);
}

/** The orphans of one location, or why it could not be checked. */
async function sweepPlace(
  api: TpuApi,
  place: Place,
  installations: ReadonlySet<string>,
): Promise<readonly Stray[] | string> {
  // Nodes first: the queued resource of any of them is then in the second list, unless it has gone.
  const nodes = await api.listNodes(place);
  if (!nodes.ok) return nodes.error.raw;
  const queue = await api.listQueuedResources(place);
  if (!queue.ok) return queue.error.raw;
  const unreachable = [...nodes.value.unreachable, ...queue.value.unreachable];
  if (unreachable.length > 0) return `the list is not whole: ${unreachable.join(', ')} could not be asked`;

  const isOurs = (owner: Owner | undefined): owner is Owner =>
    owner !== undefined && installations.has(owner.installation);
  const queued = queue.value.items.filter((item) => isOurs(queuedOwner(item)));
  // A node goes with its queued resource, which is listed instead of it; one whose queued resource has gone stands alone.
  const queuedNames = new Set(queued.map(({ name }) => name));
  const alone = nodes.value.items.filter(
    (node) => isOurs(nodeOwner(node)) && !queuedNames.has(node.queuedResource ?? ''),
  );
  return [
    ...queued.flatMap((item) => strayOf(item.name, queuedOwner(item), item.state?.state)),
    ...alone.flatMap((node) => strayOf(node.name, nodeOwner(node), node.state)),
  ];
}

function strayOf(resource: string, owner: Owner | undefined, state = 'STATE_UNSPECIFIED'): readonly Stray[] {
  return owner === undefined ? [] : [{ backend: 'tpu', resource, ...owner, state }];
}
