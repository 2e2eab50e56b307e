// Lab: the lab's part of the record, as the rest of the program sees it.

import type { LabRecord } from '../lab/record.ts';
import type { IsTaken } from './jobs.ts';
import * as registry from './lab-registry.ts';
import * as windows from './lab-windows.ts';
import { openRecordFile, type OpenRecord, type Run } from './record-file.ts';

/** The part of the record that is about the lab, over these two ways to run an operation. */
export function labRecord(read: Run, write: Run, isTaken: IsTaken): LabRecord {
  return {
    users: () => read(registry.readUsers),
    addUser: (user) => write((db) => registry.addUser(db, user)),
    changeUser: (name, change) => write((db) => registry.changeUser(db, name, change)),
    dropUser: (name) => write((db) => registry.dropUser(db, name)),

    tpus: () => read(registry.readTpus),
    tpuAliases: () => read(registry.readAliases),
    changeTpu: (name, change) => write((db) => registry.changeTpu(db, name, change)),
    setTpuAlias: (alias, name) => write((db) => registry.setAlias(db, alias, name)),

    async addPastJob(past) {
      const { addPastJob } = await import('./past-jobs.ts');
      return write((db) => addPastJob(db, past, isTaken));
    },
    addJob: (job) => write((db) => windows.addLabJob(db, job)),
    changeJob: (job, change) => write((db) => windows.changeLabJob(db, job, change)),
    job: (job) => read(async (db) => (await windows.readLabJobs(db, { job }))[0] ?? null),
    jobs: (user) => read((db) => windows.readLabJobs(db, user === undefined ? {} : { user })),
    lives: (user, ids) => read((db) => windows.readLives(db, user, ids)),

    async alike(asked, since, most) {
      const { readAlike } = await import('./jobs.ts');
      return read((db) => readAlike(db, asked, since, most));
    },

    openWindow: (job, attempt, now) => write((db) => windows.openWindow(db, { job, attempt, now })),
    windows: (query) => read((db) => windows.readWindows(db, query)),
    windowOf: (session, window) => read((db) => windows.findWindow(db, session, window)),
    report: (session, window, report) => write((db) => windows.reportWindow(db, session, window, report)),
    finish: (session, window, at) => write((db) => windows.finishWindow(db, session, window, at)),
    markWindows: (which, mark, at) => write((db) => windows.markWindows(db, which, mark, at)),

    bookings: () => read(registry.readBookings),
    changeBooking: (tpu, change) => write((db) => registry.changeBooking(db, tpu, change)),

    eventsSince: (user, after, kinds) => read((db) => windows.readEventsSince(db, user, after, kinds)),

    together: (work) =>
      write((db) => {
        const alone = oneByOne();
        return work(
          labRecord(
            (operation) => alone(() => operation(db)),
            (operation) => alone(() => db.transaction(operation)),
            isTaken,
          ),
        );
      }),
  };
}

/** A hundred commands of the lab may begin in the same second, and a script does not repeat its report. */
const patienceMs = 60_000;

/** The lab's part of the record in that file, without loading the jobs' part, because trainings wait for it. Opens nothing yet. */
export function openLabRecord({ isTaken = () => false, ...given }: OpenRecord & { readonly isTaken?: IsTaken }): {
  readonly record: LabRecord;
  readonly close: () => Promise<void>;
} {
  const { read, write, close } = openRecordFile({ patienceMs, ...given });
  return { record: labRecord(read, write, isTaken), close };
}

/** Parts of one transaction follow each other, also those that are begun at once, so that each can be undone alone. */
function oneByOne(): <T>(operation: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  return (operation) => {
    const next = last.then(operation);
    last = next.catch(() => undefined);
    return next;
  };
}
