// The list of `jobman prices`: own prices first, then the list prices that they do not replace.

import { matchesGlob } from 'node:path';
import {
  acceleratorsOf,
  findAccelerator,
  generationOf,
  generations,
  suggestAccelerator,
  type Accelerator,
} from '../catalogue/accelerators.ts';
import { didYouMean } from '../catalogue/did-you-mean.ts';
import { pricePerHour, pricedRegions, priceTable } from '../catalogue/prices.ts';
import { regionOf, zones } from '../catalogue/zones.ts';
import type { Instant } from '../core/model/time.ts';
import { priceOf, sinceOf, type OwnPrice, type PricedTier } from './prices.ts';

export interface PriceRow {
  /** A type, a generation, or the pattern of an own price; null for a flavor or a machine. */
  readonly accelerator: string | null;
  /** True for the prices of v2 and v3 slices of several machines, which differ from those of one machine. */
  readonly slice: boolean;
  /** The resource flavor; null for others. */
  readonly flavor: string | null;
  /** The machine; null for others. */
  readonly host: string | null;
  /** The zone of an own price, or its pattern; null: every zone, or those of `region`. */
  readonly zone: string | null;
  /** The region of a price of the catalogue; null for an own price. */
  readonly region: string | null;
  /** Null: every pricing. */
  readonly pricing: PricedTier | null;
  /** US dollars for one chip; null if the price is for the whole and the number of chips is not known. */
  readonly pricePerChipHourUsd: number | null;
  /** US dollars for one slice of the type, one pod of the flavor, or the machine; null for a generation. */
  readonly pricePerHourUsd: number | null;
  /** `settings`: your own price. `catalogue`: a list price of Google. */
  readonly source: 'settings' | 'catalogue';
  /** The date of the price table, such as `2026-08-01`; `settings` for your own price. */
  readonly pricesOf: string;
  /** Time from which your own price applies; null: always. */
  readonly sinceAt: Instant | null;
}

export interface PriceListQuery {
  /** Types, generations, or flavors and machines that have an own price; empty: all. */
  readonly names: readonly string[];
  /** A zone or a region. */
  readonly zone?: string | undefined;
}

/** A name that is none of these, with the likely correction. */
export interface UnknownName {
  readonly name: string;
  readonly suggestion: string | undefined;
}

export function unknownNames(own: readonly OwnPrice[], names: readonly string[]): readonly UnknownName[] {
  const known = [...generations.map(({ name }) => name), ...own.flatMap(({ flavor, host }) => flavor ?? host ?? [])];
  return names
    .filter((name) => findAccelerator(name) === undefined && !known.includes(name))
    .map((name) => ({ name, suggestion: didYouMean(name, known) ?? suggestAccelerator(name) }));
}

/** Prices at this time: own prices in their order, then the catalogue's by age of the generation. */
export function priceList(own: readonly OwnPrice[], query: PriceListQuery, now: Instant): readonly PriceRow[] {
  const { names, zone } = query;
  const wanted = names.length === 0 ? generations.map(({ name }) => name) : names;
  const ownRows = own
    .filter((price, index) => !own.slice(index + 1).some((later) => replaces(later, price)))
    .filter((price) => names.length === 0 || names.some((name) => isAbout(price, name)))
    .filter((price) => zone === undefined || price.zone === undefined || matchesZone(zone, price.zone))
    .map((price) =>
      ownRow(
        price,
        names.find((name) => findAccelerator(name) !== undefined && isAbout(price, name)),
      ),
    );
  return [...ownRows, ...wanted.flatMap((name) => catalogueRows(own, name, zone, now))];
}

/** Of two prices for the same usage from the same time, the later in the file applies: see `priceOf`. */
function replaces(later: OwnPrice, price: OwnPrice): boolean {
  const fields = ['accelerator', 'flavor', 'host', 'zone', 'pricing'] as const;
  return fields.every((field) => later[field] === price[field]) && sinceOf(later) === sinceOf(price);
}

