// The booking sheet of a lab: its spreadsheet, or the table of the database.

import { join } from 'node:path';
import { createAnswerCache } from '../files/answer-cache.ts';
import type { BookingSheet } from '../lab/bookings.ts';
import type { LabStore } from '../lab/lab-store.ts';
import type { SheetCopy, SheetRows } from '../lab/sheet-outbox.ts';
import type { Site } from '../lab/site.ts';
import type { Instant } from '../core/model/time.ts';

/** Connects on the first request. */
export async function openSheet(
  { spreadsheet, namePrefix: prefix }: Pick<Site, 'spreadsheet' | 'namePrefix'>,
  { store, home, now }: { readonly store: LabStore; readonly home: string; readonly now: () => Instant },
): Promise<BookingSheet> {
  if (spreadsheet === null) {
    const { createLocalSheet } = await import('../lab/bookings.ts');
    return createLocalSheet(store, now);
  }
  const [{ createGoogleSheet }, { createSheetsApi }, { createSheetOutbox }] = await Promise.all([
    import('../sheet/google-sheet.ts'),
    import('../sheet/sheets-api.ts'),
    import('../lab/sheet-outbox.ts'),
  ]);
  const sheet = createGoogleSheet(createSheetsApi(spreadsheet), store, { tab: spreadsheet.tab, prefix });
  return createSheetOutbox(sheet, store, now, createCopy(home, `${spreadsheet.id} ${spreadsheet.tab ?? ''}`));
}

function createCopy(home: string, spreadsheet: string): SheetCopy {
  const cache = createAnswerCache(join(home, 'cache', 'sheet'));
  return {
    read() {
      const found = cache.read<SheetRows>(spreadsheet);
      return found === undefined ? null : { contents: found.value, readAt: found.fetchedAt };
    },
    write: (value, fetchedAt) => cache.write(spreadsheet, { value, fetchedAt }),
  };
}
