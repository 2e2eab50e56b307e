// Find: selects TPUs of the booking sheet by types such as v2, v34, v* and v2-32, and groups them for display.

import { generationOf } from '../catalogue/accelerators.ts';
import {
  parseAccelerator,
  acceleratorFromName,
  aliasesOf,
  generationName,
  type LabTpu,
  pricingFromName,
} from './tpus.ts';
import { type Booking, type BookingStatus } from './bookings.ts';

export interface FoundTpu {
  readonly booking: Booking;
  /** `v5litepod-8`; null if neither the registry nor a name has it. */
  readonly accelerator: string | null;
  readonly isPreemptible: boolean;
  readonly aliases: readonly string[];
}

export interface TpuRegistry {
  readonly tpus: readonly LabTpu[];
  readonly aliases: ReadonlyMap<string, string>;
}

/** The matching rows in the order of the sheet. A row of unknown type matches only a query for all. */
export function findTpus(
  bookings: readonly Booking[],
  registered: TpuRegistry,
  query: { readonly types: readonly string[]; readonly only: 'preemptible' | 'normal' | null },
): readonly FoundTpu[] {
  const { types, only } = query;
  return bookings
    .map((booking) => resolveBooking(booking, registered))
    .filter(({ accelerator }) => hasType(accelerator, types))
    .filter(({ isPreemptible }) => only === null || isPreemptible === (only === 'preemptible'));
}

/** True if one of the types means the accelerator, or without types. An unknown type is meant only by a query for all. */
export function hasType(accelerator: string | null, types: readonly string[]): boolean {
  return types.length === 0 || types.some((type) => typeMatcher(type)(accelerator));
}

function resolveBooking(booking: Booking, { tpus, aliases }: TpuRegistry): FoundTpu {
  const tpu = tpus.find(({ name }) => name === booking.tpu);
  const accelerator = tpu?.accelerator ?? acceleratorFromName(booking.tpu) ?? acceleratorFromName(booking.alias);
  // Labs use aliases with a p for preemptible TPUs: v2-32-p1, v4-32-py2.
  const isPreemptible =
    tpu === undefined
      ? pricingFromName(booking.tpu) !== 'ondemand' || /-p[a-z]*\d*$/i.test(booking.alias)
      : tpu.pricing !== 'ondemand';
  const called = [...new Set([booking.alias, ...aliasesOf(booking.tpu, aliases)])];
  return { booking, accelerator, isPreemptible, aliases: called };
}

/**
 * Type `v2-32`, generation `v5e` (`v5`: all of v5), several `v234`, from one on `v3+`, all `v*`, with size `v34-32`.
 */
function typeMatcher(query: string): (type: string | null) => boolean {
  const exact = parseAccelerator(query);
  if (exact !== null) return (type) => type === exact;
  const [, which = '', plus = '', size] = /^v(\*|\d+[a-z]*)(\+?)(?:-(\d+))?$/i.exec(query) ?? [];
  const isGeneration = generationMatcher(which.toLowerCase(), plus !== '');
  return (type) => {
    if (type === null) return which === '*' && size === undefined;
    return (
      isGeneration(generationName(type)) &&
      (size === undefined || type.slice(generationOf(type)?.prefix.length ?? 0) === size)
    );
  };
}

function generationMatcher(which: string, andAfter: boolean): (name: string) => boolean {
  if (which === '*') return () => true;
  const [, digits = '', letters = ''] = /^(\d+)([a-z]*)$/.exec(which) ?? [];
  return (name) => {
    const [, number = ''] = /(\d+)/.exec(name) ?? [];
    if (letters !== '') return name === `v${digits}${letters}` || (andAfter && Number(number) > Number(digits));
    return andAfter ? Number(number) >= Number(digits) : digits.includes(number);
  };
}

export interface FoundGroup {
  readonly heading: 'Free' | 'Reserved' | 'Running' | 'Gone' | 'Other';
  readonly found: readonly FoundTpu[];
}

const headings: readonly (readonly [BookingStatus['kind'], FoundGroup['heading']])[] = [
  ['free', 'Free'],
  ['reserved', 'Reserved'],
  ['running', 'Running'],
  ['gone', 'Gone'],
  ['unknown', 'Other'],
];

export function groupByStatus(found: readonly FoundTpu[]): readonly FoundGroup[] {
  return headings
    .map(([kind, heading]) => ({ heading, found: found.filter(({ booking }) => booking.status.kind === kind) }))
    .filter((group) => group.found.length > 0);
}
