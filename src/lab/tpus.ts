// The lab's TPUs: what is known of each beside its cloud, and the short names that people use.

import type { Instant } from '../core/time.ts';

/** A TPU that the lab shares. It exists by name before and after every job; who may use it is the lab's own affair. */
export interface LabTpu {
  /** The full name in the cloud: `kmh-tpuvm-v2-32-1`. */
  readonly name: string;
  /** Null: the one of the settings (`tpu.project`). */
  readonly project: string | null;
  /** Null while nobody has said it and no look has found it. */
  readonly zone: string | null;
  /** `v2-32`, `v5litepod-16`. */
  readonly accelerator: string;
  readonly pricing: 'ondemand' | 'preemptible' | 'spot';
  /** Null: what the accelerator wants by itself. */
  readonly runtimeVersion: string | null;
}

/** What stands in the booking sheet about one TPU. */
export interface Booking {
  /** The full name where the sheet's word for it is known here, else that word. */
  readonly tpu: string;
  /** As the sheet calls it. */
  readonly alias: string;
  readonly status: BookingStatus;
  /** The sheet name of who holds it; empty when free. */
  readonly user: string;
  /** What people write. */
  readonly note: string;
  /** What a program writes: `tpu run` its note, a look the cloud's state. */
  readonly scriptNote: string;
  /** What the sheet says otherwise: whom it belongs to, in which zone it is; empty where it does not. */
  readonly belongs: string;
  readonly zone: string;
}

/** People's note and the program's, joined; empty where there is none. */
export function notesIn({ note, scriptNote }: Pick<Booking, 'note' | 'scriptNote'>): string {
  return [note, scriptNote].filter((text) => text !== '').join('; ');
}

/** `unknown`: a word that nobody here knows; `words` keeps it. */
export type BookingStatus =
  | { readonly kind: 'free' | 'running' | 'reserved' | 'gone' }
  | { readonly kind: 'unknown'; readonly words: string };

/** A change of one booking: what is named is written, the rest is left as it is. */
export interface BookingChange {
  readonly status?: 'free' | 'running' | 'reserved' | 'gone';
  readonly user?: string;
  readonly note?: string;
  readonly scriptNote?: string;
}

/** The booking sheet: a table of the record, or a spreadsheet. */
export interface BookingSheet {
  /** What it is called to people: `the booking table`, `the spreadsheet "TPUs"`. */
  readonly called: string;
  /** Every row that can be read, and what could not, a sentence each. Throws JobmanError (5) where the sheet does not answer. */
  read(): Promise<{ readonly bookings: readonly Booking[]; readonly problems: readonly string[] }>;
  /**
   * Changes one TPU's booking after looking at it again. `unless` is asked about what stands there now; what it answers is why
   * nothing is written. Resolves with what stood before, null where the TPU has no row. Throws JobmanError (5) where the sheet
   * does not answer.
   */
  change(
    tpu: string,
    change: BookingChange,
    unless?: (now: Booking) => string | null,
  ): Promise<{ readonly before: Booking | null; readonly refused: string | null }>;
}

/** A booking in the record's own table. */
export interface BookingRow {
  readonly tpu: string;
  readonly status: 'free' | 'running' | 'reserved' | 'gone';
  readonly user: string;
  readonly note: string;
  readonly scriptNote: string;
  readonly at: Instant;
}
