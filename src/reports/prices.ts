// Prices: one lookup for everything that is priced, in the own prices of the settings first, then in the catalogue.

import { matchesGlob } from 'node:path';
import { findAccelerator, generationOf } from '../catalogue/accelerators.ts';
import { pricePerHour, priceTable } from '../catalogue/prices.ts';
import type { CapacitySpec } from '../core/model/spec.ts';
import type { Instant } from '../core/model/time.ts';

export type PricedTier = 'spot' | 'preemptible' | 'ondemand' | 'reserved';

/** One entry of the setting `prices`: exactly one of the first three fields, and exactly one of the two amounts. */
export interface OwnPrice {
  /** A type like `v6e-8`, a generation like `v5e`, or a pattern like `v4-*`. */
  readonly accelerator?: string | undefined;
  /** Name of a resource flavor of Kubernetes jobs. */
  readonly flavor?: string | undefined;
  /** Name of a machine; `localhost` is the machine of the controller. */
  readonly host?: string | undefined;
  /** A zone, or a pattern like `us-*`. */
  readonly zone?: string | undefined;
  readonly pricing?: PricedTier | undefined;
  /** For one slice of the accelerator, one pod of the flavor, or the host. */
  readonly usdPerHour?: number | undefined;
  readonly usdPerChipHour?: number | undefined;
  /** A day (from 00:00 UTC) or a time. */
  readonly since?: string | undefined;
}

/** The own price of a resource flavor: exactly one of the two amounts. */
export type FlavorPrice = Pick<OwnPrice, 'usdPerHour' | 'usdPerChipHour'>;

/** The subject of a price: one of `accelerator`, `flavor`, `host`. */
export interface PriceQuery {
  readonly accelerator?: string | null;
  readonly flavor?: string | null;
  readonly host?: string | null;
  readonly zone?: string | null;
  readonly pricing?: PricedTier | null;
  /** Slices, or pods of the flavor; 1 by default. */
  readonly count?: number;
  /** TPU chips or GPUs of one slice or pod. By default those of the accelerator type; a flavor has no default. */
  readonly chips?: number | null;
  /** The time of the usage. Without it, the newest price applies. */
  readonly at?: Instant;
}

export interface Price {
  /** US dollars for an hour of all slices or pods together. */
  readonly usdPerHour: number;
  /** `settings`, or the date of the price table: `2026-08-01`. */
  readonly pricesOf: string;
}

/** The price of a job's own capacity, of all slices together. Null: not priced. */
export function capacityPrice(own: readonly OwnPrice[], capacity: CapacitySpec, at: Instant): Price | null {
  if ('hosts' in capacity) {
    const prices = capacity.hosts.map((host) => priceOf(own, { host, at }));
    const usdPerHour = prices.reduce((sum, price) => sum + (price?.usdPerHour ?? NaN), 0);
    return Number.isNaN(usdPerHour) ? null : { usdPerHour, pricesOf: 'settings' };
  }
  const { accelerator, zone, pricing, nodeCount = 1 } = capacity;
  return priceOf(own, { accelerator, zone, pricing, count: nodeCount, at });
}

/**
 * Null: not priced. An own price that matches hides the catalogue, even before its first `since`. Of several that have
 * begun, the most specific applies (type before pattern, then zone, then pricing), and of those the newest.
 */
export function priceOf(own: readonly OwnPrice[], query: PriceQuery): Price | null {
  const { at = Number.POSITIVE_INFINITY, count = 1 } = query;
  const matching = own.filter((price) => matches(price, query));
  if (matching.length > 0) {
    const applied = appliedPrice(matching, at);
    const usdPerHour = applied === null ? null : amountOf(applied, query);
    return usdPerHour === null ? null : { usdPerHour: usdPerHour * count, pricesOf: 'settings' };
  }
  const { accelerator = null, zone = null, pricing = null } = query;
  if (accelerator === null || zone === null || pricing === null) return null;
  const usdPerHour = pricePerHour({ accelerator, zone, pricing, nodeCount: count });
  return usdPerHour === null ? null : { usdPerHour, pricesOf: priceTable.date };
}

/** The own price of a flavor at that time. It is stored with the job, so that a later price changes nothing. */
export function flavorPriceOf(own: readonly OwnPrice[], flavor: string | null, at: Instant): FlavorPrice | null {
  if (flavor === null) return null;
  const applied = appliedPrice(
    own.filter((price) => matches(price, { flavor })),
    at,
  );
  if (applied === null) return null;
  const { usdPerHour, usdPerChipHour } = applied;
  return usdPerHour === undefined ? { usdPerChipHour } : { usdPerHour };
}

/** US dollars for an hour of one pod with that number of GPUs. */
export function podPrice({ usdPerHour, usdPerChipHour = 0 }: FlavorPrice, chips: number): number {
  return usdPerHour ?? usdPerChipHour * chips;
}

function appliedPrice(matching: readonly OwnPrice[], at: Instant): OwnPrice | null {
  const begun = matching.filter(({ since }) => since === undefined || Date.parse(since) <= at);
  return begun.length === 0 ? null : begun.reduce(preferred);
}

function matches({ accelerator, flavor, host, zone, pricing }: OwnPrice, query: PriceQuery): boolean {
  const { accelerator: type = null } = query;
  const isSubject =
    accelerator === undefined
      ? flavor === undefined
        ? host !== undefined && host === query.host
        : flavor === query.flavor
      : type !== null && (matchesGlob(type, accelerator) || generationOf(type)?.name === accelerator);
  return (
    isSubject &&
    (zone === undefined || (query.zone !== undefined && query.zone !== null && matchesGlob(query.zone, zone))) &&
    (pricing === undefined || pricing === query.pricing)
  );
}

function preferred(one: OwnPrice, other: OwnPrice): OwnPrice {
  const difference = specificity(other) - specificity(one) || sinceOf(other) - sinceOf(one);
  // Of two equal ones, the later in the file.
  return difference >= 0 ? other : one;
}

function specificity({ accelerator, zone, pricing }: OwnPrice): number {
  const ofType = accelerator === undefined ? 0 : findAccelerator(accelerator) === undefined ? 1 : 2;
  const ofZone = zone === undefined ? 0 : zone.includes('*') ? 1 : 2;
  return ofType * 9 + ofZone * 3 + (pricing === undefined ? 0 : 1);
}

/** The time from which the price applies; 0: always. */
export function sinceOf({ since }: OwnPrice): number {
  // Not infinite: the difference of two infinite values is not a number.
  return since === undefined ? 0 : Date.parse(since);
}

function amountOf({ usdPerHour, usdPerChipHour = 0 }: OwnPrice, query: PriceQuery): number | null {
  if (usdPerHour !== undefined) return usdPerHour;
  const chips = query.chips ?? findAccelerator(query.accelerator ?? '')?.chips;
  return chips === undefined ? null : usdPerChipHour * chips;
}
