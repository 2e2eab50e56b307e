// Grants: what may be asked of a cloud without a question, as the owner of the bill has written it into the settings. A list
// of what is allowed. Without any row everything is allowed, and a new job on a terminal is asked about once, with its price.
// Nothing of the built-in cloud needs a grant.

import { accelerator, generationOf } from '../catalogue/accelerators.ts';
import { usableAllocation } from '../core/allocate.ts';
import { heldAllocations, type Job } from '../core/job.ts';
import { capacityAt, placesOf } from '../core/place.ts';
import type { JobSpec, TpuSpec } from '../core/spec.ts';
import type { Instant } from '../core/time.ts';
import type { Beyond } from './client.ts';
import { costOf, isPretended } from './cost.ts';
import { countText } from './figures.ts';
import { endOf, type Grant } from './grant-parts.ts';
import { acceleratorText } from './phrases.ts';
import type { Store } from './ports.ts';

/**
 * Why something is outside of the grants, as a sentence without its full stop; null when it is inside. A spec that names
 * several places has to be inside with each of them, since it may come to any.
 */
export function whyBeyond(
  grants: readonly Grant[],
  asked: TpuSpec,
  /** Jobs that may hold something; the one that asks is not among them. */
  others: readonly Job[],
  now: Instant,
): string | null {
  if (grants.length === 0 || asked.ownership === 'standing' || isPretended(asked)) return null;
  for (const place of placesOf(asked).keys()) {
    const why = whyBeyondAt(grants, capacityAt(asked, place), others, now);
    if (why !== null) return why;
  }
  return null;
}

/** The question before a request outside of the grants; null when there is none. */
export async function beyondGrants(
  parts: {
    readonly store: Pick<Store, 'list'>;
    readonly now: () => Instant;
    readonly grants: () => Promise<readonly Grant[]>;
    readonly pricePerHour: (spec: JobSpec) => Promise<number | null> | number | null;
  },
  spec: JobSpec,
  /** The job that is wanted again; null for one that is to be created. */
  job: Job | null,
): Promise<Beyond | null> {
  const { capacity } = spec;
  const grants = await parts.grants();
  if (capacity.kind !== 'tpu' || (job !== null && hasAsked(job))) return null;
  if (grants.length === 0) return job === null ? priceQuestion(capacity, await parts.pricePerHour(spec)) : null;
  const { jobs } = await parts.store.list({ settledMost: settledLooked, withRemoved: true });
  const others = jobs.filter(({ id }) => id !== job?.id);
  const why = whyBeyond(grants, capacity, others, parts.now());
  if (why === null) return null;
  const price = await parts.pricePerHour(spec);
  return { sentence: why, cost: price === null ? null : costOf(capacity, price), remedy };
}

/** A new job that costs money, where no grants say what does. */
function priceQuestion(asked: TpuSpec, price: number | null): Beyond | null {
  if (asked.ownership === 'standing' || isPretended(asked)) return null;
  const sentence = `The job requests ${acceleratorText(asked)} ${asked.pricing} in ${asked.zone}`;
  return { sentence, cost: price === null ? null : costOf(asked, price), remedy, mayContinue: true };
}

const remedy = 'The setting `grants` says what needs no question.';

/** True if the job has kept its capacity, or waits for it already. */
function hasAsked(job: Job): boolean {
  return usableAllocation(job) !== undefined || (job.settled === null && job.desired === 'run');
}

/** A settled job may have kept its TPU; one that has done so for long is among those that settled last only by chance. */
const settledLooked = 1_000;

function whyBeyondAt(grants: readonly Grant[], asked: TpuSpec, others: readonly Job[], now: Instant): string | null {
  const what = `${asked.accelerator} ${asked.pricing} in ${asked.zone}`;
  const about = grants.filter((grant) => isAbout(grant, asked));
  if (about.length === 0) return `${what} is in none of the grants of the settings`;
  const standing = about.filter(({ until }) => until === undefined || now < endOf(until));
  if (standing.length === 0) return `${what}: its grant was until ${about.at(-1)?.until ?? ''}`;
  const reasons = standing.map((grant) => whyTooMany(grant, asked, others));
  return reasons.includes(null) ? null : `${what}: ${reasons[0] ?? ''}`;
}

function whyTooMany({ chips, ...grant }: Grant, asked: TpuSpec, others: readonly Job[]): string | null {
  if (chips === undefined) return null;
  const wanted = chipsOf(asked);
  if (wanted === undefined) return `nobody here knows how many chips it has, and ${chips} are granted`;
  let held = 0;
  const holders: string[] = [];
  for (const job of others) {
    const counted = takenBy(job).filter((spec) => isAbout(grant, spec));
    if (counted.length === 0) continue;
    held += counted.reduce((sum, spec) => sum + (chipsOf(spec) ?? 0), 0);
    holders.push(job.id);
  }
  if (held + wanted <= chips) return null;
  const names = `${holders.slice(0, namedMost).join(', ')}${holders.length > namedMost ? ' and others' : ''}`;
  return `it has ${countText(wanted, 'chip')} where ${chips} are granted${held === 0 ? '' : `, and ${held} are taken by ${names}`}`;
}

/** Jobs that a sentence names before it says "and others". */
const namedMost = 5;

/**
 * The paid capacity of a job: all that it holds; or, while it is wanted and holds nothing, its next request,
 * so that what was created a moment ago counts before the cloud has heard of it.
 */
function takenBy(job: Job): readonly TpuSpec[] {
  const { capacity } = job.spec;
  if (capacity.kind !== 'tpu' || capacity.ownership === 'standing' || isPretended(capacity)) return [];
  const held = heldAllocations(job);
  if (held.length > 0) return held.map(({ place = 0 }) => capacityAt(capacity, place));
  return job.settled === null && job.desired === 'run' ? [capacity] : [];
}

function chipsOf({ accelerator: type, nodeCount = 1 }: TpuSpec): number | undefined {
  const chips = accelerator(type)?.chips;
  return chips === undefined ? undefined : chips * nodeCount;
}

function isAbout(grant: Grant, { zone, accelerator: type, pricing }: TpuSpec): boolean {
  return (
    (grant.zone === undefined || isLike(zone, grant.zone)) &&
    (grant.pricing === undefined || grant.pricing === pricing) &&
    (grant.accelerator === undefined ||
      isLike(type, grant.accelerator) ||
      generationOf(type)?.name === grant.accelerator)
  );
}

function isLike(text: string, pattern: string): boolean {
  const parts = pattern.split('*').map((part) => part.replaceAll(/[\\^$.|?+()[\]{}]/g, '\\$&'));
  return new RegExp(`^${parts.join('.*')}$`).test(text);
}
