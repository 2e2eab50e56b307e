// Lab: the lab over this machine's database. Loads only the lab's part of the store, because training scripts wait for
// upd-log and finish-job.

import { withoutDatabasePassword } from '../app/database-url.ts';
import type { Lab, LabServices } from '../lab/lab.ts';
import { type Site, siteOf } from '../lab/site.ts';
import { openLabStore } from '../store/lab.ts';
import { requireOriginalHome } from '../store/open-database.ts';
import { createJobFiles } from '../files/job-files.ts';
import { finalRows } from './final-rows.ts';
import { hasJobFiles, databaseOf } from './paths.ts';

/** Opens nothing yet. */
export function openLab(services: LabServices): Lab {
  const database = databaseOf(services);
  const { store, notify, close } = openLabStore({ ...database, isIdTaken: hasJobFiles(services.home), finalRows });
  let read: Promise<Site> | undefined;

  async function readSite(): Promise<Site> {
    const { lab } = await services.settings();
    return siteOf(lab, { home: services.home, userHome: services.io.userHome });
  }
  const site = (): Promise<Site> => (read ??= readSite());

  return {
    store,
    files: createJobFiles(services.home),
    site,
    sheet: async () => (await import('./sheet.ts')).openSheet(await site(), store, () => services.io.now()),
    tpus: async (note) => (await import('./tpu-operations.ts')).openTpuOperations(services, await site(), note),
    tmuxWindows: async () =>
      (await import('../remote/tmux.ts')).createTmux({ env: withoutDatabasePassword(services.io.env) }),
    async checkNow(jobs) {
      for (const id of jobs) await notify({ topic: 'job', id });
      return (await services.client()).wake();
    },
    assertOriginalHome: () => requireOriginalHome(database),
    close,
  };
}
