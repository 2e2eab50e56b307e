// The order of workers in which a person finds the one that differs.

import type { WorkerView } from './client.ts';

/** First workers with a rare state, then those with the oldest log. */
function byDifference(workers: readonly WorkerView[]): readonly WorkerView[] {
  const counts = new Map<string, number>();
  for (const { message } of workers) counts.set(message, (counts.get(message) ?? 0) + 1);
  const rarity = ({ message }: WorkerView) => counts.get(message) ?? 0;
  const age = ({ logAgeMs }: WorkerView) => logAgeMs ?? 0;
  return workers.toSorted((one, other) => rarity(one) - rarity(other) || age(other) - age(one));
}

/** The `count` workers that differ most, in the order of the workers. */
export function unusualWorkers(workers: readonly WorkerView[], count: number): readonly WorkerView[] {
  const chosen = new Set(byDifference(workers).slice(0, count));
  return workers.filter((worker) => chosen.has(worker));
}

/** The workers whose state is not that of most, or whose log is much older than that of most. */
function differingWorkers(workers: readonly WorkerView[]): ReadonlySet<WorkerView['worker']> {
  if (workers.length < 2) return new Set();
  const states = Map.groupBy(workers, ({ message }) => message);
  const most = Math.max(...[...states.values()].map((same) => same.length));
  const ages = workers.map(({ logAgeMs }) => logAgeMs ?? 0).toSorted((one, other) => one - other);
  const median = ages[Math.floor((ages.length - 1) / 2)] ?? 0;
  const limit = Math.max(60_000, 5 * median);
  const isRare = (same: readonly WorkerView[]) => 2 * same.length < workers.length && same.length < most;
  return new Set(
    workers
      .filter(({ message, logAgeMs }) => isRare(states.get(message) ?? []) || (logAgeMs ?? 0) > limit)
      .map(({ worker }) => worker),
  );
}

/** The differing ones first, then the others in the order of the workers. */
export function differingFirst(
  workers: readonly WorkerView[],
): readonly { readonly worker: WorkerView; readonly isDifferent: boolean }[] {
  const different = differingWorkers(workers);
  return [
    ...byDifference(workers)
      .filter(({ worker }) => different.has(worker))
      .map((worker) => ({ worker, isDifferent: true })),
    ...workers.filter(({ worker }) => !different.has(worker)).map((worker) => ({ worker, isDifferent: false })),
  ];
}

/** The last state of a line: a progress bar overwrites itself. */
export function lastState(line: string): string {
  return line.trimEnd().split('\r').at(-1) ?? '';
}