function isAbout({ accelerator, flavor, host }: OwnPrice, name: string): boolean {
  if (accelerator === undefined) return name === (flavor ?? host);
  const types = findAccelerator(name) === undefined ? typesOf(name) : [name];
  return types.some((type) => matchesGlob(type, accelerator) || generationOf(type)?.name === accelerator);
}

function typesOf(generationName: string): readonly string[] {
  const generation = generations.find(({ name }) => name === generationName);
  return generation === undefined ? [] : acceleratorsOf(generation).map(({ type }) => type);
}

/** `wanted` is a zone or a region. */
function matchesZone(wanted: string, pattern: string): boolean {
  return matchesGlob(wanted, pattern) || zonesIn(wanted).some((zone) => matchesGlob(zone, pattern));
}

/** A zone is its own only one. */
function zonesIn(zoneOrRegion: string): readonly string[] {
  if (regionOf(zoneOrRegion) !== zoneOrRegion) return [zoneOrRegion];
  const known = zones.filter((zone) => regionOf(zone) === zoneOrRegion);
  return known.length === 0 ? [`${zoneOrRegion}-a`] : known;
}

function ownRow(price: OwnPrice, type: string | undefined): PriceRow {
  const { accelerator: pattern = null, flavor = null, host = null, zone = null, pricing = null, since } = price;
  const { usdPerHour = null, usdPerChipHour = null } = price;
  const accelerator = type ?? pattern;
  const chips = accelerator === null ? undefined : findAccelerator(accelerator)?.chips;
  return {
    accelerator,
    slice: false,
    flavor,
    host,
    zone,
    region: null,
    pricing,
    pricePerChipHourUsd: usdPerChipHour ?? (chips === undefined || usdPerHour === null ? null : usdPerHour / chips),
    pricePerHourUsd: usdPerHour ?? (chips === undefined || usdPerChipHour === null ? null : usdPerChipHour * chips),
    source: 'settings',
    pricesOf: 'settings',
    sinceAt: since === undefined ? null : Date.parse(since),
  };
}

/** Without the rows that an own price replaces in every zone of their region. */
function catalogueRows(
  own: readonly OwnPrice[],
  name: string,
  zone: string | undefined,
  now: Instant,
): readonly PriceRow[] {
  const type = findAccelerator(name);
  return (type === undefined ? examplesOf(name) : [type]).flatMap((example) =>
    pricedRegions(example)
      .filter((region) => zone === undefined || regionOf(zone) === region)
      .flatMap((region) =>
        (['ondemand', 'spot'] as const).flatMap((pricing): readonly PriceRow[] => {
          const usdPerHour = pricePerHour({ accelerator: example.type, zone: region, pricing });
          const at = zonesIn(zone ?? region);
          // Also by an own price that begins later: until then, a job is not priced.
          const isReplaced = at.every((one) => {
            const price = priceOf(own, { accelerator: example.type, zone: one, pricing, at: now });
            return price === null || price.pricesOf === 'settings';
          });
          if (usdPerHour === null || isReplaced) return [];
          return [
            {
              accelerator: name,
              slice: type === undefined && example.workers > 1,
              flavor: null,
              host: null,
              zone: null,
              region,
              pricing,
              pricePerChipHourUsd: usdPerHour / example.chips,
              pricePerHourUsd: type === undefined ? null : usdPerHour,
              source: 'catalogue',
              pricesOf: priceTable.date,
              sinceAt: null,
            },
          ];
        }),
      ),
  );
}

/** A type of the generation; for v2 and v3 also one of several machines, because its chips have another price. */
function examplesOf(name: string): readonly Accelerator[] {
  const generation = generations.find((one) => one.name === name);
  if (generation === undefined) return [];
  const all = acceleratorsOf(generation);
  const [single] = all;
  const slice = name === 'v2' || name === 'v3' ? all.find(({ workers }) => workers > 1) : undefined;
  return [single, slice].filter((one) => one !== undefined);
}
