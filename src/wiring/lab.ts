// Lab: the lab over this machine's database. Loads only the lab's part of the store, because training scripts wait for
// upd-log and finish-job.

import { withoutDatabasePassword } from '../app/database-url.ts';
import type { Services } from '../app/services.ts';
import type { Lab } from '../lab/lab.ts';
import { type Site, siteOf } from '../lab/site.ts';
import { openLabStore } from '../store/lab.ts';
import { requireOriginalHome } from '../store/open-database.ts';
import { finalRows } from './final-rows.ts';
import { hasJobFiles, databaseOf } from './paths.ts';

/** Opens nothing yet. `opened`: of a process that has the database open. */
export function openLab(services: Services, opened?: ReturnType<typeof openLabStore>): Lab {
  const database = databaseOf(services);
  const { store, notify, close } =
    opened ?? openLabStore({ ...database, isIdTaken: hasJobFiles(services.home), finalRows });
  let read: Promise<Site> | undefined;

  async function readSite(): Promise<Site> {
    const { lab } = await services.settings();
    return siteOf(lab, { home: services.home, userHome: services.io.userHome });
  }
  const site = (): Promise<Site> => (read ??= readSite());
  const directories = async () => (await import('./lab-home.ts')).createDirectories(store);

  return {
    isOnServer: false,
    store,
    localStore: () => store,
    site,
    project: async () => (await services.settings()).tpu.project,
    checkFolder: async (path) => (await directories()).checkFolder(path),
    directory: async (user, number) => (await directories()).directory(user, number),
    async checkRows(user, now) {
      const [{ readCheckRows }, { createJobFiles }, { namePrefix }] = await Promise.all([
        import('../lab/check-rows.ts'),
        import('../files/job-files.ts'),
        site(),
      ]);
      return readCheckRows({ store, files: createJobFiles(services.home), namePrefix }, user, now);
    },
    sheet: async () =>
      (await import('./sheet.ts')).openSheet(await site(), {
        store,
        home: services.home,
        now: () => services.io.now(),
      }),
    tpus: async (note) => (await import('./tpu-operations.ts')).openTpuOperations(services, await site(), note),
    tmuxWindows: async () =>
      (await import('../remote/tmux.ts')).createTmux({ env: withoutDatabasePassword(services.io.env) }),
    async checkNow(jobs, client) {
      for (const id of jobs) await notify({ topic: 'job', id });
      return client.wake();
    },
    assertOriginalHome: () => requireOriginalHome(database),
    close,
  };
}
