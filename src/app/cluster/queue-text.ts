// The texts of a cluster's queue.

import type { Instant } from '../../core/model/time.ts';
import { formatAge, pluralize } from '../format.ts';
import type { QueueGroup, QueuePosition } from './queue.ts';
import type { QueueReport } from './queue-source.ts';

export const maxPositions = 50;

/** At most `maxPositions`: the user's own jobs first, then the next ones of the others. */
export function shownPositions(positions: readonly QueuePosition[]): readonly QueuePosition[] {
  if (positions.length <= maxPositions) return positions;
  const yours = positions.filter(({ yours }) => yours);
  const others = positions.filter((one) => !one.yours).toSorted((one, other) => one.position - other.position);
  const chosen = new Set([...yours, ...others].slice(0, maxPositions));
  return positions.filter((position) => chosen.has(position));
}

/** `2 of 7`, or `2-3 of 7` among jobs of the same second. */
export function formatPosition({ position, lastPosition, queueLength }: QueuePosition): string {
  return `${position === lastPosition ? position : `${position}-${lastPosition}`} of ${queueLength}`;
}

/** A sentence for each flavor that stands for different requests. `format`: makes its name fit. */
export function conflictSentences(
  groups: readonly QueueGroup[],
  format: (flavor: string) => string,
): readonly string[] {
  return [...new Set(groups.flatMap(({ flavor, conflict }) => (conflict ? [flavor ?? ''] : [])))].map(
    (flavor) => `note: the flavor ${format(flavor)} means different requests, which are counted separately`,
  );
}

/** The source of the queue and its age, then what it lacks. */
export function queueSourceSentences(
  { source, view: { jobs, yours }, context, published }: QueueReport,
  now: Instant,
  isEverywhere: boolean,
): readonly string[] {
  const mine = isEverywhere ? 'the jobs with your name' : `the jobs of ${context.namespace}`;
  const own = `${context.context}/${context.namespace}`;
  const counted = jobs === 0 ? 'No job is active' : `${pluralize(jobs, 'active job')} (${yours} yours)`;
  const list = `the ConfigMap ${published.namespace}/${published.configmap}`;
  const forbidden = 'you may not list the jobs of the whole cluster';
  switch (source.kind) {
    case 'cluster':
      return [`${counted} in the whole cluster of ${context.context}. Yours are ${mine}.`];
    case 'published': {
      const age = source.updatedAt === null ? 'of unknown age' : `${formatAge(now - source.updatedAt)} old`;
      const fresh = source.isOwnFresh ? `, with the current jobs of ${own}` : '';
      const skipped =
        source.skipped > 0 ? [`note: ${source.skipped} entries of ${list} are invalid and were skipped`] : [];
      return [
        `${counted} in the cluster of ${context.context}, from ${list}, ${age}${fresh}: ${forbidden}.`,
        ...skipped,
      ];
    }
    case 'namespace':
      return [`${counted} in ${own} only: ${forbidden}, and ${list} has no list of them.`];
  }
}
