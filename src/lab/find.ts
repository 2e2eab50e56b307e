// Find: which TPUs of the booking sheet a person means by words like v2, v34, v* and v2-32, and in which groups they are shown.

import { generationOf } from '../catalogue/accelerators.ts';
import { acceleratorCalled, acceleratorIn, aliasesOf, generationName, type LabTpu, pricingIn } from './tpus.ts';
import { type Booking, type BookingStatus } from './bookings.ts';

export interface FoundTpu {
  readonly booking: Booking;
  /** `v5litepod-8`; null where neither the registry nor a name tells it. */
  readonly accelerator: string | null;
  readonly isPreemptible: boolean;
  readonly aliases: readonly string[];
}

export interface Registered {
  readonly tpus: readonly LabTpu[];
  readonly aliases: ReadonlyMap<string, string>;
}

/** The rows that are meant, in the order of the sheet. A row that tells no type is meant by a query for all. */
export function findTpus(
  bookings: readonly Booking[],
  registered: Registered,
  query: { readonly types: readonly string[]; readonly only: 'preemptible' | 'normal' | null },
): readonly FoundTpu[] {
  const { types, only } = query;
  const wanted = types.map(typesMeant);
  return bookings
    .map((booking) => knownOf(booking, registered))
    .filter(({ accelerator }) => wanted.length === 0 || wanted.some((isMeant) => isMeant(accelerator)))
    .filter(({ isPreemptible }) => only === null || isPreemptible === (only === 'preemptible'));
}

function knownOf(booking: Booking, { tpus, aliases }: Registered): FoundTpu {
  const tpu = tpus.find(({ name }) => name === booking.tpu);
  const accelerator = tpu?.accelerator ?? acceleratorIn(booking.tpu) ?? acceleratorIn(booking.alias);
  // Labs mark the aliases of preemptible TPUs with a p: v2-32-p1, v4-32-py2.
  const isPreemptible =
    tpu === undefined
      ? pricingIn(booking.tpu) !== 'ondemand' || /-p[a-z]*\d*$/i.test(booking.alias)
      : tpu.pricing !== 'ondemand';
  const called = [...new Set([booking.alias, ...aliasesOf(booking.tpu, aliases)])];
  return { booking, accelerator, isPreemptible, aliases: called };
}

/**
 * A type (`v2-32`, `v5e-8`); a generation (`v2`, `v5e`; `v5` is all of v5), several (`v234`), one and all after it (`v3+`), or
 * every one (`v*`), each also of one size (`v34-32`).
 */
function typesMeant(word: string): (type: string | null) => boolean {
  const exact = acceleratorCalled(word);
  if (exact !== null) return (type) => type === exact;
  const [, which = '', plus = '', size] = /^v(\*|\d+[a-z]*)(\+?)(?:-(\d+))?$/i.exec(word) ?? [];
  const isGeneration = generationMeant(which.toLowerCase(), plus !== '');
  return (type) => {
    if (type === null) return which === '*' && size === undefined;
    return (
      isGeneration(generationName(type)) &&
      (size === undefined || type.slice(generationOf(type)?.prefix.length ?? 0) === size)
    );
  };
}

function generationMeant(which: string, andAfter: boolean): (name: string) => boolean {
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

export function groupsOf(found: readonly FoundTpu[]): readonly FoundGroup[] {
  return headings
    .map(([kind, heading]) => ({ heading, found: found.filter(({ booking }) => booking.status.kind === kind) }))
    .filter((group) => group.found.length > 0);
}
