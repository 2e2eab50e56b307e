// Grant parts: what a row of the setting `grants` may hold. Apart from what follows of it (grants.ts), because every command that
// reads the settings reads this.

import { accelerator, acceleratorMeant, generations } from '../core/accelerators.ts';
import type { TpuSpec } from '../core/spec.ts';
import { day, type Instant } from '../core/time.ts';

/** One row of the setting `grants`, as it is written. A part that is not there limits nothing. */
export interface Grant {
  /** A zone; `*` in it stands for any text. */
  readonly zone?: string;
  /** A type (`v4-16`) or a generation (`v5e`); `*` in it stands for any text. */
  readonly accelerator?: string;
  readonly pricing?: TpuSpec['pricing'];
  /** How many chips may be held at once by all jobs of this record that the row is about. */
  readonly chips?: number;
  /** The last day, in UTC (`2026-12-31`), or a moment (`2026-12-31T18:00:00Z`). */
  readonly until?: string;
}

/** The parts of a row, each with what may stand there. */
export const grantParts: Readonly<
  Record<keyof Grant, { readonly words: string; readonly isRight: (value: unknown) => boolean }>
> = {
  zone: { words: 'a zone like "us-east5-b", or with a star "us-*"', isRight: (value) => isName(value) },
  accelerator: {
    words: 'a type like "v4-16", a generation like "v5e", or one with a star',
    isRight: (value) => isName(value) && acceleratorSlip(value) === undefined,
  },
  pricing: {
    words: '"spot", "ondemand" or "preemptible"',
    isRight: (value) => value === 'spot' || value === 'ondemand' || value === 'preemptible',
  },
  chips: {
    words: 'a whole number from 1 on',
    isRight: (value) => typeof value === 'number' && Number.isSafeInteger(value) && value >= 1,
  },
  until: {
    words: 'a day like "2026-12-31", or a moment like "2026-12-31T18:00:00Z"',
    isRight: (value) => typeof value === 'string' && !Number.isNaN(endOf(value)),
  },
};

/** The type that was most likely meant, when it is certain that no type is called so; undefined for what may be a new one. */
export function acceleratorSlip(text: string): string | undefined {
  if (text.includes('*') || generations.some(({ name }) => name === text) || accelerator(text) !== undefined)
    return undefined;
  return acceleratorMeant(text);
}

function isName(value: unknown): value is string {
  return typeof value === 'string' && /^[a-z0-9*-]+$/.test(value);
}

/** The first moment that is not within it any more; NaN for what is neither a day nor a moment. */
export function endOf(until: string): Instant {
  const [, date = '', time] = /^(\d{4}-\d\d-\d\d)(T[\d:.]+(?:Z|[+-]\d\d:\d\d))?$/.exec(until) ?? [];
  const midnight = Date.parse(date);
  // Date.parse takes 30 February for 2 March, and says nothing of it.
  if (Number.isNaN(midnight) || !new Date(midnight).toISOString().startsWith(date)) return Number.NaN;
  return time === undefined ? midnight + day : Date.parse(until);
}
