// Lab: the lab's part of the database, as the rest of the program sees it.

import type { LabStore } from '../lab/lab-store.ts';
import type { IsIdTaken } from './jobs.ts';
import * as registry from './lab-registry.ts';
import * as windows from './lab-windows.ts';
import { openDatabaseFile, type OpenDatabaseOptions, type RunOperation } from './database-file.ts';

export function labStore(read: RunOperation, write: RunOperation, isIdTaken: IsIdTaken): LabStore {
  return {
    users: () => read(registry.readUsers),
    addUser: (user) => write((db) => registry.addUser(db, user)),
    changeUser: (name, change) => write((db) => registry.changeUser(db, name, change)),
    removeUser: (name) => write((db) => registry.dropUser(db, name)),

    tpus: () => read(registry.readTpus),
    tpuAliases: () => read(registry.readAliases),
    changeTpu: (name, change) => write((db) => registry.changeTpu(db, name, change)),
    setTpuAlias: (alias, name) => write((db) => registry.setAlias(db, alias, name)),

    async addImportedJob(past) {
      const { addPastJob } = await import('./past-jobs.ts');
      return write((db) => addPastJob(db, past, isIdTaken));
    },
    addJob: (job) => write((db) => windows.addLabJob(db, job)),
    changeJob: (job, change) => write((db) => windows.changeLabJob(db, job, change)),
    job: (job) => read(async (db) => (await windows.readLabJobs(db, { job }))[0] ?? null),
    jobs: (user) => read((db) => windows.readLabJobs(db, user === undefined ? {} : { user })),
    jobStates: (user, ids) => read((db) => windows.readUserJobs(db, user, ids)),

    async similarJobs(requested, since, limit) {
      const { readSimilarJobs } = await import('./jobs.ts');
      return read((db) => readSimilarJobs(db, requested, since, limit));
    },

    openWindow: (job, attempt, now) => write((db) => windows.openWindow(db, { job, attempt, now })),
    windows: (query) => read((db) => windows.readWindows(db, query)),
    findWindow: (session, window) => read((db) => windows.findWindow(db, session, window)),
    reportWindow: (session, window, report) => write((db) => windows.reportWindow(db, session, window, report)),
    finishWindow: (session, window, at) => write((db) => windows.finishWindow(db, session, window, at)),
    setWindowState: (which, state, at) => write((db) => windows.setWindowTimes(db, which, state, at)),

    bookings: () => read(registry.readBookings),
    changeBooking: (tpu, change) => write((db) => registry.changeBooking(db, tpu, change)),

    eventsSince: (user, after, kinds) => read((db) => windows.readEventsSince(db, user, after, kinds)),

    transaction: (work) =>
      write((db) => {
        const inOrder = createSequence();
        return work(
          labStore(
            (operation) => inOrder(() => operation(db)),
            (operation) => inOrder(() => db.transaction(operation)),
            isIdTaken,
          ),
        );
      }),
  };
}

/** A hundred lab commands may begin in the same second, and a script does not repeat its report. */
const busyTimeoutMs = 60_000;

/** Does not load the jobs' part, because training scripts wait for the lab's. Opens no file yet. */
export function openLabStore({
  isIdTaken = () => false,
  ...given
}: OpenDatabaseOptions & { readonly isIdTaken?: IsIdTaken }): {
  readonly store: LabStore;
  readonly close: () => Promise<void>;
} {
  const { read, write, close } = openDatabaseFile({ busyTimeoutMs, ...given });
  return { store: labStore(read, write, isIdTaken), close };
}

/** Runs the parts of a transaction one after the other, so that each can be rolled back alone. */
function createSequence(): <T>(operation: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  return (operation) => {
    const next = last.then(operation);
    last = next.catch(() => undefined);
    return next;
  };
}
