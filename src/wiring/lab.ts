// Lab: the lab of this machine's record. Only the record's lab part is loaded with it: trainings wait for upd-log and finish-job.

import type { Lab, LabServices } from '../lab/lab.ts';
import { type Site, siteOf } from '../lab/site.ts';
import { openLabRecord } from '../store/lab.ts';
import { expectOriginal } from '../store/record-file.ts';
import { hasTraces, recordFile } from './paths.ts';

/** Opens nothing yet: the record is opened on first use, and each other part is loaded then. */
export function openLab(services: LabServices): Lab {
  const { record, close } = openLabRecord({ file: recordFile(services.home), isTaken: hasTraces(services.home) });
  let read: Promise<Site> | undefined;

  function site(): Promise<Site> {
    return (read ??= services
      .settings()
      .then(({ lab }) => siteOf(lab, { home: services.home, userHome: services.io.userHome })));
  }

  return {
    record,
    site: () => site(),
    async sheet() {
      const { spreadsheet, namePrefix } = await site();
      if (spreadsheet !== null) {
        const [{ createGoogleSheet }, { createSheetsApi }] = await Promise.all([
          import('../sheet/google-sheet.ts'),
          import('../sheet/sheets-api.ts'),
        ]);
        return createGoogleSheet(createSheetsApi(spreadsheet), record, { tab: spreadsheet.tab, prefix: namePrefix });
      }
      const { createRecordSheet } = await import('../lab/bookings.ts');
      return createRecordSheet(record, () => services.io.now());
    },
    tpus: async (note, owner) => (await import('./tpu.ts')).openTpuDesk(services, await site(), note, owner),
    windows: async () => (await import('../remote/tmux.ts')).createTmux({ env: services.io.env }),
    async lookNow(jobs) {
      const { dropWake } = await import('../controller/wake-folder.ts');
      for (const job of jobs) await dropWake(services.home, job);
      return (await services.client()).wake();
    },
    expectOriginal: () => expectOriginal(recordFile(services.home)),
    close,
  };
}
