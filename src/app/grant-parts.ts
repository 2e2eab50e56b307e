// Grant parts: what a row of the setting `grants` may hold. Apart from what follows of it (grants.ts), because every command that
// reads the settings reads this.

import { accelerator, acceleratorMeant, generations } from '../catalogue/accelerators.ts';
import { day, type Instant } from '../core/time.ts';
import { checked, record, textLike, whole, wordOf, type ValueOf } from '../schema/kinds.ts';

/** One row of the setting `grants`. A part that is not there limits nothing. */
export const grant = record(
  'a grant',
  '{ "accelerator": "v4-16", "chips": 16 }',
  {},
  {
    /** `*` stands for any text. */
    zone: textLike('a zone like "us-east5-b", or with a star "us-*"', isName),
    accelerator: checked(
      'a type like "v4-16", a generation like "v5e", or one with a star',
      (value): value is string => typeof value === 'string' && isName(value) && acceleratorSlip(value) === undefined,
      (value) => (typeof value === 'string' ? acceleratorSlip(value) : undefined),
    ),
    pricing: wordOf('"spot", "ondemand" or "preemptible"', ['spot', 'ondemand', 'preemptible']),
    /** The most chips that all jobs of this record together may hold of what the row is about. */
    chips: whole('a whole number from 1 on', 1),
    until: textLike(
      'a day like "2026-12-31", or a moment like "2026-12-31T18:00:00Z"',
      (text) => !Number.isNaN(endOf(text)),
    ),
  },
);

export type Grant = ValueOf<typeof grant>;

/** The type that was most likely meant, when it is certain that no type is called so; undefined for what may be a new one. */
function acceleratorSlip(text: string): string | undefined {
  if (text.includes('*') || generations.some(({ name }) => name === text) || accelerator(text) !== undefined)
    return undefined;
  return acceleratorMeant(text);
}

function isName(text: string): boolean {
  return /^[a-z0-9*-]+$/.test(text);
}

/** The first moment that is not within it any more; NaN for what is neither a day nor a moment. */
export function endOf(until: string): Instant {
  const [, date = '', time] = /^(\d{4}-\d\d-\d\d)(T[\d:.]+(?:Z|[+-]\d\d:\d\d))?$/.exec(until) ?? [];
  const midnight = Date.parse(date);
  // Date.parse takes 30 February for 2 March, and says nothing of it.
  if (Number.isNaN(midnight) || !new Date(midnight).toISOString().startsWith(date)) return Number.NaN;
  return time === undefined ? midnight + day : Date.parse(until);
}
