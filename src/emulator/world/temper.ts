/**
 * The temper of the cloud: standing conditions (`stockout`, `quota`, `hold`, …) and the questions that the rest of the
 * world asks about them. All verbs leave the same kind of record; what each means is said where it is asked for.
 */
import type { Duration } from '../../core/time.ts';
import { accelerator } from '../../catalogue/accelerators.ts';
import { acceleratorsIn, offeredGenerations, zones } from '../../catalogue/zones.ts';
import { type Data, messageOf } from '../wire/messages.ts';
import type { Condition } from './records.ts';
import type { World } from './world.ts';

export type Pricing = 'spot' | 'ondemand' | 'reserved';

/** How a node is paid for, by what was asked. Preemptible capacity counts as spot. */
export function pricingOf(node: Data): Pricing {
  const scheduling = messageOf(node, 'schedulingConfig');
  const model = scheduling['provisioningModel'];
  if (scheduling['spot'] === true || scheduling['preemptible'] === true || model === 'SPOT') return 'spot';
  return scheduling['reserved'] === true || model === 'RESERVATION_BOUND' ? 'reserved' : 'ondemand';
}

/** The subject of a request, in every word that a condition may use for it. */
export interface Place {
  readonly project: string;
  readonly zone: string;
  readonly type: string;
  /** `v5e`, as the catalogue names it. */
  readonly generation: string;
  readonly pricing: Pricing;
  /** Ids and full names of the node and of its queued resource, and the job id in its labels. */
  readonly names: readonly string[];
}

/** The place of a request: `names` are those of the node and of its queued resource. */
export function placeOf(
  { project, zone }: { readonly project: string; readonly zone: string },
  type: string,
  node: Data,
  names: readonly (string | null)[],
): Place {
  const labels = (node['labels'] ?? {}) as Record<string, string>;
  const known = names.filter((name) => name !== null);
  return {
    project,
    zone,
    type,
    generation: accelerator(type)?.generation.name ?? 'v2',
    pricing: pricingOf(node),
    names: [...known, ...known.map((name) => name.slice(name.lastIndexOf('/') + 1)), ...jobWords(labels['jobman-job'])],
  };
}

/** How people may write a job id: `1` and `000001` are one job. */
export function jobWords(label: string | undefined): string[] {
  if (label === undefined) return [];
  return /^\d+$/.test(label) ? [label, String(Number(label)), label.padStart(6, '0')] : [label];
}

/** The condition of that verb which strikes here, the oldest first; undefined when none does. */
export function strikes(world: World, verb: string, place: Place): Condition | undefined {
  return standing(world, verb).find((condition) => isAbout(condition, place));
}

/** The same, the newest first: for what is not struck but said, where a later word takes the place of an earlier one. */
export function saidLast(world: World, verb: string, place: Place): Condition | undefined {
  return standing(world, verb).findLast((condition) => isAbout(condition, place));
}

/** Like `strikes`, for what is not about the request as a whole but about its `word` (`addresses`, `requests`). */
export function strikesAt(world: World, verb: string, place: Place, word: string): Condition | undefined {
  const withWord = { ...place, names: [...place.names, word] };
  return standing(world, verb).find(
    (condition) => condition.target.split('/').includes(word) && isAbout(condition, withWord),
  );
}

/** All conditions that are in force now, the oldest first. Those whose time is over are kept until somebody sweeps. */
export function inForce(world: World): Condition[] {
  const now = world.now();
  return world.conditions
    .values()
    .filter((condition) => (condition.until === null || condition.until > now) && condition.remaining !== 0)
    .toSorted((a, b) => (a.key < b.key ? -1 : 1));
}

/** Those of one verb. */
export function standing(world: World, verb: string): Condition[] {
  return inForce(world).filter((condition) => condition.verb === verb);
}

/** Takes off what is not in force any more, so that nobody is told of it and the shelf does not grow. */
export function sweepConditions(world: World): void {
  const kept = new Set(inForce(world).map(({ key }) => key));
  for (const { key } of world.conditions.values()) if (!kept.has(key)) world.conditions.remove(key);
}

/** Counts one strike of a condition that strikes a limited number of times; the last one takes it off. */
export function useUp(world: World, condition: Condition): void {
  if (condition.remaining === null) return;
  if (condition.remaining <= 1) world.conditions.remove(condition.key);
  else world.conditions.put(condition.key, { ...condition, remaining: condition.remaining - 1 });
}

/** A target is a word or several joined by `/` (`us-central1-a/v5litepod-16`), each of which must hold. */
function isAbout(condition: Condition, place: Place): boolean {
  const { pricing, project } = condition.options;
  if (pricing !== undefined && pricing !== place.pricing) return false;
  if (project !== undefined && project !== place.project) return false;
  if (condition.target === '*' || place.names.includes(condition.target)) return true;
  const words = condition.target.split('/');
  return words.every(
    (word) => word === place.zone || word === place.type || word === place.generation || place.names.includes(word),
  );
}

/** Every word by which a target names a place: zones, types and generations that are offered. */
export const placeWords: ReadonlySet<string> = new Set([
  ...zones,
  ...zones.flatMap((zone) => acceleratorsIn(zone).map(({ type }) => type)),
  ...offeredGenerations,
]);

/** True for a target that names places only, all of which the catalogue knows. */
export function isPlace(target: string): boolean {
  return target === '*' || target.split('/').every((word) => placeWords.has(word));
}

/** How much longer than usual what begins now takes there; counted as one strike. */
export function slowness(world: World, place: Place): number {
  const condition = standing(world, 'slow').find(
    (each) => isAbout(each, place) && (each.options['factor'] !== undefined || each.options['replies'] === undefined),
  );
  if (condition === undefined) return 1;
  useUp(world, condition);
  return Number(condition.options['factor'] ?? 10);
}

/**
 * How long a reply is kept back, in milliseconds: that of a call to a zone, or to Storage. Counted as one strike: a
 * change of its own, so not to be asked within another.
 * A condition that slows one kind of TPU or one node slows all replies, for a call need not name any.
 */
export function replyDelay(world: World, from: { readonly zone: string | undefined } | 'storage'): Duration {
  const condition = standing(world, 'slow').find(({ target, options }) => {
    if (options['replies'] === undefined || (target === 'storage') !== (from === 'storage')) return false;
    const named = target.split('/').find((word) => zones.includes(word));
    return from === 'storage' || named === undefined || named === from.zone;
  });
  if (condition === undefined) return 0;
  world.change(() => useUp(world, condition));
  return Number(condition.options['replies']);
}

/** True when `flaky` strikes a call this time. A change of its own, so not to be asked within another. */
export function isFlaky(world: World, isAboutIt: (target: string) => boolean): boolean {
  const condition = standing(world, 'flaky').find(({ target }) => isAboutIt(target));
  if (condition === undefined || world.chance.next() >= Number(condition.options['p'] ?? 0.5)) return false;
  world.change(() => useUp(world, condition));
  return true;
}

/** How often a waiting request is looked at again: every five seconds of Google's time, but not in a busy loop. */
export function lookEvery(world: World): Duration {
  return Math.max(200, Math.round(5000 / world.speed));
}
