// Held TPUs: TPUs of jobs and orphans, which cost money even while no controller runs. Reads only the store.

import { heldAllocations, isLost, isUnconfirmed, type Allocation, type Job } from '../core/model/job.ts';
import { phaseOf } from '../core/decide/phase.ts';
import { firstJobs, formatList, pluralize } from './format.ts';
import { isSimulated } from '../core/model/spec.ts';
import { formatHourlyCost } from './phrases.ts';
import type { Store } from './ports.ts';
import { priceOf } from './views.ts';

/** TPUs that stay and cost money until a user or a controller releases them. */
export interface HeldTpus {
  /** Ready TPUs of jobs, and orphans. */
  readonly tpus: number;
  /** Requests at Google, which may become TPUs at any time. */
  readonly requests: number;
  /** Estimated US dollars per hour of the ready TPUs with a known price. Simulated TPUs count only if all ready ones are. Null if no price is known. */
  readonly pricePerHourUsd: number | null;
  /** A sentence without its full stop. */
  readonly message: string;
  /** The commands that release all of it. */
  readonly release: readonly string[];
}

/** Null if nothing is held. */
export async function heldTpus(store: Pick<Store, 'list' | 'orphans'>): Promise<HeldTpus | null> {
  // A finished job may keep its TPU.
  const [{ jobs }, orphans] = await Promise.all([store.list({ maxFinished: null }), store.orphans()]);
  const held = jobs.flatMap((job) =>
    heldAllocations(job)
      .filter(mayCostMoney)
      .map((allocation) => ({ job, allocation })),
  );
  const ready = held.filter(({ allocation }) => allocation.readyAt !== null);
  const tpus = ready.length + orphans.length;
  const requests = held.length - ready.length;
  if (tpus + requests === 0) return null;
  const holders = [...new Set(held.map(({ job }) => job))].toSorted((one, other) => (one.id < other.id ? -1 : 1));
  const simulated = ready.length > 0 && ready.every(({ job }) => isSimulated(job.spec.capacity));
  const prices = ready
    .filter(({ job }) => simulated || !isSimulated(job.spec.capacity))
    .flatMap(({ job, allocation }) => priceOf(job, allocation) ?? []);
  const pricePerHourUsd = prices.length === 0 ? null : prices.reduce((sum, price) => sum + price);
  const counts = [
    ...(tpus === 0 ? [] : [pluralize(tpus, 'TPU')]),
    ...(requests === 0 ? [] : [pluralize(requests, 'request')]),
  ];
  const are = tpus + requests === 1 ? 'is' : 'are';
  const cost = pricePerHourUsd === null ? '' : ` at ${formatHourlyCost({ simulated }, pricePerHourUsd)}`;
  const names = [
    ...firstJobs(
      holders.map((job) => `job ${Number(job.id)} (${phaseOf(job)})`),
      maxNamedJobs,
    ),
    ...(orphans.length === 0 ? [] : [pluralize(orphans.length, 'orphan')]),
  ];
  return {
    tpus,
    requests,
    pricePerHourUsd,
    message: `${formatList(counts)} ${are} still held${cost}: ${formatList(names)}`,
    release: releaseCommands(holders, orphans.length > 0),
  };
}

const maxNamedJobs = 5;

/** A TPU counts until its release is confirmed, which may need the controller. A TPU that Google took costs nothing. */
function mayCostMoney(allocation: Allocation): boolean {
  return !isUnconfirmed(allocation) && !isLost(allocation);
}

function releaseCommands(holders: readonly Job[], hasOrphans: boolean): readonly string[] {
  const ids = (jobs: readonly Job[]) => jobs.map(({ id }) => Number(id)).join(' ');
  const { unfinished = [], finished = [] } = Object.groupBy(holders, ({ finish }) =>
    finish === null ? 'unfinished' : 'finished',
  );
  // `--all` means all jobs of one user, also finished ones that hold capacity.
  const isOfOneUser = new Set(holders.map(({ owner }) => owner)).size === 1;
  if (holders.length > maxNamedJobs && isOfOneUser)
    return ['jobman cancel --all', ...(hasOrphans ? ['jobman gc'] : [])];
  return [
    ...(unfinished.length === 0 ? [] : [`jobman cancel ${ids(unfinished)}`]),
    ...(finished.length === 0 ? [] : [`jobman stop ${ids(finished)} --release`]),
    ...(hasOrphans ? ['jobman gc'] : []),
  ];
}
