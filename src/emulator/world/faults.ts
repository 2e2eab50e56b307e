/** The lasting conditions (`stockout`, `quota`, `hold`, …). Each caller applies the condition of its verb. */
import type { Duration } from '../../core/model/time.ts';
import { findAccelerator } from '../../catalogue/accelerators.ts';
import { acceleratorsIn, offeredGenerations, zones } from '../../catalogue/zones.ts';
import { type Data, messageOf } from '../wire/messages.ts';
import type { FaultCondition } from './records.ts';
import type { World } from './world.ts';

export type Pricing = 'spot' | 'ondemand' | 'reserved';

/** The pricing of a requested node. Preemptible counts as spot. */
export function pricingOf(node: Data): Pricing {
  const scheduling = messageOf(node, 'schedulingConfig');
  const model = scheduling['provisioningModel'];
  if (scheduling['spot'] === true || scheduling['preemptible'] === true || model === 'SPOT') return 'spot';
  return scheduling['reserved'] === true || model === 'RESERVATION_BOUND' ? 'reserved' : 'ondemand';
}

/** The subject of a request, in all terms that a condition may match. */
export interface FaultSubject {
  readonly project: string;
  readonly zone: string;
  readonly type: string;
  /** The catalogue's name, such as `v5e`. */
  readonly generation: string;
  readonly pricing: Pricing;
  /** Ids and full names of the node and of its queued resource, and the job id in its labels. */
  readonly names: readonly string[];
}

export function subjectOf(
  { project, zone }: { readonly project: string; readonly zone: string },
  type: string,
  node: Data,
  names: readonly (string | null)[],
): FaultSubject {
  const labels = (node['labels'] ?? {}) as Record<string, string>;
  const known = names.filter((name) => name !== null);
  return {
    project,
    zone,
    type,
    generation: findAccelerator(type)?.generation.name ?? 'v2',
    pricing: pricingOf(node),
    names: [
      ...known,
      ...known.map((name) => name.slice(name.lastIndexOf('/') + 1)),
      ...jobIdForms(labels['jobman-job']),
    ],
  };
}

/** The ways to write a job id: `1` and `000001` are one job. */
export function jobIdForms(label: string | undefined): string[] {
  if (label === undefined) return [];
  return /^\d+$/.test(label) ? [label, String(Number(label)), label.padStart(6, '0')] : [label];
}

export function findCondition(world: World, verb: string, subject: FaultSubject): FaultCondition | undefined {
  return conditionsOf(world, verb).find((condition) => matchesSubject(condition, subject));
}

/** For values such as prices, where a later condition replaces an earlier one. */
export function findLatestCondition(world: World, verb: string, subject: FaultSubject): FaultCondition | undefined {
  return conditionsOf(world, verb).findLast((condition) => matchesSubject(condition, subject));
}

/** Like `findCondition`, for a condition on `keyword` (`addresses`, `requests`) instead of the whole request. */
export function findConditionOn(
  world: World,
  verb: string,
  subject: FaultSubject,
  keyword: string,
): FaultCondition | undefined {
  const withKeyword = { ...subject, names: [...subject.names, keyword] };
  return conditionsOf(world, verb).find(
    (condition) => condition.target.split('/').includes(keyword) && matchesSubject(condition, withKeyword),
  );
}

/** All conditions in force now, oldest first. Expired ones stay in the table until `removeExpiredConditions`. */
export function activeConditions(world: World): FaultCondition[] {
  const now = world.now();
  return world.conditions
    .values()
    .filter((condition) => (condition.until === null || condition.until > now) && condition.remaining !== 0)
    .toSorted((a, b) => (a.key < b.key ? -1 : 1));
}

export function conditionsOf(world: World, verb: string): FaultCondition[] {
  return activeConditions(world).filter((condition) => condition.verb === verb);
}

export function removeExpiredConditions(world: World): void {
  const activeKeys = new Set(activeConditions(world).map(({ key }) => key));
  for (const { key } of world.conditions.values()) if (!activeKeys.has(key)) world.conditions.remove(key);
}

export function countUse(world: World, condition: FaultCondition): void {
  if (condition.remaining === null) return;
  if (condition.remaining <= 1) world.conditions.remove(condition.key);
  else world.conditions.put(condition.key, { ...condition, remaining: condition.remaining - 1 });
}

/** A target is one term or several joined by `/` (`us-central1-a/v5litepod-16`); all must match. */
function matchesSubject(condition: FaultCondition, subject: FaultSubject): boolean {
  const { pricing, project } = condition.options;
  if (pricing !== undefined && pricing !== subject.pricing) return false;
  if (project !== undefined && project !== subject.project) return false;
  if (condition.target === '*' || subject.names.includes(condition.target)) return true;
  const terms = condition.target.split('/');
  return terms.every(
    (term) =>
      term === subject.zone || term === subject.type || term === subject.generation || subject.names.includes(term),
  );
}

export const offeringTerms: ReadonlySet<string> = new Set([
  ...zones,
  ...zones.flatMap((zone) => acceleratorsIn(zone).map(({ type }) => type)),
  ...offeredGenerations,
]);

/** True for a target of known zones, types and generations only. */
export function isOffering(target: string): boolean {
  return target === '*' || target.split('/').every((term) => offeringTerms.has(term));
}

/** The factor by which actions take longer there now; counts as one use. */
export function slowFactor(world: World, subject: FaultSubject): number {
  const condition = conditionsOf(world, 'slow').find(
    (each) =>
      matchesSubject(each, subject) && (each.options['factor'] !== undefined || each.options['replies'] === undefined),
  );
  if (condition === undefined) return 1;
  countUse(world, condition);
  return Number(condition.options['factor'] ?? 10);
}

/**
 * In milliseconds. Counts as one use and is a change of its own: do not call it within another. A condition on one type
 * or one node delays all replies, because a call need not name any.
 */
export function replyDelay(world: World, from: { readonly zone: string | undefined } | 'storage'): Duration {
  const condition = conditionsOf(world, 'slow').find(({ target, options }) => {
    if (options['replies'] === undefined || (target === 'storage') !== (from === 'storage')) return false;
    const named = target.split('/').find((segment) => zones.includes(segment));
    return from === 'storage' || named === undefined || named === from.zone;
  });
  if (condition === undefined) return 0;
  world.change(() => countUse(world, condition));
  return Number(condition.options['replies']);
}

/** True when this call fails. A change of its own, so do not call it within another. */
export function isFlaky(world: World, matchesTarget: (target: string) => boolean): boolean {
  const condition = conditionsOf(world, 'flaky').find(({ target }) => matchesTarget(target));
  if (condition === undefined || world.random.next() >= Number(condition.options['p'] ?? 0.5)) return false;
  world.change(() => countUse(world, condition));
  return true;
}

/** The retry interval of a waiting request: five seconds of Google's time, at least 200 ms here. */
export function pollInterval(world: World): Duration {
  return Math.max(200, Math.round(5000 / world.speed));
}
